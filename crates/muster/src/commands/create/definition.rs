//! Workflows and service classes, from a file or from flags.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use muster_core::json::raw;
use serde_json::{Map, Value, json};

use crate::{
    commands::{gateway_args::GatewayArgs, manifest, resource_kinds::ResourceKind},
    error::CommandError,
    process,
};

/// Create a workflow, from a file or from flags
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster create workflow --filename deploy.yaml
  muster create workflow hello --step core_service_list
  muster create workflow look --arg n --step 'core_service_status {\"name\": \"{{.input.n}}\"}'")]
pub(super) struct NewWorkflow {
    /// The name of the workflow [default: that of the file]
    name: Option<String>,
    /// The file that describes it; `-` reads standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["steps", "description", "args"])]
    filename: Option<PathBuf>,
    /// Save the steps of this run of `run_steps`
    #[arg(long, value_name = "ID", conflicts_with_all = ["steps", "filename", "args"])]
    from_run: Option<String>,
    /// One line about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A required argument of the workflow (can be repeated)
    #[arg(long = "arg", value_name = "NAME[:TYPE]")]
    args: Vec<String>,
    /// A step: the tool to call, with its arguments as JSON (can be repeated)
    #[arg(long = "step", value_name = "[ID=]TOOL [JSON]")]
    steps: Vec<String>,
}

/// Create a service class, from a file or from flags
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster create serviceclass --filename port-forward.yaml
  muster create serviceclass probe --start core_service_list --stop core_service_list")]
pub(super) struct NewServiceClass {
    /// The name of the service class [default: that of the file]
    name: Option<String>,
    /// The file that describes it; `-` reads standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["start", "stop", "description", "args"])]
    filename: Option<PathBuf>,
    /// One line about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A required argument of its services (can be repeated)
    #[arg(long = "arg", value_name = "NAME[:TYPE]")]
    args: Vec<String>,
    /// The tool that starts a service, with its arguments as JSON
    #[arg(long, value_name = "TOOL [JSON]")]
    start: Option<String>,
    /// The tool that stops a service, with its arguments as JSON
    #[arg(long, value_name = "TOOL [JSON]")]
    stop: Option<String>,
}

impl NewWorkflow {
    pub(super) fn create(&self, gateway: &GatewayArgs) -> Result<ExitCode, CommandError> {
        let kind = ResourceKind::Workflow;
        if let Some(file) = &self.filename {
            return create(gateway, kind, &from_file(file, kind, self.name.as_deref())?);
        }
        let Some(name) = &self.name else { return Err(missing(kind)) };
        if let Some(run) = &self.from_run {
            let mut arguments = common(name, self.description.as_deref(), &[]);
            arguments.insert("from_run".to_owned(), json!(run));
            return create(gateway, kind, &arguments);
        }
        if self.steps.is_empty() {
            return Err(CommandError::new("a workflow must have at least one step")
                .hint("add --step TOOL, or describe the workflow in a file: --filename FILE"));
        }
        let mut steps = Vec::new();
        for (number, words) in (1..).zip(&self.steps) {
            let (head, args) = tool_and_args("--step", words)?;
            let (id, tool) = match head.split_once('=') {
                Some((id, tool)) => (id.to_owned(), tool),
                None => (format!("step{number}"), head),
            };
            steps.push(json!({"id": id, "tool": tool, "args": args}));
        }
        let mut arguments = common(name, self.description.as_deref(), &self.args);
        arguments.insert("steps".to_owned(), json!(steps));
        create(gateway, kind, &arguments)
    }
}

impl NewServiceClass {
    pub(super) fn create(&self, gateway: &GatewayArgs) -> Result<ExitCode, CommandError> {
        let kind = ResourceKind::ServiceClass;
        if let Some(file) = &self.filename {
            return create(gateway, kind, &from_file(file, kind, self.name.as_deref())?);
        }
        let Some(name) = &self.name else { return Err(missing(kind)) };
        let (Some(start), Some(stop)) = (&self.start, &self.stop) else {
            return Err(CommandError::new("a service class needs the tools that start and stop its services")
                .hint("add --start TOOL and --stop TOOL, or describe the class in a file: --filename FILE"));
        };
        let mut tools = Map::new();
        for (stage, flag, words) in [("start", "--start", start), ("stop", "--stop", stop)] {
            let (tool, args) = tool_and_args(flag, words)?;
            tools.insert(stage.to_owned(), json!({"tool": tool, "args": args}));
        }
        let mut arguments = common(name, self.description.as_deref(), &self.args);
        arguments.insert("serviceConfig".to_owned(), json!({"lifecycleTools": tools}));
        create(gateway, kind, &arguments)
    }
}

fn missing(kind: ResourceKind) -> CommandError {
    CommandError::new("requires at least 2 arg(s), only received 1")
        .hint(format!("write `muster create {} --filename FILE`", kind.as_str()))
}

/// Reads the arguments for a resource from its file.
fn from_file(
    file: &std::path::Path,
    kind: ResourceKind,
    name: Option<&str>,
) -> Result<Map<String, Value>, CommandError> {
    let manifests = manifest::read(&[file.to_owned()])?;
    let [manifest] = manifests.as_slice() else {
        return Err(CommandError::new(format!("{} describes several resources", file.display()))
            .hint(format!("create all of them with `muster apply -f {}`", file.display())));
    };
    if manifest.kind != kind {
        let (found, wanted) = (manifest.kind.as_str(), kind.as_str());
        return Err(CommandError::new(format!(
            "{} describes a {found}, not a {wanted}",
            file.display()
        ))
        .hint(format!("create it with `muster apply -f {}`", file.display())));
    }
    let mut arguments = manifest.arguments.clone();
    if let Some(name) = name {
        arguments.insert("name".to_owned(), json!(name));
    }
    Ok(arguments)
}

fn common(name: &str, description: Option<&str>, args: &[String]) -> Map<String, Value> {
    let mut arguments = Map::new();
    arguments.insert("name".to_owned(), json!(name));
    if let Some(description) = description {
        arguments.insert("description".to_owned(), json!(description));
    }
    if !args.is_empty() {
        let declared = args.iter().map(|arg| {
            let (name, kind) = arg.split_once(':').unwrap_or((arg, "string"));
            (name.to_owned(), json!({"type": kind, "required": true}))
        });
        arguments.insert("args".to_owned(), Value::Object(declared.collect()));
    }
    arguments
}

/// Splits a value into a tool and, after a space, its arguments as JSON.
fn tool_and_args<'a>(flag: &str, words: &'a str) -> Result<(&'a str, Value), CommandError> {
    let (tool, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    if rest.trim().is_empty() {
        return Ok((tool, json!({})));
    }
    match serde_json::from_str(rest) {
        Ok(Value::Object(args)) => Ok((tool, Value::Object(args))),
        Ok(_) | Err(_) => Err(CommandError::new(format!(
            "the arguments of {flag} {tool} are not a JSON object: {}",
            rest.trim()
        ))
        .hint(format!("write {flag} '{tool} {{\"name\": \"value\"}}'"))),
    }
}

fn create(
    gateway: &GatewayArgs,
    kind: ResourceKind,
    arguments: &Map<String, Value>,
) -> Result<ExitCode, CommandError> {
    let tool = format!("core_{}_create", kind.as_str());
    process::block_on(async {
        let session = gateway.open().await?;
        let done = session.show(&tool, &raw(arguments)).await;
        session.close().await;
        done
    })
}
