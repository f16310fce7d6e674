//! `climax list`.

use std::process::ExitCode;

use muster_core::{
    catalog::ToolEntry,
    cli::{Executor, Param, ParamType, Placement},
    policy::{Policy, constraint::Constraint},
    python,
    value::Value,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{args::List, assembly::Assembly, load};
use crate::{
    bundled,
    error::CommandError,
    output::{self, Format, Printer, Tone, table},
};

pub(super) fn run(args: &List) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    if args.configs.is_empty() {
        print_bundled(printer, args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let configs = match load::configs(&args.configs) {
        Ok(configs) => configs,
        Err(err) => return failed(printer, "configs", &err),
    };
    let policy = match load::policy_or_none(args.policy.as_deref()) {
        Ok(policy) => policy,
        Err(err) => return failed(printer, "policy", &err),
    };
    let assembly = Assembly::new(configs, Vec::new(), policy);
    match args.output {
        Format::Json => printer.json(&Listing::of(&assembly))?,
        Format::Table => print(printer, &assembly)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports a failure on standard output: the original CLImax does so, and scripts rely on it.
fn failed(printer: Printer, what: &str, err: &CommandError) -> Result<ExitCode, CommandError> {
    printer.line(&format!("Error loading {what}: {err}"))?;
    err.hints().iter().for_each(|hint| output::hint(hint));
    Ok(err.exit_code())
}

fn print_bundled(printer: Printer, format: Format) -> Result<(), CommandError> {
    let names: Vec<&str> = bundled::CONFIGS.iter().map(|(name, _)| *name).collect();
    match format {
        Format::Json => printer.json(&names),
        Format::Table => {
            printer.line(&printer.paint(Tone::Strong, "Bundled configs:"))?;
            printer.line("")?;
            names.iter().try_for_each(|name| printer.line(&format!("  {name}")))
        }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    tools: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    command: String,
    input_schema: &'a RawValue,
}

impl<'a> Listing<'a> {
    fn of(assembly: &'a Assembly) -> Self {
        let policy = &assembly.state.policy;
        let tools = assembly.shown().map(|entry| Listed {
            name: entry.name.as_str(),
            description: policy.description(entry),
            command: assembly.command_line(entry),
            input_schema: &entry.input_schema,
        });
        Self { server: assembly.server_name(), image: image(policy), tools: tools.collect() }
    }
}

fn image(policy: &Policy) -> Option<&str> {
    match &policy.executor {
        Executor::Local => None,
        Executor::Docker(docker) => Some(&docker.image),
    }
}

fn print(printer: Printer, assembly: &Assembly) -> Result<(), CommandError> {
    let policy = &assembly.state.policy;
    let rows: Vec<Vec<String>> = assembly
        .shown()
        .map(|entry| {
            vec![
                entry.name.to_string(),
                policy.description(entry).to_owned(),
                assembly.command_line(entry),
                arguments(entry, policy),
            ]
        })
        .collect();
    let heading = printer.paint(Tone::Strong, &assembly.server_name());
    printer.line(&format!("{heading} — {} tool(s)\n", rows.len()))?;
    if let Some(image) = image(policy) {
        printer.line(&format!("Executor: docker (image={image})\n"))?;
    }
    let headings = ["Tool", "Description", "Command", "Arguments"];
    printer.line(&table::render(&printer, &headings, &rows))
}

fn arguments(entry: &ToolEntry, policy: &Policy) -> String {
    let limit = |name: &str| policy.rules_of(entry).find_map(|rule| rule.args.get(name));
    let lines: Vec<String> = entry
        .params
        .iter()
        .flat_map(|params| params.iter())
        .map(|param| argument(param, limit(&param.name)))
        .collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

fn argument(param: &Param, constraint: Option<&Constraint>) -> String {
    let mut parts = Vec::new();
    if param.kind != ParamType::String {
        parts.push(param.kind.as_str().to_owned());
    }
    if param.required {
        parts.push("required".to_owned());
    }
    if param.placement == Placement::Positional {
        parts.push("positional".to_owned());
    }
    if let Some(default) = &param.default {
        parts.push(format!("default={}", python::text(default)));
    }
    if !param.choices.is_empty() {
        let choices = param.choices.iter().cloned().map(Value::Text).collect();
        parts.push(format!("enum={}", python::repr(&Value::List(choices))));
    }
    if let Some(constraint) = constraint {
        parts.extend(constraint.pattern.as_ref().map(|p| format!("pattern={}", p.as_str())));
        parts.extend(constraint.min.map(|min| format!("min={}", python::float_text(min))));
        parts.extend(constraint.max.map(|max| format!("max={}", python::float_text(max))));
    }
    match parts.is_empty() {
        true => param.name.clone(),
        false => format!("{} ({})", param.name, parts.join(", ")),
    }
}
