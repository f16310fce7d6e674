//! A CLI definition as a backend: each of its tools is one command.

mod answer;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use muster_core::{
    backend::{Backend, BoxFuture, Cx},
    call::{CallError, Outcome},
    catalog::{About, Entry, Offer, Source},
    cli::{CliConfig, CliTool, Place},
    name::{BackendName, ToolName},
    policy::Permitted,
    python, schema,
    value::Value,
};

use self::answer::Asked;
use crate::{
    argv,
    command::Command,
    environment::Environment,
    launcher::Launcher,
    run::{self, Finished, Limits},
};

/// Seconds for a tool that names no limit.
const DEFAULT_TIMEOUT: f64 = 30.0;

/// What a CLI offers.
pub fn source(backend: &BackendName, config: &CliConfig) -> Source {
    let about = About {
        title: config.name.as_str().into(),
        description: config.description.as_str().into(),
        category: config.category.as_deref().map(Arc::from),
        tags: config.tags.clone().into(),
    };
    let entries = config.tools.iter().map(|tool| Entry {
        name: ToolName::new(tool.name.as_str()),
        backend: backend.clone(),
        local_name: tool.name.as_str().into(),
        description: tool.description.as_str().into(),
        input_schema: schema::input_schema(&tool.params).into(),
        params: Some(tool.params.clone().into()),
        definition: None,
        validator: Arc::default(),
    });
    let offer = Offer { tools: entries.collect(), ..Offer::default() };
    Source::new(backend.clone(), about, offer)
}

/// Runs the tools of one CLI.
#[derive(Debug)]
pub struct CliBackend {
    config: Arc<CliConfig>,
    /// The place of each tool in the definition; of equal names the last.
    tools: BTreeMap<Arc<str>, usize>,
    place: Arc<Place>,
    environment: Arc<Environment>,
    launcher: Launcher,
}

impl CliBackend {
    /// A backend for one definition.
    pub fn new(
        config: Arc<CliConfig>,
        place: Arc<Place>,
        environment: Arc<Environment>,
        launcher: Launcher,
    ) -> Self {
        let tools = config.tools.iter().enumerate();
        let tools = tools.map(|(place, tool)| (tool.name.as_str().into(), place)).collect();
        Self { config, tools, place, environment, launcher }
    }

    async fn run_tool(&self, tool: &CliTool, call: &Permitted) -> Outcome {
        let arguments = call.arguments();
        let working_dir = match argv::working_dir(tool, arguments) {
            None => self.config.working_dir.clone(),
            Some(Value::Text(directory)) => Some(directory.clone()),
            Some(other) => return answer::not_a_path(other),
        };
        let words = argv::words(&self.config, tool, &self.place, arguments, &self.environment);
        let program = words.first().cloned().unwrap_or_default();
        answer::log_start(&words);
        let timeout = match tool.timeout {
            Some(seconds) if seconds != 0.0 => seconds,
            Some(_) | None => DEFAULT_TIMEOUT,
        };
        let input = argv::input(tool, arguments).filter(|input| !input.is_empty());
        let command = Command {
            argv: words,
            env: self.config.env.clone(),
            working_dir: working_dir.clone().map(PathBuf::from),
            ..Command::default()
        };
        let limits = Limits { timeout: duration(timeout), ..Limits::default() };
        let input = input.map(String::into_bytes);
        let finished = if timeout < 0.0 {
            Finished::without_time()
        } else {
            run::run(&self.launcher, command, input, limits).await
        };
        let asked = Asked {
            tool: &tool.name,
            program: &program,
            working_dir: working_dir.as_deref(),
            timeout,
        };
        answer::outcome(asked, &finished)
    }
}

/// Seconds as a duration; what is beyond time is as long as there is.
fn duration(seconds: f64) -> Duration {
    const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    Duration::try_from_secs_f64(seconds).unwrap_or(A_YEAR).min(A_YEAR)
}

impl Backend for CliBackend {
    fn run<'a>(&'a self, _: Cx<'a>, call: Permitted) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let name = &*call.entry().local_name;
            let tool = self.tools.get(name).and_then(|place| self.config.tools.get(*place));
            match tool {
                Some(tool) => Ok(self.run_tool(tool, &call).await),
                None => Err(CallError::Backend {
                    backend: call.entry().backend.clone(),
                    reason: format!("it no longer has a tool named `{}`", python::strip(name)),
                }),
            }
        })
    }
}
