//! The fields of a CLI config.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldType::{Any, Boolean, Enum, List, Map, Number, Object, String};

/// A CLI config.
pub static CONFIG: FieldTable = FieldTable::new("CLImaxConfig", "config", &[
    Field::optional(
        "name",
        String,
        FieldDefault::Json("\"climax\""),
        "Name of the CLI: shown with its tools, matched by the `cli` filter, and the server's name when this is the only config",
    ),
    Field::optional("description", String, EMPTY, "One line for the summary of `climax_search`"),
    Field::required(
        "command",
        String,
        "The program, and the arguments that every command line begins with. A leading `~` and `$NAME` are expanded, then the text is split at blanks; quotes have no effect",
    ),
    Field::optional(
        "env",
        Map(&String),
        NONE,
        "Variables added to the environment of the program, values taken literally",
    ),
    Field::optional(
        "inherit_env",
        List(&String),
        FieldDefault::Unset("all variables"),
        "Names of variables that the program inherits from the server, besides `PATH`, `HOME`, `LANG` and others without secrets",
    )
    .or_null(),
    Field::optional(
        "working_dir",
        String,
        FieldDefault::Unset("the server's directory"),
        "Where the program runs unless a `cwd` argument says otherwise. Taken literally; a relative path starts at the server's directory",
    )
    .or_null(),
    Field::optional(
        "category",
        String,
        NONE,
        "The subject of the CLI in one word, matched by the `category` filter",
    )
    .or_null(),
    Field::optional(
        "end_of_options",
        String,
        FieldDefault::Unset("positional values come before flags"),
        "The word after which the program reads no options, such as `\"--\"`, for every tool. Positional values then come last, after this word, and may begin with `-`",
    )
    .or_null(),
    Field::optional(
        "background_processes",
        Enum(&["end", "keep"]),
        FieldDefault::Json("\"end\""),
        "What happens to processes that a call leaves running: they `end` with it, `SIGTERM` first, or the server may `keep` them until it ends itself",
    ),
    Field::optional(
        "credential_files",
        Enum(&["allow", "refuse"]),
        FieldDefault::Json("\"allow\""),
        "Whether calls may name files and folders that hold credentials, such as `~/.ssh`",
    ),
    Field::optional("tags", List(&String), NONE, "More words that a search finds the tools by"),
    Field::optional(
        "global_args",
        List(&Object(&ARGUMENT)),
        NONE,
        "Arguments at the end of every command line. Their values are their defaults, in which `$NAME` is expanded; agents neither see nor set them",
    ),
    Field::required("tools", List(&Object(&TOOL)), "The tools; the list may be empty"),
]);

/// A tool of a CLI.
pub static TOOL: FieldTable = FieldTable::new("ToolDef", "tool", &[
    Field::required(
        "name",
        String,
        "The name that agents call it by. Of two tools with one name the later one wins, also across files",
    ),
    Field::required(
        "description",
        String,
        "What it does, for the agent that chooses it and for the search that finds it",
    ),
    Field::optional(
        "command",
        String,
        EMPTY,
        "The arguments after the config's `command`: subcommand and fixed options. Split at blanks, nothing is expanded",
    ),
    Field::optional("args", List(&Object(&ARGUMENT)), NONE, "The arguments that a call may give"),
    Field::optional(
        "timeout",
        Number,
        FieldDefault::Json("30"),
        "Seconds until the program and every process it started is killed; `0` selects the default",
    )
    .or_null(),
    Field::optional(
        "effect",
        Enum(&["read", "write", "destructive"]),
        FieldDefault::Unset("by the tool's name"),
        "What a call may do: only `read`; `write`, which includes running other code, such as tests or build scripts; or be `destructive`, that is delete or overwrite. Policies and searches go by it",
    )
    .or_null(),
    Field::optional(
        "network",
        Boolean,
        FALSE,
        "Whether a call connects to other machines",
    ),
    Field::optional(
        "end_of_options",
        String,
        FieldDefault::Unset("the config's"),
        "As in the config, for this tool",
    )
    .or_null(),
    Field::optional(
        "background_processes",
        Enum(&["end", "keep"]),
        FieldDefault::Unset("the config's"),
        "As in the config, for this tool",
    )
    .or_null(),
]);

/// An argument of a tool, or of every tool.
pub static ARGUMENT: FieldTable = FieldTable::new("ToolArg", "argument", &[
    Field::required("name", String, "The key that a call uses"),
    Field::optional(
        "description",
        String,
        EMPTY,
        "What the value stands for: its unit, an example, what happens without it",
    ),
    Field::optional(
        "type",
        Enum(&["string", "integer", "number", "boolean"]),
        FieldDefault::Json("\"string\""),
        "The type of its value. `climax_call` converts values that convert without doubt, such as `\"5\"` for an integer",
    ),
    Field::optional("required", Boolean, FALSE, "Whether a call without it is refused"),
    Field::optional(
        "default",
        Any,
        NONE,
        "The value of a flag that a call does not give. It does not satisfy `required`, and has no effect on `positional`, `cwd` and `stdin` arguments",
    )
    .or_null(),
    Field::optional(
        "flag",
        String,
        FieldDefault::Unset("`--` and the name, `_` turned into `-`"),
        "The flag as typed. One that ends in `=` shares its word with the value",
    )
    .or_null(),
    Field::optional(
        "positional",
        Boolean,
        FALSE,
        "The value is a word without a flag. One that begins with `-` is refused, because the program would read it as an option; so is a negative number",
    ),
    Field::optional(
        "allow_leading_dash",
        Boolean,
        FALSE,
        "Whether a positional value may begin with `-`, and so be read as an option. `end_of_options` is the safe way",
    ),
    Field::optional(
        "cwd",
        Boolean,
        FALSE,
        "The value is the directory that this call runs in, and no part of the command line",
    ),
    Field::optional(
        "stdin",
        Boolean,
        FALSE,
        "The value is written to the standard input, and is no part of the command line",
    ),
    Field::optional(
        "recursive",
        Boolean,
        FALSE,
        "Whether the program reads the files below the folder that the value names, or below the working directory without a value. `credential_files: refuse` then also refuses a folder with credentials somewhere below it",
    ),
    Field::optional("enum", List(&String), NONE, "The only values allowed; empty allows any")
        .or_null(),
    Field::optional(
        "pattern",
        String,
        NONE,
        "The regular expression that the whole value must match",
    )
    .or_null(),
]);
