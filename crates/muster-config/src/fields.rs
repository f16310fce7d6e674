//! Every field of every file format. The readers know the fields of these tables and no others, and
//! the reference pages are made from them: a field without a row here cannot be read.

/// One field of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the file.
    pub name: &'static str,
    /// What it holds.
    pub kind: &'static str,
    /// What holds when it is left out; none when it must not be.
    pub default: Option<&'static str>,
    /// What it is for.
    pub meaning: &'static str,
}

/// The names that a mapping may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// Of a documented table.
    Table(&'static [Field]),
    /// By themselves.
    Names(&'static [&'static str]),
}

impl Known {
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let (table, names): (&[Field], &[&str]) = match self {
            Self::Table(table) => (table, &[]),
            Self::Names(names) => (&[], names),
        };
        table.iter().map(|field| field.name).chain(names.iter().copied())
    }
}

impl From<&'static [Field]> for Known {
    fn from(table: &'static [Field]) -> Self {
        Self::Table(table)
    }
}

impl From<&'static [&'static str]> for Known {
    fn from(names: &'static [&'static str]) -> Self {
        Self::Names(names)
    }
}

const fn required(name: &'static str, kind: &'static str, meaning: &'static str) -> Field {
    Field { name, kind, default: None, meaning }
}

const fn optional(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Field {
    Field { name, kind, default: Some(default), meaning }
}

/// A CLI config.
pub const CONFIG: &[Field] = &[
    optional(
        "name",
        "string",
        "`climax`",
        "Name of the CLI: shown with its tools, matched by the `cli` filter, and the server's name when this is the only config",
    ),
    optional("description", "string", "empty", "One line for the summary of `climax_search`"),
    required(
        "command",
        "string",
        "The program, and the words that every command line begins with. A leading `~` and `$NAME` are expanded, then the text is split at blanks; quotes mean nothing",
    ),
    optional(
        "env",
        "map of strings",
        "none",
        "Variables added to the environment of the program, values taken literally",
    ),
    optional(
        "working_dir",
        "string or null",
        "the server's directory",
        "Where the program runs unless a `cwd` argument says otherwise. Taken literally; a relative path starts at the server's directory",
    ),
    optional(
        "category",
        "string or null",
        "none",
        "What the CLI is about in one word, matched by the `category` filter",
    ),
    optional("tags", "list of strings", "none", "More words that a search finds the tools by"),
    optional(
        "global_args",
        "list of arguments",
        "none",
        "Arguments at the end of every command line. Their values are their defaults, in which `$NAME` is expanded; agents neither see nor set them",
    ),
    required("tools", "list of tools", "The tools; the list may be empty"),
];

/// A tool of a CLI.
pub const TOOL: &[Field] = &[
    required(
        "name",
        "string",
        "What agents call it by. Of two tools with one name the later counts, also across files",
    ),
    required(
        "description",
        "string",
        "What it does, for the agent that chooses it and for the search that finds it",
    ),
    optional(
        "command",
        "string",
        "empty",
        "The words after the config's `command`: subcommand and fixed options. Split at blanks, nothing is expanded",
    ),
    optional("args", "list of arguments", "none", "What a call may say"),
    optional(
        "timeout",
        "number or null",
        "30",
        "Seconds until the program and everything it started is ended; `0` means the default",
    ),
];

/// An argument of a tool, or of every tool.
pub const ARGUMENT: &[Field] = &[
    required("name", "string", "The key that a call uses"),
    optional(
        "description",
        "string",
        "empty",
        "What the value means: its unit, an example, what happens without it",
    ),
    optional(
        "type",
        "`string`, `integer`, `number` or `boolean`",
        "`string`",
        "What kind of value it takes. `climax_call` converts what converts without doubt, such as `\"5\"` for an integer",
    ),
    optional("required", "boolean", "`false`", "Whether a call without it is refused"),
    optional(
        "default",
        "anything",
        "none",
        "The value of a flag that a call does not give. It does not satisfy `required`, and has no effect on `positional`, `cwd` and `stdin` arguments",
    ),
    optional(
        "flag",
        "string or null",
        "`--` and the name, `_` turned into `-`",
        "The flag as typed. One that ends in `=` shares its word with the value",
    ),
    optional("positional", "boolean", "`false`", "The value is a word without a flag"),
    optional(
        "cwd",
        "boolean",
        "`false`",
        "The value is the directory this call runs in, and no part of the command line",
    ),
    optional(
        "stdin",
        "boolean",
        "`false`",
        "The value is written to the standard input, and is no part of the command line",
    ),
    optional(
        "enum",
        "list of strings or null",
        "none",
        "The only values allowed; empty allows any",
    ),
];

/// A policy.
pub const POLICY: &[Field] = &[
    optional("executor", "executor", "local", "Where the commands run"),
    optional(
        "default",
        "`enabled` or `disabled`",
        "`disabled`",
        "Whether the tools that `tools` does not name exist",
    ),
    optional(
        "effect",
        "`read`, `write`, `destructive` or null",
        "anything",
        "The most that a tool may do that `tools` does not name: one that may do worse does not exist",
    ),
    optional(
        "tools",
        "map of tool names to rules",
        "none",
        "The tools that exist in any case, and their limits. `{}` is a rule without limits",
    ),
];

/// Where commands run.
pub const EXECUTOR: &[Field] = &[
    optional(
        "type",
        "`local` or `docker`",
        "`local`",
        "On this machine, or each command in a fresh container: `docker run --rm …`",
    ),
    optional("image", "string or null", "none", "The image; must be given for `docker`"),
    optional(
        "volumes",
        "list of strings",
        "none",
        "Mounts as `docker run -v` takes them; `$NAME` is expanded, `~` is not",
    ),
    optional("working_dir", "string or null", "the image's", "The directory inside the container"),
    optional(
        "network",
        "string or null",
        "docker's default",
        "The network to join, such as `none`",
    ),
];

/// What a policy says about one tool.
pub const RULE: &[Field] = &[
    optional(
        "description",
        "string or null",
        "the config's",
        "Words in place of the tool's own, in `--classic` mode and in `climax list`",
    ),
    optional(
        "effect",
        "`read`, `write`, `destructive` or null",
        "as the tool and its name say",
        "What the tool may do: shown in listings, and held against the `effect` of a call",
    ),
    optional("args", "map of argument names to constraints", "none", "Limits by argument"),
];

/// What a policy says about one argument.
pub const CONSTRAINT: &[Field] = &[
    optional(
        "pattern",
        "string or null",
        "none",
        "A regular expression as in Python's `re` that the whole value must match; looked at when the value is text",
    ),
    optional("min", "number or null", "none", "The least number allowed"),
    optional("max", "number or null", "none", "The greatest number allowed"),
];

#[cfg(test)]
mod tests;
