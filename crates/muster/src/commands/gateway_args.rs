//! The flags, the connection and the output of commands that use a running gateway.

use std::path::PathBuf;

use clap::Args;
use muster_client::{
    env_vars,
    login::{self, AuthMode},
    remote::{
        Remote,
        error::RemoteError,
        target::{Target, TargetError, TargetOptions},
        tool_response::{ContentBlock, ToolResponse},
    },
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
        spinner, tool_text,
    },
    terminal::Terminal,
};

/// The flags of every command that uses a running gateway.
#[derive(Debug, Clone, Default, Args)]
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
    quiet: bool,
}

impl GatewayArgs {
    /// The output style.
    pub(crate) fn style(&self) -> Result<OutputStyle, CommandError> {
        Ok(OutputStyle { format: OutputFormat::parse(&self.output)?, headings: !self.no_headers })
    }

    /// The gateway to use.
    pub(crate) fn target(&self) -> Result<Target, TargetError> {
        let endpoint = self.endpoint.clone().or_else(|| env_vars::get("MUSTER_ENDPOINT"));
        Target::resolve(TargetOptions {
            endpoint: endpoint.as_deref(),
            context: self.context.as_deref(),
            config_path: self.config_path.as_ref(),
        })
    }

    /// Connects to the gateway, with a login if it requires one.
    pub(crate) async fn open(&self) -> Result<GatewaySession, CommandError> {
        if self.debug {
            log::install(LevelFilter::DEBUG, log::ArgumentValues::Hidden, None)?;
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
    /// Calls a tool. A response that reports an error becomes an error.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &RawValue,
    ) -> Result<ToolResponse, CommandError> {
        let calling = self.remote.call(tool, args);
        let answer = match spinner::around("Executing command...", self.quiet, calling).await {
            Ok(answer) => answer,
            Err(err) => {
                self.mark("❌ Command failed");
                return Err(err.into());
            }
        };
        if answer.failed {
            self.mark("❌ Command returned error");
            let text = answer.texts().join("\n");
            let run = match self.style.format {
                OutputFormat::Table | OutputFormat::Wide => failed_run(&text),
                OutputFormat::Json | OutputFormat::Yaml => None,
            };
            return Err(run.unwrap_or_else(|| refusal(&text)));
        }
        Ok(answer)
    }

    /// Calls a tool and prints its response.
    pub(crate) async fn show(&self, tool: &str, args: &RawValue) -> Result<(), CommandError> {
        let answer = self.call(tool, args).await?;
        let printer = Printer::stdout();
        match answer.content.first() {
            None if self.quiet => Ok(()),
            None => printer.line("No results"),
            Some(ContentBlock::Text(text)) => printer.line(&tool_text::text(text, self.style)?),
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

/// The error text of a tool. Its hints are written for agents: names of meta-tools become commands.
pub(crate) fn refusal(text: &str) -> CommandError {
    let (hints, words): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("hint: "));
    let error = CommandError::new(words.join("\n").trim_end());
    let hints = hints.into_iter().filter_map(|hint| hint.strip_prefix("hint: "));
    let hints = hints.map(|hint| hint.replace("filter_tools", "`muster search`"));
    hints.fold(error, CommandError::hint)
}

/// The error of a failed workflow execution: its step and the reason.
fn failed_run(text: &str) -> Option<CommandError> {
    let run: Value = serde_json::from_str(text).ok()?;
    let id = run.get("execution_id")?.as_str()?;
    let steps = run.get("steps").and_then(Value::as_array).into_iter().flatten();
    let said = |value: &Value| value.get("error").and_then(Value::as_str).map(str::to_owned);
    let of_step = |step: &Value| {
        let name = step.get("id").and_then(Value::as_str).unwrap_or_default();
        Some(format!("step `{name}`: {}", said(step)?))
    };
    let why: Vec<String> = steps.filter_map(of_step).collect();
    let why = if why.is_empty() { said(&run)? } else { why.join("\n") };
    let error = refusal(&why);
    Some(match id {
        "" => error,
        id => error.hint(format!("show the execution with `muster get workflow-execution {id}`")),
    })
}

/// Arguments with one text value.
pub(crate) fn one(key: &'static str, value: &str) -> Raw {
    let mut object = muster_core::json::RawObject::new();
    object.set_value(key, value);
    object.to_raw()
}

#[cfg(test)]
mod tests {
    use super::failed_run;

    #[test]
    fn errors_of_failed_executions() {
        let said =
            |text: &str| failed_run(text).map(|err| format!("{err} | {}", err.hints().join(" | ")));
        let run = r#"{"execution_id":"7","status":"failed","steps":[{"id":"a","status":"completed"},
            {"id":"b","status":"failed","error":"no\nhint: try"}]}"#;
        let hint = "show the execution with `muster get workflow-execution 7`";
        assert_eq!(said(run).unwrap(), format!("step `b`: no | try | {hint}"));
        let early = r#"{"execution_id":"","error":"nothing"}"#;
        assert_eq!(said(early).unwrap(), "nothing | ");
        assert_eq!(said("plain"), None);
        assert_eq!(said(r#"{"error":"x"}"#), None);
    }
}
