//! The flags, connection and output that all commands for a running gateway share.

use std::path::PathBuf;

use clap::Args;
use muster_api::execution::{ExecutionReply, StepReply, TOOL_PREFIX};
use muster_client::{
    env_vars,
    login::{self, AuthMode},
    remote::{
        Remote,
        error::RemoteError,
        target::{Target, TargetError, TargetOptions},
        tool_response::{ContentBlock, ToolResponse},
    },
    user_dirs,
};
use muster_core::json::Raw;
use serde_json::{Value, value::RawValue};
use tracing::level_filters::LevelFilter;

use crate::{
    error::CommandError,
    log,
    output::{
        self, Printer,
        format::{OutputFormat, OutputStyle},
        next_step, reply, spinner,
    },
    terminal::Terminal,
};

/// The flags of every command that uses a running gateway.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct GatewayArgs {
    /// The output format: table, wide, json or yaml
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table", add = super::completion::formats())]
    pub(crate) output: String,
    /// Omit the headings of tables
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// Print only the result: no progress, no warnings
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Write log lines to standard error
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// The directory whose config.yaml sets the endpoint [default: ~/.config/muster]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// The endpoint of the gateway [default: the current context, or config.yaml]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The context to use
    #[arg(long, global = true, value_name = "NAME", add = super::completion::contexts())]
    pub(crate) context: Option<String>,
    /// How to log in if the gateway requires it: auto, prompt or none
    #[arg(long, global = true, value_name = "MODE", add = super::completion::auth_modes())]
    pub(crate) auth: Option<String>,
}

/// A connection to a gateway, with the output style of the command.
#[derive(Debug)]
pub(crate) struct GatewaySession {
    pub(crate) remote: Remote,
    pub(crate) style: OutputStyle,
    pub(crate) quiet: bool,
}

impl GatewayArgs {
    /// The output style.
    pub(crate) fn style(&self) -> Result<OutputStyle, CommandError> {
        Ok(OutputStyle { format: OutputFormat::parse(&self.output)?, headings: !self.no_headers })
    }

    /// Resolves the gateway to use.
    pub(crate) fn target(&self) -> Result<Target, TargetError> {
        let endpoint = self.endpoint.clone().or_else(|| env_vars::get("MUSTER_ENDPOINT"));
        Target::resolve(TargetOptions {
            endpoint: endpoint.as_deref(),
            context: self.context.as_deref(),
            config_path: self.config_path.as_ref(),
        })
    }

    /// The configuration directory of a gateway on this machine.
    pub(crate) fn config_directory(&self) -> Result<PathBuf, CommandError> {
        match &self.config_path {
            Some(path) => Ok(path.clone()),
            None => Ok(user_dirs::config()?),
        }
    }

    /// Refuses the selection of a gateway by its endpoint, for commands about the gateway of a directory on this
    /// machine. Environment variables are ignored if `directory_named`.
    pub(crate) fn refuse_endpoint(
        &self,
        command: &str,
        directory_named: bool,
    ) -> Result<(), CommandError> {
        let is_set = |name: &&str| env_vars::get(name).is_some();
        let selects = match (&self.endpoint, &self.context) {
            (Some(_), _) => Some("--endpoint"),
            (None, Some(_)) => Some("--context"),
            (None, None) if directory_named || self.config_path.is_some() => None,
            (None, None) => ["MUSTER_ENDPOINT", "MUSTER_CONTEXT"].into_iter().find(is_set),
        };
        let Some(selects) = selects else { return Ok(()) };
        Err(CommandError::new(format!(
            "{selects} selects a gateway by its address, but `{command}` needs that of a directory on this machine"
        ))
        .hint("name the directory with --config-path"))
    }

    /// Connects to the gateway, with a login if it requires one.
    pub(crate) async fn open(&self) -> Result<GatewaySession, CommandError> {
        if self.debug {
            log::install(
                LevelFilter::DEBUG,
                log::ArgumentValues::Hidden,
                None,
                log::LogFormat::Text,
            )?;
        }
        let style = self.style()?;
        let mode = AuthMode::parse(self.auth.as_deref())?;
        let target = self.target()?;
        let connecting = login::connect(&target, mode, self.quiet, &Terminal::Stderr);
        let remote = spinner::around("Connecting to muster server...", self.quiet, connecting);
        Ok(GatewaySession { remote: remote.await?, style, quiet: self.quiet })
    }

    /// Connects again without printing anything.
    pub(crate) async fn connect_again(&self) -> Result<Result<Remote, RemoteError>, CommandError> {
        let mode = AuthMode::parse(self.auth.as_deref())?;
        Ok(login::connect(&self.target()?, mode, true, &Terminal::Stderr).await)
    }

    /// Prints a warning, unless the command is quiet.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            output::warn(text);
        }
    }
}

impl GatewaySession {
    /// Calls a tool. Fails if the response reports an error.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &RawValue,
    ) -> Result<ToolResponse, CommandError> {
        let response = self.request(tool, args).await?;
        if response.failed { Err(self.failure(tool, &response)) } else { Ok(response) }
    }

    /// Calls a tool. The response may report an error.
    pub(crate) async fn request(
        &self,
        tool: &str,
        args: &RawValue,
    ) -> Result<ToolResponse, CommandError> {
        let calling = self.remote.call(tool, args);
        let response = spinner::around("Executing command...", self.quiet, calling).await;
        response.map_err(|err| {
            self.mark("❌ Command failed");
            err.into()
        })
    }

    /// The error that a response reports.
    pub(crate) fn failure(&self, tool: &str, response: &ToolResponse) -> CommandError {
        self.mark("❌ Command returned error");
        let for_people = matches!(self.style.format, OutputFormat::Table | OutputFormat::Wide);
        let execution = match for_people && tool.starts_with(TOOL_PREFIX) {
            true => failed_execution(&response.texts()),
            false => None,
        };
        execution.unwrap_or_else(|| refusal(&response.texts().join("\n")))
    }

    /// Calls a tool and prints its response.
    pub(crate) async fn show(&self, tool: &str, args: &RawValue) -> Result<(), CommandError> {
        let response = self.call(tool, args).await?;
        self.print(tool, &response)
    }

    /// Prints the first text of a response.
    pub(crate) fn print(&self, tool: &str, response: &ToolResponse) -> Result<(), CommandError> {
        let printer = Printer::stdout();
        match response.content.first() {
            None if self.quiet => Ok(()),
            None => printer.line("No results"),
            Some(ContentBlock::Text(text)) => {
                let shown = reply::text(tool, text, self.style)?;
                let is_plain = shown == *text && !text.starts_with(['{', '[']);
                let for_people =
                    matches!(self.style.format, OutputFormat::Table | OutputFormat::Wide);
                printer.line(&if for_people && is_plain && tool.starts_with("core_") {
                    with_commands(&shown)
                } else {
                    shown
                })
            }
            Some(_) => Err(CommandError::new("content is not text")),
        }
    }

    /// Closes the connection.
    pub(crate) async fn close(self) {
        self.remote.close().await;
    }

    fn mark(&self, text: &str) {
        if !self.quiet {
            output::failure(text);
        }
    }
}

/// Converts the error text of a tool to an error. Its hints are written for agents, and are shown with commands.
pub(crate) fn refusal(text: &str) -> CommandError {
    let (hints, words): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("hint: "));
    let error = CommandError::new(words.join("\n").trim_end());
    let hints = hints.into_iter().filter_map(|hint| hint.strip_prefix("hint: "));
    hints.map(next_step::with_command).fold(error, CommandError::hint)
}

/// Shows the hints of a reply with commands instead of tool calls.
fn with_commands(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("hint: ") {
        Some(hint) => format!("hint: {}", next_step::with_command(hint)),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The error of a failed workflow execution: its steps and their reasons. The last text names the execution.
fn failed_execution(texts: &[&str]) -> Option<CommandError> {
    let (last, before) = texts.split_last()?;
    let execution: ExecutionReply = serde_json::from_str(last).ok()?;
    let of_step = |step: &StepReply| Some(format!("step `{}`: {}", step.id, step.error.as_ref()?));
    let (steps, error) = match &execution {
        ExecutionReply::Report(report) => (report.steps.as_deref(), report.error.as_deref()),
        ExecutionReply::Output(members) => (None, members.get("error").and_then(Value::as_str)),
    };
    let mut reasons: Vec<String> = steps.unwrap_or_default().iter().filter_map(of_step).collect();
    if reasons.is_empty() {
        reasons.extend(before.iter().copied().chain(error).map(str::to_owned));
    }
    if reasons.is_empty() {
        return None;
    }
    let error = refusal(&reasons.join("\n"));
    Some(match execution.execution_id() {
        "" => error,
        id => error.hint(format!("show the execution with `muster get workflow-execution {id}`")),
    })
}

/// Arguments with a single text value.
pub(crate) fn one(key: &'static str, value: &str) -> Raw {
    let mut object = muster_core::json::RawObject::new();
    object.set_value(key, value);
    object.to_raw()
}

#[cfg(test)]
mod tests {
    use super::{failed_execution, with_commands};

    #[test]
    fn hints_of_replies_become_commands() {
        assert_eq!(
            with_commands("done\nhint: find its name with filter_tools\nsee filter_tools"),
            "done\nhint: find its name with `muster search`\nsee filter_tools"
        );
    }

    #[test]
    fn errors_of_failed_executions() {
        let said = |texts: &[&str]| {
            failed_execution(texts).map(|err| format!("{err} | {}", err.hints().join(" | ")))
        };
        let reply = r#"{"execution_id":"7","input":{},"status":"failed","steps":[
            {"id":"a","status":"completed","tool":"t"},{"id":"b","status":"failed","error":"no\nhint: try"}],
            "template_vars":null,"workflow":"w"}"#;
        let hint = "show the execution with `muster get workflow-execution 7`";
        assert_eq!(said(&[reply]).unwrap(), format!("step `b`: no | try | {hint}"));
        assert_eq!(said(&[r#"{"execution_id":"","error":"nothing"}"#]).unwrap(), "nothing | ");
        let of_tool = ["it failed", r#"{"execution_id":"7"}"#];
        assert_eq!(said(&of_tool).unwrap(), format!("it failed | {hint}"));
        assert_eq!(said(&["plain"]), None);
        assert_eq!(said(&[r#"{"code":3,"execution_id":"7"}"#]), None);
    }
}
