//! Configs and a policy put together: what there is, and what runs it.

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    backend::Backend,
    catalog::{Entry, Snapshot},
    cli::CliConfig,
    name::BackendName,
    policy::Policy,
};
use muster_exec::{
    cli::{self, CliBackend},
    environment::Environment,
    launcher::Launcher,
};
use muster_gateway::dispatch::State;

use crate::env_vars;

/// Everything that was loaded.
pub(super) struct Assembly {
    /// The configs, in the order they were named.
    pub(super) configs: Vec<Arc<CliConfig>>,
    /// What there is and what is allowed; nothing runs yet.
    pub(super) state: State,
}

impl Assembly {
    pub(super) fn new(configs: Vec<CliConfig>, policy: Policy) -> Self {
        let configs: Vec<_> = configs.into_iter().map(Arc::new).collect();
        let catalog =
            configs.iter().enumerate().fold(Snapshot::default(), |catalog, (place, config)| {
                catalog.with(cli::source(&backend_name(place), config))
            });
        let state = State { catalog, policy: Arc::new(policy), backends: BTreeMap::new() };
        Self { configs, state }
    }

    /// The name of the only config, or a common one.
    pub(super) fn server_name(&self) -> String {
        match self.configs.as_slice() {
            [config] => config.name.clone(),
            _ => "climax".to_owned(),
        }
    }

    /// The tools that callers may use, sorted by name.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Entry> {
        let State { catalog, policy, .. } = &self.state;
        catalog.sorted().map(|entry| &**entry).filter(|entry| policy.shows(entry))
    }

    /// The command behind a tool, as written.
    pub(super) fn command_line(&self, entry: &Entry) -> String {
        let places = self.configs.iter().enumerate();
        let mut configs = places
            .filter(|(place, _)| backend_name(*place) == entry.backend)
            .map(|(_, config)| config);
        let Some(config) = configs.next() else { return String::new() };
        let mut tools = config.tools.iter().rev().filter(|tool| *tool.name == *entry.local_name);
        let subcommand = tools.next().map(|tool| tool.command.as_str()).unwrap_or_default();
        format!("{} {subcommand}", config.command).trim_end().to_owned()
    }

    /// The same with something behind every tool.
    pub(super) fn running(self, launcher: &Launcher) -> State {
        let environment = Arc::new(environment());
        let place = Arc::new(self.state.policy.place.clone());
        let backends = self.configs.into_iter().enumerate().map(|(number, config)| {
            let backend = CliBackend::new(
                config,
                Arc::clone(&place),
                Arc::clone(&environment),
                launcher.clone(),
            );
            (backend_name(number), Arc::new(backend) as Arc<dyn Backend>)
        });
        State { backends: backends.collect(), ..self.state }
    }
}

/// One file may be given twice, so backends are named by their place.
fn backend_name(place: usize) -> BackendName {
    BackendName::new(format!("cli-{place}"))
}

/// The environment that configs are expanded from.
pub(super) fn environment() -> Environment {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Environment::new(env_vars::all(), &passwd)
}
