//! A backend for CLI definitions: each tool runs one command.

mod outcome;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext},
    call::{CallError, Outcome},
    catalog::{BackendInfo, CatalogSource, Offer, ToolAudience, ToolEntry},
    cli::{CliConfig, CliTool, CredentialFiles, Executor},
    name::{BackendName, ToolName},
    policy::Permitted,
    python, schema,
    spooled::ToolResult,
    value::Value,
};

use self::outcome::Invocation;
use crate::{
    argv,
    command::{Command, Inherit},
    credential_files,
    environment::Environment,
    launcher::Launcher,
    run::{self, CompletedRun, RunLimits},
};

/// The timeout in seconds of a tool that does not set one.
const DEFAULT_TIMEOUT: f64 = 30.0;

/// The catalog source of a CLI definition.
pub fn source(backend: &BackendName, config: &CliConfig) -> CatalogSource {
    let about = BackendInfo {
        title: config.name.as_str().into(),
        description: config.description.as_str().into(),
        category: config.category.as_deref().map(Arc::from),
        tags: config.tags.clone().into(),
    };
    let entries = config.tools.iter().map(|tool| ToolEntry {
        name: ToolName::new(tool.name.as_str()),
        backend: backend.clone(),
        local_name: tool.name.as_str().into(),
        description: tool.description.as_str().into(),
        input_schema: schema::input_schema(&tool.params).into(),
        params: Some(tool.params.clone().into()),
        definition: None,
        effect: tool.effect,
        validator: Arc::default(),
        audience: ToolAudience::default(),
    });
    let offer = Offer { tools: entries.collect(), ..Offer::default() };
    CatalogSource::new(backend.clone(), about, offer)
}

/// Runs the tools of one CLI.
#[derive(Debug)]
pub struct CliBackend {
    config: Arc<CliConfig>,
    /// Index of each tool in the definition; the last of equal names wins.
    tools: BTreeMap<Arc<str>, usize>,
    place: Arc<Executor>,
    environment: Arc<Environment>,
    launcher: Launcher,
}

impl CliBackend {
    /// A backend for one CLI definition.
    pub fn new(
        config: Arc<CliConfig>,
        place: Arc<Executor>,
        environment: Arc<Environment>,
        launcher: Launcher,
    ) -> Self {
        let tools = config.tools.iter().enumerate();
        let tools = tools.map(|(index, tool)| (tool.name.as_str().into(), index)).collect();
        Self { config, tools, place, environment, launcher }
    }

    /// Returns why a call may not use the files that it names. Paths in a container are not files of this machine.
    async fn credential_refusal(&self, tool: &CliTool, call: &Permitted) -> Option<String> {
        if self.config.credential_files == CredentialFiles::Allow || *self.place != Executor::Local
        {
            return None;
        }
        let (config, tool, arguments) =
            (Arc::clone(&self.config), tool.clone(), call.arguments().clone());
        let environment = Arc::clone(&self.environment);
        let check = move || credential_files::refusal(&config, &tool, &arguments, &environment);
        // File system access may block for a long time.
        let checked = tokio::task::spawn_blocking(check).await;
        checked.unwrap_or_else(|_| Some("the files that it names could not be checked".to_owned()))
    }

    async fn run_tool(&self, tool: &CliTool, call: &Permitted) -> Outcome {
        let arguments = call.arguments();
        let working_dir = match argv::working_dir(tool, arguments) {
            None => self.config.working_dir.clone(),
            Some(Value::Text(directory)) => Some(directory.clone()),
            Some(other) => return outcome::not_a_path(other),
        };
        if let Some(refusal) = self.credential_refusal(tool, call).await {
            return Outcome::failure(refusal);
        }
        let words = argv::words(&self.config, tool, &self.place, arguments, &self.environment);
        let program = words.first().cloned().unwrap_or_default();
        outcome::log_start(&words);
        let timeout = match tool.timeout {
            Some(seconds) if seconds != 0.0 => seconds,
            Some(_) | None => DEFAULT_TIMEOUT,
        };
        let input = argv::input(tool, arguments).filter(|input| !input.is_empty());
        let command = Command {
            argv: words,
            inherit: self.config.inherit_env.clone().map_or(Inherit::All, Inherit::Basic),
            env: self.config.env.clone(),
            working_dir: working_dir.clone().map(PathBuf::from),
            ..Command::default()
        };
        let limits = RunLimits {
            timeout: duration(timeout),
            background_processes: tool.background_processes,
            ..RunLimits::default()
        };
        let input = input.map(String::into_bytes);
        let finished = if timeout < 0.0 {
            CompletedRun::timed_out_at_once()
        } else {
            run::run(&self.launcher, command, input, limits).await
        };
        let invocation = Invocation {
            tool: &tool.name,
            program: &program,
            working_dir: working_dir.as_deref(),
            timeout,
        };
        outcome::outcome(invocation, &finished)
    }
}

/// Seconds as a duration, capped at a year.
fn duration(seconds: f64) -> Duration {
    const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    Duration::try_from_secs_f64(seconds).unwrap_or(A_YEAR).min(A_YEAR)
}

impl Backend for CliBackend {
    fn run<'a>(
        &'a self,
        _: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let name = &*call.entry().local_name;
            let tool = self.tools.get(name).and_then(|index| self.config.tools.get(*index));
            match tool {
                Some(tool) => Ok(self.run_tool(tool, &call).await.into()),
                None => Err(CallError::Unavailable {
                    backend: call.entry().backend.clone(),
                    reason: format!("it no longer has a tool named `{}`", python::strip(name)),
                    no_answer: false,
                }),
            }
        })
    }
}
