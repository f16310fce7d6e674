//! The tables are checked against the readers: each row must describe how its field is read.

use muster_core::fields::{Field, FieldDefault, FieldTable, FieldType};
use muster_workflow::fields as workflows;
use serde_json::Value as Json;

use super::{FORMATS, FileFormat};
use crate::{
    LoadError,
    cli::{
        self,
        fields::{ARGUMENT, CONFIG, TOOL},
    },
    mcpserver::{self, auth_fields as servers},
    policy::{
        self,
        fields::{CONSTRAINT, EXECUTOR, POLICY, RULE},
    },
    service,
    serviceclass::{self, fields as classes},
    settings::{self, Settings},
    workflow,
};

/// A mapping of a format: its fields, the least that it must contain, and a file around it.
struct Level {
    table: &'static FieldTable,
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

fn load_server(text: &str) -> Result<(), LoadError> {
    mcpserver::parse(text, "x").map(drop)
}

fn load_class(text: &str) -> Result<(), LoadError> {
    serviceclass::parse(text, "x").map(drop)
}

fn load_service(text: &str) -> Result<(), LoadError> {
    service::parse(text, "x").map(drop)
}

fn load_workflow(text: &str) -> Result<(), LoadError> {
    workflow::parse(text, "x").map(drop)
}

fn auth(auth: &str) -> String {
    format!("{{url: x, auth: {auth}}}")
}

fn class(config: &str) -> String {
    format!("{{serviceConfig: {config}}}")
}

/// A class with a part of its configuration in addition to the required tools.
fn class_with(part: &str) -> String {
    class(&format!("{{lifecycleTools: {{start: {{tool: a}}, stop: {{tool: b}}}}, {part}}}"))
}

fn health_tool(tool: &str) -> String {
    class(&format!(
        "{{lifecycleTools: {{start: {{tool: a}}, stop: {{tool: b}}, healthCheck: {tool}}}}}"
    ))
}

fn step(step: &str) -> String {
    format!("{{steps: [{step}]}}")
}

const LEVELS: &[Level] = &[
    Level {
        table: &CONFIG,
        least: &[("command", "x"), ("tools", "[]")],
        file: str::to_owned,
        load: load_cli,
    },
    Level {
        table: &TOOL,
        least: &[("name", "x"), ("description", "x")],
        file: |tool| format!("{{command: x, tools: [{tool}]}}"),
        load: load_cli,
    },
    Level {
        table: &ARGUMENT,
        least: &[("name", "x")],
        file: |argument| {
            format!(
                "{{command: x, tools: [{{name: x, description: x, args: [{argument}]}}], global_args: [{argument}]}}"
            )
        },
        load: load_cli,
    },
    Level { table: &POLICY, least: &[], file: str::to_owned, load: load_policy },
    Level {
        table: &EXECUTOR,
        least: &[],
        file: |executor| format!("{{executor: {executor}}}"),
        load: load_policy,
    },
    Level {
        table: &RULE,
        least: &[],
        file: |rule| format!("{{tools: {{x: {rule}}}}}"),
        load: load_policy,
    },
    Level {
        table: &CONSTRAINT,
        least: &[],
        file: |constraint| format!("{{tools: {{x: {{args: {{x: {constraint}}}}}}}}}"),
        load: load_policy,
    },
    Level {
        table: mcpserver::FORMAT.short,
        least: &[("url", "x")],
        file: str::to_owned,
        load: load_server,
    },
    Level { table: &servers::AUTH, least: &[], file: auth, load: load_server },
    Level {
        table: &servers::AUTHORIZATION_SERVER,
        least: &[("issuer", "x")],
        file: |pin| auth(&format!("{{authorizationServer: {pin}}}")),
        load: load_server,
    },
    Level {
        table: &servers::TOKEN_EXCHANGE,
        least: &[],
        file: |exchange| auth(&format!("{{tokenExchange: {exchange}}}")),
        load: load_server,
    },
    Level {
        table: &servers::SECRET_REF,
        least: &[("name", "x")],
        file: |secret| {
            auth(&format!("{{tokenExchange: {{clientCredentialsSecretRef: {secret}}}}}"))
        },
        load: load_server,
    },
    Level {
        table: &servers::TELEPORT,
        least: &[],
        file: |teleport| auth(&format!("{{teleport: {teleport}}}")),
        load: load_server,
    },
    Level {
        table: serviceclass::FORMAT.short,
        least: &[("serviceConfig", "{lifecycleTools: {start: {tool: a}, stop: {tool: b}}}")],
        file: str::to_owned,
        load: load_class,
    },
    Level {
        table: &classes::CONFIG,
        least: &[("lifecycleTools", "{start: {tool: a}, stop: {tool: b}}")],
        file: class,
        load: load_class,
    },
    Level {
        table: &classes::LIFECYCLE_TOOLS,
        least: &[("start", "{tool: a}"), ("stop", "{tool: b}")],
        file: |tools| class(&format!("{{lifecycleTools: {tools}}}")),
        load: load_class,
    },
    Level {
        table: &classes::TOOL,
        least: &[("tool", "a")],
        file: |tool| class(&format!("{{lifecycleTools: {{start: {tool}, stop: {{tool: b}}}}}}")),
        load: load_class,
    },
    Level {
        table: &classes::HEALTH_TOOL,
        least: &[("tool", "a")],
        file: health_tool,
        load: load_class,
    },
    Level {
        table: &classes::EXPECTATION,
        least: &[],
        file: |expect| health_tool(&format!("{{tool: a, expect: {expect}}}")),
        load: load_class,
    },
    Level {
        table: &classes::HEALTH_CHECK,
        least: &[],
        file: |check| class_with(&format!("healthCheck: {check}")),
        load: load_class,
    },
    Level {
        table: &classes::TIMEOUT,
        least: &[],
        file: |timeout| class_with(&format!("timeout: {timeout}")),
        load: load_class,
    },
    Level {
        table: service::FORMAT.short,
        least: &[("serviceClassName", "x")],
        file: str::to_owned,
        load: load_service,
    },
    Level {
        table: workflow::FORMAT.short,
        least: &[("steps", "[{id: a, tool: b}]")],
        file: str::to_owned,
        load: load_workflow,
    },
    Level {
        table: &workflows::ARGUMENT,
        least: &[("type", "string")],
        file: |arg| format!("{{args: {{x: {arg}}}, steps: []}}"),
        load: load_workflow,
    },
    Level {
        table: &workflows::STEP,
        least: &[("id", "a"), ("tool", "b")],
        file: step,
        load: load_workflow,
    },
    Level {
        table: &workflows::INNER_STEP,
        least: &[("id", "a"), ("tool", "b")],
        file: |inner| step(&format!("{{id: a, parallel: [{inner}]}}")),
        load: load_workflow,
    },
    Level {
        table: &workflows::FOR_EACH,
        least: &[("items", "[]"), ("steps", "[]")],
        file: |each| step(&format!("{{id: a, forEach: {each}}}")),
        load: load_workflow,
    },
    Level {
        table: &workflows::CONDITION,
        least: &[],
        file: |condition| step(&format!("{{id: a, tool: b, condition: {condition}}}")),
        load: load_workflow,
    },
    Level {
        table: &workflows::EXPECTATION,
        least: &[],
        file: |expect| step(&format!("{{id: a, tool: b, condition: {{expect: {expect}}}}}")),
        load: load_workflow,
    },
    Level {
        table: Settings::table(),
        least: &[],
        file: str::to_owned,
        load: |text| settings::parse(text).map(drop),
    },
];

/// Whether the least file loads when `field` has `value`, or is left out.
fn loads(level: &Level, field: &Field, value: Option<&str>) -> bool {
    let mut members: Vec<(&str, &str)> = level.least.to_vec();
    members.retain(|(name, _)| *name != field.name);
    members.extend(value.map(|value| (field.name, value)));
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    (level.load)(&(level.file)(&format!("{{{}}}", members.join(", ")))).is_ok()
}

#[test]
fn every_row_is_true_of_its_reader() {
    for level in LEVELS {
        let model = level.table.model;
        for field in level.table.all() {
            let Field { name, holds, default, nullable, .. } = field;
            let is_needed = level.least.iter().any(|(least, _)| least == name);
            // The check of the whole definition may need a field that its reader does not.
            if matches!(default, FieldDefault::Required) || !is_needed {
                let is_optional = !field.is_required();
                assert_eq!(loads(level, field, None), is_optional, "{model}.{name} is required");
                let accepts_null = *nullable || matches!(holds, FieldType::Any) && is_optional;
                assert_eq!(loads(level, field, Some("~")), accepts_null, "{model}.{name}: null");
            }
            // No field holds a list of lists of numbers.
            let is_any = matches!(holds, FieldType::Any);
            assert_eq!(loads(level, field, Some("[[1]]")), is_any, "{model}.{name} is read");
        }
    }
}

#[test]
fn every_table_has_a_level() {
    fn check(table: &'static FieldTable) {
        let is_known = |level: &Level| std::ptr::eq(level.table, table);
        let is_section = table.fields.as_ptr() != Settings::table().fields.as_ptr()
            && table.model.starts_with(char::is_uppercase);
        assert!(LEVELS.iter().any(is_known) || is_section, "{}", table.model);
        table.all().for_each(|field| check_type(&field.holds));
    }
    fn check_type(holds: &'static FieldType) {
        match holds {
            FieldType::Object(table) => check(table),
            FieldType::List(of) | FieldType::Map(of) => check_type(of),
            _ => (),
        }
    }
    for format in FORMATS {
        match format.root {
            super::Root::Table(table) => check(table),
            super::Root::Forms { short, .. } => check(short),
        }
    }
}

#[test]
fn rows_are_well_formed() {
    for table in LEVELS.iter().map(|level| level.table) {
        let mut names: Vec<&str> = table.names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}: a name occurs twice", table.model);
        for Field { name, default, meaning, .. } in table.all() {
            assert!(!meaning.ends_with('.'), "{name}: a meaning is no sentence");
            if let FieldDefault::Json(json) = default {
                assert!(serde_json::from_str::<Json>(json).is_ok(), "{name}: {json}");
            }
        }
    }
}

#[test]
fn examples_fit_their_schemas() {
    let examples = [
        ("cli", "{command: x, env: {A: b}, tools: [{name: a, description: b, timeout: null}]}"),
        ("policy", "{default: enabled, tools: {a: {args: {b: {min: 1}}}}, x-shared: 1}"),
        ("mcpserver", "{command: npx, args: [-p, 8080], env: null}"),
        (
            "mcpserver",
            "{kind: MCPServer, metadata: {name: a}, spec: {url: x, auth: {type: oauth}}}",
        ),
        ("workflow", "{args: {a: string}, steps: [{id: a, tool: b, allow_failure: true}]}"),
        (
            "serviceclass",
            "{serviceConfig: {lifecycleTools: {start: {tool: a}, stop: {tool: b}}, timeout: {create: 1m30s}}}",
        ),
        ("service", "{serviceClassName: a, args: {b: [1]}}"),
        ("config", "{aggregator: {port: 8090, oauth: {server: {enabled: true}}}}"),
    ];
    for (name, example) in examples {
        let format = FORMATS.iter().find(|format| format.name == name).unwrap();
        let schema = jsonschema::validator_for(&format.schema()).unwrap();
        let json = |text: &str| crate::reader::values::json(&crate::yaml::parse(text).unwrap());
        assert!(schema.is_valid(&json(example)), "{name}: {example}");
        let misspelled = example.replacen('{', "{misspelled: 1, ", 1);
        assert!(!schema.is_valid(&json(&misspelled)), "{name}: {misspelled}");
    }
}

#[test]
fn the_format_of_a_document_follows_from_its_contents() {
    let format = |text: &str| FileFormat::of_text(text).map(|format| format.name);
    for (text, name) in [
        ("kind: Workflow\nspec: {steps: []}\n", "workflow"),
        ("name: a\ncommand: x\n", "mcpserver"),
        ("url: http://h\n", "mcpserver"),
        ("command: git\ntools: []\n", "cli"),
        ("tools: {a: {}}\n", "policy"),
        ("default: enabled\n", "policy"),
        ("steps: []\n", "workflow"),
        ("serviceConfig: {}\n", "serviceclass"),
        ("serviceClassName: a\n", "service"),
        ("servers: [a]\n", "toolset"),
        ("aggregator: {port: 1}\n", "config"),
    ] {
        assert_eq!(format(text), Some(name), "{text}");
    }
    for text in ["kind: Rocket\n", "a: 1\n", "[", "", "x"] {
        assert_eq!(format(text), None, "{text}");
    }
    assert_eq!(FileFormat::of_folder("serviceclasses").unwrap().name, "serviceclass");
    assert_eq!(FileFormat::named("config").unwrap().folder(), None);
    let twice = "command: a\ncommand: b\ntools: []\n";
    assert!(cli::parse(twice).is_ok(), "CLImax takes the last");
    assert!(FileFormat::named("cli").unwrap().check(twice, "x").is_err());
    let policy = FileFormat::named("policy").unwrap();
    assert!(policy.check("default: enabled\ndefault: disabled\n", "x").is_err());
}
