//! Reference pages, generated from the program. `UPDATE_EXPECT=1` rewrites them.

use std::{fs, path::Path};

use clap::CommandFactory as _;
use expect_test::expect_file;
use muster::{cli, climax, error::EXIT_CODES};
use muster_client::env_vars;
use muster_config::{
    cli::fields::CONFIG, mcpserver, policy::fields::POLICY, resource::ResourceFormat, service,
    serviceclass, settings, toolset, workflow, yaml,
};
use muster_core::{
    arguments::{self, Arguments},
    cli::{CliConfig, Executor},
    fields::{Field, FieldDefault, FieldTable, FieldType},
    json::raw,
    observer::CallStatus,
    python,
};
use muster_exec::{argv, environment::Environment};
use muster_telemetry::metrics::{METRICS, Metric, MetricKind};
use serde_json::{Value, json};

const MADE: &str = "<!-- Made from the program by a test; do not edit by hand. -->\n";

#[test]
fn command_lines() {
    expect_file!["../../../../docs/reference/climax-cli.md"]
        .assert_eq(&command_page("climax", climax::args::ClimaxCli::command()));
    expect_file!["../../../../docs/reference/muster-cli.md"]
        .assert_eq(&command_page("muster", cli::Cli::command()));
}

fn command_page(name: &str, command: clap::Command) -> String {
    let mut command = command.term_width(90);
    command.build();
    let mut sections = String::new();
    describe(name, &mut command, &mut sections);
    format!("# `{name}`: command line\n\n{MADE}{sections}")
}

/// A command and all below it.
fn describe(path: &str, command: &mut clap::Command, page: &mut String) {
    page.push_str(&section(path, &command.render_long_help().to_string()));
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe(&format!("{path} {}", inner.get_name()), inner, page);
    }
}

fn section(title: &str, help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("\n## `{title}`\n\n```text\n{}\n```\n", lines.join("\n"))
}

#[test]
fn environment_variables() {
    let rows: String =
        env_vars::ALL.iter().map(|(name, what)| format!("| `{name}` | {what} |\n")).collect();
    expect_file!["../../../../docs/reference/environment.md"].assert_eq(&format!(
        "# Environment variables\n\n{MADE}\n| variable | what it does |\n|---|---|\n{rows}\n\
         `$NAME` and `${{NAME}}` in a config's `command`, in defaults of `global_args`, and in a policy's \
         docker volumes are replaced from the server's environment too.\n"
    ));
}

#[test]
fn metrics() {
    let row = |metric: &Metric| {
        let Metric { name, kind, labels, help } = metric;
        let suffix = if *kind == MetricKind::Counter { "_total" } else { "" };
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}{suffix}` | {} | {} | {help} |\n", kind.as_str(), labels.join(", "))
    };
    let rows: String = METRICS.iter().map(row).collect();
    let statuses: Vec<String> =
        CallStatus::ALL.iter().map(|status| format!("`{}`", status.as_str())).collect();
    expect_file!["../../../../docs/reference/metrics.md"].assert_eq(&format!(
        "# Metrics\n\n{MADE}\n`GET /metrics` of `muster serve`. [Watch the gateway](../guides/watch-the-gateway.md) \
         says who may read it.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}\nThe values of \
         `status` are {}.\n",
        statuses.join(", ")
    ));
}

#[test]
fn exit_codes() {
    let rows: String =
        EXIT_CODES.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
    expect_file!["../../../../docs/reference/exit-codes.md"]
        .assert_eq(&format!("# Exit codes\n\n{MADE}\n| code | meaning |\n|--:|---|\n{rows}"));
}

#[test]
fn config_files() {
    let page = page("config.md");
    let config = muster_config::cli::parse(example(&page)).unwrap();
    assert_eq!(config.warnings, []);
    let mut parts = field_tables(&CONFIG, Nulls::ByRow);
    parts.extend([("words", calls(&config.value)), ("scalars", scalars())]);
    expect_file!["../../../../docs/reference/config.md"].assert_eq(&with_parts(page, &parts));
}

#[test]
fn policy_files() {
    let page = page("policy.md");
    let policy = muster_config::policy::parse(example(&page)).unwrap();
    assert_eq!(policy.warnings, []);
    let git = muster_config::cli::parse(muster::bundled::config("git").unwrap()).unwrap().value;
    for (tool, rule) in policy.value.rules.iter() {
        let tool = git.tools.iter().find(|known| known.name == *tool).unwrap();
        for name in rule.args.keys() {
            assert!(tool.params.iter().any(|param| param.name == *name), "{name}");
        }
    }
    let status = words(&git, "git_status", &json!({}), &policy.value.executor);
    let mut parts = field_tables(&POLICY, Nulls::ByRow);
    parts.push(("docker", format!("```text\n{}\n```\n", status.join(" "))));
    expect_file!["../../../../docs/reference/policy.md"].assert_eq(&with_parts(page, &parts));
}

fn page(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The first block of YAML on a page.
fn example(page: &str) -> &str {
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// The page with each part between its marks regenerated; the text around them is written by hand.
fn with_parts(page: String, parts: &[(&str, String)]) -> String {
    parts.iter().fold(page, |page, (name, text)| {
        let mark = format!("<!-- made: {name} -->\n");
        let (before, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("no {mark}"));
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        format!("{before}{mark}{text}<!-- end -->{after}")
    })
}

#[test]
fn resource_files() {
    let check = |page: &'static str, format: &'static ResourceFormat, warnings: usize| {
        assert_eq!(warnings, 0, "{page}");
        let page = self::page(page);
        with_parts(page, &field_tables(format.spec, Nulls::Everywhere))
    };
    let text = page("mcp-servers.md");
    let warnings = mcpserver::parse(example(&text), "x").unwrap().warnings.len();
    expect_file!["../../../../docs/reference/mcp-servers.md"].assert_eq(&check(
        "mcp-servers.md",
        &mcpserver::FORMAT,
        warnings,
    ));
    let text = page("workflows.md");
    let warnings = workflow::parse(example(&text), "x").unwrap().warnings.len();
    expect_file!["../../../../docs/reference/workflows.md"].assert_eq(&check(
        "workflows.md",
        &workflow::FORMAT,
        warnings,
    ));
    let text = page("service-classes.md");
    let warnings = serviceclass::parse(example(&text), "x").unwrap().warnings.len();
    expect_file!["../../../../docs/reference/service-classes.md"].assert_eq(&check(
        "service-classes.md",
        &serviceclass::FORMAT,
        warnings,
    ));
    let text = page("services.md");
    let warnings = service::parse(example(&text), "x").unwrap().warnings.len();
    expect_file!["../../../../docs/reference/services.md"].assert_eq(&check(
        "services.md",
        &service::FORMAT,
        warnings,
    ));
    let text = page("toolsets.md");
    let warnings = toolset::parse(example(&text), "x").unwrap().warnings.len();
    expect_file!["../../../../docs/reference/toolsets.md"].assert_eq(&check(
        "toolsets.md",
        &toolset::FORMAT,
        warnings,
    ));
}

#[test]
fn the_gateway_s_configuration() {
    let page = page("gateway-config.md");
    assert_eq!(settings::parse(example(&page)).unwrap().warnings, []);
    let parts = field_tables(settings::Settings::table(), Nulls::Everywhere);
    expect_file!["../../../../docs/reference/gateway-config.md"]
        .assert_eq(&with_parts(page, &parts));
}

/// Where a page says that `null` is accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// In the rows of the fields that accept it.
    ByRow,
    /// Once, for all optional fields.
    Everywhere,
}

/// The rows of a table and of all tables below it, by what they describe.
fn field_tables(root: &'static FieldTable, nulls: Nulls) -> Vec<(&'static str, String)> {
    let mut tables = Vec::new();
    collect(root, &mut tables);
    tables.into_iter().map(|table| (table.noun, field_table(table, nulls))).collect()
}

fn collect(table: &'static FieldTable, into: &mut Vec<&'static FieldTable>) {
    if into.iter().any(|known| std::ptr::eq(*known, table)) {
        return;
    }
    into.push(table);
    table.all().for_each(|field| collect_type(&field.holds, into));
}

fn collect_type(holds: &'static FieldType, into: &mut Vec<&'static FieldTable>) {
    match holds {
        FieldType::Object(table) => collect(table, into),
        FieldType::List(of) | FieldType::Map(of) => collect_type(of, into),
        FieldType::Either(types) => types.iter().for_each(|holds| collect_type(holds, into)),
        _ => (),
    }
}

fn field_table(table: &FieldTable, nulls: Nulls) -> String {
    let rows = table.all().map(|field| {
        let Field { name, holds, default, nullable, meaning, .. } = field;
        let holds = holds_text(holds, *nullable && nulls == Nulls::ByRow);
        let default = match default {
            FieldDefault::Required | FieldDefault::RequiredByCheck => "**required**".to_owned(),
            FieldDefault::Unset(text) => (*text).to_owned(),
            FieldDefault::Json("\"\"") => "empty".to_owned(),
            FieldDefault::Json(json) => format!("`{}`", json.trim_matches('"')),
        };
        format!("| `{name}` | {holds} | {default} | {meaning} |\n")
    });
    let rows: String = rows.collect();
    format!("| field | type | default | meaning |\n|---|---|---|---|\n{rows}")
}

fn holds_text(holds: &FieldType, or_null: bool) -> String {
    let mut kinds = match holds {
        FieldType::Enum(words) | FieldType::EnumByCheck(words) => {
            words.iter().map(|word| format!("`{word}`")).collect()
        }
        FieldType::Either(types) => types.iter().map(|holds| holds_text(holds, false)).collect(),
        holds => vec![match holds {
            FieldType::Boolean => "boolean".to_owned(),
            FieldType::Integer { .. } => "integer".to_owned(),
            FieldType::Number => "number".to_owned(),
            FieldType::Duration => "duration".to_owned(),
            FieldType::List(of) => format!("list of {}s", holds_text(of, false)),
            FieldType::Map(FieldType::Any) => "mapping".to_owned(),
            FieldType::Map(FieldType::Either(_)) => "map of arguments".to_owned(),
            FieldType::Map(FieldType::List(of)) => {
                format!("map of lists of {}s", holds_text(of, false))
            }
            FieldType::Map(of) => format!("map of {}s", holds_text(of, false)),
            FieldType::Object(table) => table.noun.to_owned(),
            FieldType::Any => return "any value".to_owned(),
            _ => "string".to_owned(),
        }],
    };
    kinds.extend(or_null.then(|| "null".to_owned()));
    match kinds.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => kinds.concat(),
    }
}

/// What calls of the example run.
fn calls(config: &CliConfig) -> String {
    let calls = [
        ("backup_list", json!({"host": "db1"})),
        ("backup_list", json!({"host": "db1; rm -rf /", "limit": "5", "all": true})),
        ("backup_list", json!({"host": "db2", "format": "json", "all": false})),
        ("backup_check", json!({"files": "a\nb\n", "directory": "/srv"})),
    ];
    let rows = calls.iter().map(|(tool, args)| {
        let words = words(config, tool, args, &Executor::Local);
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        format!("| `{tool}` | `{args}` | {} |\n", words.join(" "))
    });
    let rows: String = rows.collect();
    format!("| tool | arguments | words |\n|---|---|---|\n{rows}")
}

fn words(config: &CliConfig, tool: &str, args: &Value, place: &Executor) -> Vec<String> {
    let tool = config.tools.iter().find(|known| known.name == tool).unwrap();
    let given = arguments::coerce(&tool.params, Arguments::from_json(&raw(args))).unwrap();
    let variables = [("HOME", "/home/ada"), ("BACKUP_PROFILE", "night")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    argv::words(config, tool, place, &given, &Environment::new(variables, ""))
}

fn scalars() -> String {
    let written = [
        "yes",
        "off",
        "y",
        "010",
        "0x1F",
        "1_000",
        "1:30",
        "1.5",
        "1e3",
        "-9",
        "2024-01-02",
        "~",
        "\"010\"",
    ];
    let rows = written.iter().map(|written| {
        let node = yaml::parse(written).unwrap();
        let kind = match node.python_type() {
            "str" => "text",
            "bool" => "boolean",
            "int" => "integer",
            "float" => "number",
            "datetime.date" => "date",
            "NoneType" => "null",
            other => other,
        };
        format!("| `{written}` | {kind} | `{}` |\n", python::text(&node.to_value()))
    });
    let rows: String = rows.collect();
    format!("| written | is | prints as |\n|---|---|---|\n{rows}")
}
