//! The gateway of `climax`: configs and a policy, assembled into a catalog and its backends.

use std::sync::Arc;

use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::Backend,
    catalog::{CatalogSnapshot, ToolEntry},
    cli::CliConfig,
    name::BackendName,
    policy::{Policy, unmatched::UnmatchedRule},
};
use muster_engine::{server_offer::Naming, static_servers::StaticServer};
use muster_exec::{
    cli::{self, CliBackend},
    launcher::Launcher,
};
use muster_gateway::dispatch::GatewaySnapshot;

use crate::process;

/// Everything that was loaded for `climax`.
pub(super) struct Assembly {
    /// The configs, in the order they were named.
    pub(super) configs: Vec<Arc<CliConfig>>,
    /// The MCP servers, in the order they were named.
    pub(super) servers: Vec<McpServer>,
    /// The catalog and the policy. It has no backends yet.
    pub(super) state: GatewaySnapshot,
}

impl Assembly {
    pub(super) fn new(configs: Vec<CliConfig>, servers: Vec<McpServer>, policy: Policy) -> Self {
        let configs: Vec<_> = configs.into_iter().map(Arc::new).collect();
        let catalog = configs
            .iter()
            .enumerate()
            .fold(CatalogSnapshot::default(), |catalog, (place, config)| {
                catalog.with(cli::source(&backend_name(place), config))
            });
        let state =
            GatewaySnapshot { catalog, policy: Arc::new(policy), ..GatewaySnapshot::default() };
        Self { configs, servers, state }
    }

    /// The name that the server reports: that of the only config or server, or else a general one.
    pub(super) fn server_name(&self) -> String {
        match (self.configs.as_slice(), self.servers.as_slice()) {
            ([config], []) => config.name.clone(),
            ([], [server]) => server.name.clone(),
            _ => "climax".to_owned(),
        }
    }

    /// The tools that callers may use, sorted by name.
    pub(super) fn shown(&self) -> impl Iterator<Item = &ToolEntry> {
        let GatewaySnapshot { catalog, policy, .. } = &self.state;
        catalog.sorted().map(|entry| &**entry).filter(|entry| policy.shows(entry))
    }

    /// The rules of the policy that match no tool or argument.
    pub(super) fn unmatched_rules(&self) -> Vec<UnmatchedRule> {
        self.state.policy.unmatched_rules(&self.state.catalog)
    }

    /// The command behind a tool, as its config has it.
    pub(super) fn command_line(&self, entry: &ToolEntry) -> String {
        let places = self.configs.iter().enumerate();
        let mut configs = places
            .filter(|(place, _)| backend_name(*place) == entry.backend)
            .map(|(_, config)| config);
        let Some(config) = configs.next() else { return String::new() };
        let mut tools = config.tools.iter().rev().filter(|tool| *tool.name == *entry.local_name);
        let subcommand = tools.next().map(|tool| tool.command.as_str()).unwrap_or_default();
        format!("{} {subcommand}", config.command).trim_end().to_owned()
    }

    /// Returns the snapshot with a backend for every CLI, and the servers to connect. The tools of a server that is
    /// the only source need no prefix.
    pub(super) fn running(self, launcher: &Launcher) -> (GatewaySnapshot, Vec<StaticServer>) {
        let alone = self.configs.is_empty() && self.servers.len() == 1;
        let environment = Arc::new(process::environment());
        let place = Arc::new(self.state.policy.executor.clone());
        let backends = self.configs.into_iter().enumerate().map(|(number, config)| {
            let backend = CliBackend::new(
                config,
                Arc::clone(&place),
                Arc::clone(&environment),
                launcher.clone(),
            );
            (backend_name(number), Arc::new(backend) as Arc<dyn Backend>)
        });
        let state = GatewaySnapshot { backends: backends.collect(), ..self.state };
        let servers = self.servers.into_iter().map(|server| {
            let naming = match alone {
                true => Naming::Plain,
                false => Naming::Prefixed { prefix: "x".to_owned(), server: server.name.clone() },
            };
            StaticServer { server: Arc::new(server), naming }
        });
        (state, servers.collect())
    }
}

/// The name of a backend: its position, because the same file may be given twice.
fn backend_name(place: usize) -> BackendName {
    BackendName::new(format!("cli-{place}"))
}
