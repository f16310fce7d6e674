//! The fields of a toolset.

use muster_core::fields::{EMPTY, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldType::{List, String};

use crate::policy::fields::EFFECTS;

/// A toolset.
pub static SPEC: FieldTable = FieldTable::new(
    "ToolsetSpec",
    "toolset",
    &[
        Field::optional("description", String, EMPTY, "One line about it").or_null(),
        Field::optional(
            "servers",
            List(&String),
            NONE,
            "Patterns of MCP servers and CLIs, all of whose tools are in the set: `github`, `prod-*`",
        ),
        Field::optional(
            "tools",
            List(&String),
            NONE,
            "Patterns of tools in the set, as agents see them (`x_github_get_*`) or with their server \
         (`github/get_*`). Only a pattern that begins with `core` matches tools of the gateway itself",
        ),
        Field::optional(
            "tags",
            List(&String),
            NONE,
            "Tags of MCP servers and CLIs, all of whose tools are in the set",
        ),
        Field::optional(
            "effect",
            EFFECTS,
            FieldDefault::Unset("any effect"),
            "The greatest effect of tools in the set",
        )
        .or_null(),
        Field::optional(
            "pinned",
            List(&String),
            NONE,
            "Patterns of tools in the set that agents see under their own names, beside the meta-tools",
        ),
    ],
);
