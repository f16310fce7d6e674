//! What every command has that asks a running gateway: its flags, its connection, its printing.

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

/// The flags of every command that asks a running gateway.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct GatewayArgs {
    /// How to print: table, wide, json or yaml
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table", add = super::completion::formats())]
    pub(crate) output: String,
    /// Print tables without their headings
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// Print nothing but the answer: no progress, no warnings
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Write log lines to standard error
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// The folder whose config.yaml says where the gateway is [default: ~/.config/muster]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// The address of the gateway [default: the current context, or config.yaml]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The context that names the gateway
    #[arg(long, global = true, value_name = "NAME", add = super::completion::contexts())]
    pub(crate) context: Option<String>,
    /// What to do when the gateway wants a login: auto, prompt or none
    #[arg(long, global = true, value_name = "MODE", add = super::completion::auth_modes())]
    pub(crate) auth: Option<String>,
}

/// A gateway that was found and connected, and how its answers are printed.
#[derive(Debug)]
pub(crate) struct GatewaySession {
    pub(crate) remote: Remote,
    pub(crate) style: OutputStyle,
    quiet: bool,
}

impl GatewayArgs {
    /// How answers are printed.
    pub(crate) fn style(&self) -> Result<OutputStyle, CommandError> {
        Ok(OutputStyle { format: OutputFormat::parse(&self.output)?, headings: !self.no_headers })
    }

    /// Where the gateway is.
    pub(crate) fn target(&self) -> Result<Target, TargetError> {
        let endpoint = self.endpoint.clone().or_else(|| env_vars::get("MUSTER_ENDPOINT"));
        Target::resolve(TargetOptions {
            endpoint: endpoint.as_deref(),
            context: self.context.as_deref(),
            config_path: self.config_path.as_ref(),
        })
    }

    /// Connects to the gateway, with a login if it wants one.
    pub(crate) async fn open(&self) -> Result<GatewaySession, CommandError> {
        if self.debug {
            log::install(LevelFilter::DEBUG, None)?;
        }
        let style = self.style()?;
        let mode = AuthMode::parse(self.auth.as_deref())?;
        let target = self.target()?;
        let connecting = login::connect(&target, mode, self.quiet, &Terminal::Stderr);
        let remote = spinner::around("Connecting to muster server...", self.quiet, connecting);
        Ok(GatewaySession { remote: remote.await?, style, quiet: self.quiet })
    }

    /// Connects once more, without a word.
    pub(crate) async fn connect_again(&self) -> Result<Result<Remote, RemoteError>, CommandError> {
        let mode = AuthMode::parse(self.auth.as_deref())?;
        Ok(login::connect(&self.target()?, mode, true, &Terminal::Stderr).await)
    }

    /// Says something that the answer does not depend on.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            output::warn(text);
        }
    }
}

impl GatewaySession {
    /// Calls a tool; an answer that says that it failed is an error.
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

    /// Calls a tool and prints its answer.
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

    /// Says goodbye.
    pub(crate) async fn close(self) {
        self.remote.close().await;
    }

    fn mark(&self, text: &str) {
        if !self.quiet {
            output::failure(text);
        }
    }
}

/// What a tool says about its failure. Its hints are for agents; a person has other words for them.
pub(crate) fn refusal(text: &str) -> CommandError {
    let (hints, words): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("hint: "));
    let error = CommandError::new(words.join("\n").trim_end());
    let hints = hints.into_iter().filter_map(|hint| hint.strip_prefix("hint: "));
    let hints = hints.map(|hint| hint.replace("filter_tools", "`muster search`"));
    hints.fold(error, CommandError::hint)
}

/// What a run of a workflow says about its failure, where people read it: the step and why.
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
        id => error.hint(format!("see the whole run with `muster get workflow-execution {id}`")),
    })
}

/// An object of one text: the most common arguments.
pub(crate) fn one(key: &'static str, value: &str) -> Raw {
    let mut object = muster_core::json::RawObject::new();
    object.set_value(key, value);
    object.to_raw()
}

#[cfg(test)]
mod tests {
    use super::failed_run;

    #[test]
    fn a_failed_run_in_words() {
        let said =
            |text: &str| failed_run(text).map(|err| format!("{err} | {}", err.hints().join(" | ")));
        let run = r#"{"execution_id":"7","status":"failed","steps":[{"id":"a","status":"completed"},
            {"id":"b","status":"failed","error":"no\nhint: try"}]}"#;
        let hint = "see the whole run with `muster get workflow-execution 7`";
        assert_eq!(said(run).unwrap(), format!("step `b`: no | try | {hint}"));
        let early = r#"{"execution_id":"","error":"nothing"}"#;
        assert_eq!(said(early).unwrap(), "nothing | ");
        assert_eq!(said("plain"), None);
        assert_eq!(said(r#"{"error":"x"}"#), None);
    }
}
