//! The tables are held against the readers: what they say is required, may be null or is read, is.

use super::{ARGUMENT, CONFIG, CONSTRAINT, EXECUTOR, Field, POLICY, RULE, TOOL};
use crate::{LoadError, cli, policy};

/// A mapping of a format: its fields, the least it can say, and a file around it.
struct Level {
    fields: &'static [Field],
    least: &'static [(&'static str, &'static str)],
    file: fn(&str) -> String,
    load: fn(&str) -> Result<(), LoadError>,
}

fn load_cli(text: &str) -> Result<(), LoadError> {
    cli::parse(text).map(drop)
}

fn load_policy(text: &str) -> Result<(), LoadError> {
    policy::parse(text).map(drop)
}

const LEVELS: &[Level] = &[
    Level {
        fields: CONFIG,
        least: &[("command", "x"), ("tools", "[]")],
        file: str::to_owned,
        load: load_cli,
    },
    Level {
        fields: TOOL,
        least: &[("name", "x"), ("description", "x")],
        file: |tool| format!("{{command: x, tools: [{tool}]}}"),
        load: load_cli,
    },
    Level {
        fields: ARGUMENT,
        least: &[("name", "x")],
        file: |argument| {
            format!(
                "{{command: x, tools: [{{name: x, description: x, args: [{argument}]}}], global_args: [{argument}]}}"
            )
        },
        load: load_cli,
    },
    Level { fields: POLICY, least: &[], file: str::to_owned, load: load_policy },
    Level {
        fields: EXECUTOR,
        least: &[],
        file: |executor| format!("{{executor: {executor}}}"),
        load: load_policy,
    },
    Level {
        fields: RULE,
        least: &[],
        file: |rule| format!("{{tools: {{x: {rule}}}}}"),
        load: load_policy,
    },
    Level {
        fields: CONSTRAINT,
        least: &[],
        file: |constraint| format!("{{tools: {{x: {{args: {{x: {constraint}}}}}}}}}"),
        load: load_policy,
    },
];

/// Whether the least file loads when `field` says `value`, or is left out.
fn loads(level: &Level, field: &Field, value: Option<&str>) -> bool {
    let mut members: Vec<(&str, &str)> = level.least.to_vec();
    members.retain(|(name, _)| *name != field.name);
    members.extend(value.map(|value| (field.name, value)));
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    (level.load)(&(level.file)(&format!("{{{}}}", members.join(", ")))).is_ok()
}

#[test]
fn every_row_is_true() {
    for level in LEVELS {
        for field in level.fields {
            let Field { name, kind, default, meaning } = field;
            assert_eq!(loads(level, field, None), default.is_some(), "{name} is required");
            let anything = *kind == "anything";
            let nullable = anything || kind.ends_with("or null");
            assert_eq!(loads(level, field, Some("~")), nullable, "{name} may be null");
            // No field holds a list of lists of numbers.
            assert_eq!(loads(level, field, Some("[[1]]")), anything, "{name} is read");
            assert!(!meaning.ends_with('.'), "{name}: a row is no sentence");
        }
    }
}

#[test]
fn no_field_is_there_twice() {
    for level in LEVELS {
        let mut names: Vec<&str> = level.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), level.fields.len());
    }
}
