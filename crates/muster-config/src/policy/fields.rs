//! The fields of a policy.

use muster_core::fields::{FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldType::{Boolean, Enum, List, Map, Number, Object, String};

pub(crate) const EFFECTS: FieldType = Enum(&["read", "write", "destructive"]);

/// A policy.
pub static POLICY: FieldTable = FieldTable::new("PolicyConfig", "policy", &[
    Field::optional(
        "executor",
        Object(&EXECUTOR),
        FieldDefault::Unset("local"),
        "Where the commands run",
    ),
    Field::optional(
        "default",
        Enum(&["enabled", "disabled"]),
        FieldDefault::Json("\"disabled\""),
        "Whether tools exist that `tools` does not name",
    ),
    Field::optional(
        "effect",
        EFFECTS,
        FieldDefault::Unset("any effect"),
        "The greatest effect of tools that `tools` does not name: a tool with a greater one does not exist",
    )
    .or_null(),
    Field::optional(
        "tools",
        Map(&Object(&RULE)),
        NONE,
        "The tools that exist in any case, and their limits. `{}` is a rule without limits",
    ),
    Field::optional(
        "callers",
        List(&Object(&CALLERS)),
        NONE,
        "What some callers may use beyond that",
    ),
]);

/// Grants to some callers, beyond the policy for everybody.
pub static CALLERS: FieldTable = FieldTable::new(
    "CallerPolicy",
    "callers",
    &[
        Field::optional(
            "users",
            List(&String),
            NONE,
            "Patterns of email addresses or subjects of logins: `ada@example.com`, `*@example.com`",
        ),
        Field::optional("groups", List(&String), NONE, "Groups of logins"),
        Field::optional(
            "clients",
            List(&String),
            NONE,
            "Patterns of the ids of OAuth clients that users logged in with: `https://app.example/client.json`",
        ),
        Field::optional("tokens", List(&String), NONE, "Names of static tokens"),
        Field::optional(
            "anonymous",
            Boolean,
            FALSE,
            "Whether callers without a login and without a token are meant",
        ),
        Field::optional(
            "default",
            Enum(&["enabled", "disabled"]),
            FieldDefault::Unset("adds nothing"),
            "`enabled`: tools that no rule names exist for these callers",
        )
        .or_null(),
        Field::optional(
            "effect",
            EFFECTS,
            FieldDefault::Unset("adds nothing, or any effect beside `default: enabled`"),
            "Tools that no rule names exist for these callers up to this effect",
        )
        .or_null(),
        Field::optional(
            "tools",
            Map(&Object(&RULE)),
            NONE,
            "Tools that exist for these callers, and their limits, which replace those of the same tool above",
        ),
        Field::optional(
            "toolset",
            String,
            NONE,
            "The name of a toolset whose tools exist for these callers",
        )
        .or_null(),
        Field::optional(
            "operator",
            Boolean,
            FALSE,
            "Whether these callers may use every tool of the gateway itself, such as `core_mcpserver_create`",
        ),
    ],
);

/// Where commands run.
pub static EXECUTOR: FieldTable = FieldTable::new(
    "ExecutorConfig",
    "executor",
    &[
        Field::optional(
            "type",
            Enum(&["local", "docker"]),
            FieldDefault::Json("\"local\""),
            "On this machine, or each command in a new container: `docker run --rm …`",
        ),
        Field::optional("image", String, NONE, "The image; must be given for `docker`").or_null(),
        Field::optional(
            "volumes",
            List(&String),
            NONE,
            "Mounts as `docker run -v` takes them; `$NAME` is expanded, `~` is not",
        ),
        Field::optional(
            "working_dir",
            String,
            FieldDefault::Unset("the image's"),
            "The directory inside the container",
        )
        .or_null(),
        Field::optional(
            "network",
            String,
            FieldDefault::Unset("docker's default"),
            "The network to join, such as `none`",
        )
        .or_null(),
    ],
);

/// The limits of one tool.
pub static RULE: FieldTable = FieldTable::new(
    "ToolPolicy",
    "rule",
    &[
        Field::optional(
            "description",
            String,
            FieldDefault::Unset("the config's"),
            "Replaces the tool's own description, in `--classic` mode and in `climax list`",
        )
        .or_null(),
        Field::optional(
            "effect",
            EFFECTS,
            FieldDefault::Unset("derived from the tool's annotations and name"),
            "The effect of the tool: shown in listings, and checked against the `effect` of a call",
        )
        .or_null(),
        Field::optional("args", Map(&Object(&CONSTRAINT)), NONE, "Constraints by argument name"),
    ],
);

/// The limits of one argument.
pub static CONSTRAINT: FieldTable = FieldTable::new("ArgConstraint", "constraint", &[
    Field::optional(
        "pattern",
        String,
        NONE,
        "A regular expression as in Python's `re` that the whole value must match; checked when the value is text",
    )
    .or_null(),
    Field::optional("min", Number, NONE, "The least number allowed").or_null(),
    Field::optional("max", Number, NONE, "The greatest number allowed").or_null(),
]);
