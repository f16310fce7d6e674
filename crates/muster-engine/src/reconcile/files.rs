//! Applies files to the state, changing only what differs.

use std::sync::Arc;

use jiff::Timestamp;
use muster_config::{mcpserver::McpServer, settings::Aggregator};
use muster_core::{
    backend::Backend,
    catalog::{CatalogSource, Offer, ToolEntry},
    cli::{CliConfig, Executor},
    name::{BackendName, ToolName},
};
use muster_exec::{
    cli::{self, CliBackend},
    lookup,
};

use super::{ListHashes, Reconciler};
use crate::{
    backend_limits::LimitedBackend,
    circuit_breaker::CircuitBreaker,
    cli_offer,
    events::Reason,
    policies, server_offer,
    status::ServerStatus,
    store::{FileProblem, Files, ServerFile, Severity},
    unmatched_rules,
    view::{Counts, ServerEntry},
};

/// The origin of a change of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The start of the gateway.
    Start,
    /// A later edit.
    Edited,
}

impl Reconciler {
    pub(super) fn apply_files(&mut self, files: Files, origin: Origin) {
        log_new(&files.problems, &self.files.problems);
        let before = std::mem::replace(&mut self.files, files);
        let policies_differ =
            before.policies != self.files.policies || before.toolsets != self.files.toolsets;
        let clis_differ =
            before.clis != self.files.clis || before.settings.clis != self.files.settings.clis;
        if origin == Origin::Start || policies_differ {
            self.take_policies();
        }
        if origin == Origin::Start || policies_differ || clis_differ {
            self.take_clis();
        }
        if origin == Origin::Edited {
            warn_of_address(&before.settings.aggregator, &self.files.settings.aggregator);
        }
        let prefix_differs =
            before.settings.aggregator.prefix() != self.files.settings.aggregator.prefix();
        if prefix_differs {
            self.rename_all();
        }
        let call_failures = self.files.settings.aggregator.limits.call_failures;
        if before.settings.aggregator.limits.call_failures != call_failures {
            self.servers.values().for_each(|entry| entry.breaker.set_threshold(call_failures));
        }
        let servers_differ = self.take_servers(origin);
        let workflows_differ = self.take_workflows(&before.workflows, origin);
        self.take_classes(origin);
        // Most changes of files are statuses that muster itself wrote, and need no new snapshot.
        if origin == Origin::Start
            || policies_differ
            || clis_differ
            || prefix_differs
            || servers_differ
            || workflows_differ
        {
            self.publish();
        } else {
            self.publish_view();
        }
        self.deps.services.take(&self.files.services, origin == Origin::Start);
    }

    /// Applies the server files. Returns whether a server was added, removed or changed.
    fn take_servers(&mut self, origin: Origin) -> bool {
        let servers = self.files.servers.clone();
        let gone: Vec<String> =
            self.servers.keys().filter(|name| !servers.contains_key(*name)).cloned().collect();
        let mut differ = !gone.is_empty();
        for name in gone {
            self.remove(&name);
        }
        for (name, file) in servers {
            match self.servers.get(&name).cloned() {
                None => {
                    self.add(file, origin);
                    differ = true;
                }
                Some(entry)
                    if entry.server.spec != file.server.spec
                        || entry.secret_changes != file.secret_changes =>
                {
                    self.change(&entry, file);
                    differ = true;
                }
                Some(_) => self.note(&name, |entry| {
                    entry.path = file.path;
                    entry.server = file.server;
                }),
            }
        }
        differ
    }

    fn take_policies(&mut self) {
        let policies = self.files.policies.values().map(|file| file.policy.as_deref());
        let mut policy = policies::merged(policies, self.deps.destructive);
        let toolsets = self.files.toolsets.iter();
        let toolsets = toolsets.map(|(name, file)| (name.clone(), Arc::clone(&file.toolset)));
        policy.toolsets = Arc::new(toolsets.collect());
        self.state.policy = Arc::new(policy);
        // Callers see different parts of the lists, so no hash can tell whether the list of one of them changed.
        self.list_hashes = ListHashes::default();
    }

    /// Reports rules and limits that match nothing.
    pub(super) fn check_policies(&mut self) {
        let (there, away): (Vec<&McpServer>, Vec<&McpServer>) =
            self.servers.values().map(|entry| &*entry.server).partition(|server| {
                self.state.backends.contains_key(&BackendName::new(server.name.as_str()))
            });
        let prefix = self.files.settings.aggregator.prefix();
        let may_come = |tool: &str| unmatched_rules::may_come(prefix, tool, &there, &away);
        let found = unmatched_rules::problems(&self.files, &self.state.catalog, may_come);
        log_new(&found, &self.unmatched);
        self.unmatched = found;
    }

    fn take_clis(&mut self) {
        for unknown in cli_offer::unknown_names(&self.files.settings.clis, &self.deps.bundled) {
            let (setting, name, fix) = (unknown.setting, unknown.name, unknown.fix());
            tracing::warn!("config.yaml: {setting}: there is no bundled CLI `{name}`; {fix}");
        }
        let is_installed = |config: &CliConfig| self.is_installed(config);
        let wanted = cli_offer::offered(&self.files, &self.deps.bundled, is_installed);
        let off = cli_offer::switched_off(&wanted, &self.deps.bundled, is_installed);
        self.state.switched_off = Arc::new(off);
        for name in self.clis.keys().filter(|name| !wanted.contains_key(*name)) {
            self.state.catalog = self.state.catalog.without(name);
            self.state.backends.remove(name);
        }
        let place = Arc::new(self.state.policy.executor.clone());
        for (name, config) in &wanted {
            let is_bundled = !cli_offer::is_own(&self.files, name);
            let mut source = cli_source(name, config);
            source.is_bundled = is_bundled;
            self.state.catalog = self.state.catalog.with(source);
            self.state.backends.insert(name.clone(), self.cli_backend(config, &place));
        }
        self.clis = wanted;
    }

    fn is_installed(&self, config: &CliConfig) -> bool {
        let environment = &self.deps.environment;
        let words = environment.command_words(&config.command);
        words.first().is_some_and(|program| lookup::exists(program, environment.get("PATH")))
    }

    fn cli_backend(&self, config: &Arc<CliConfig>, place: &Arc<Executor>) -> Arc<dyn Backend> {
        let backend = CliBackend::new(
            Arc::clone(config),
            Arc::clone(place),
            Arc::clone(&self.deps.environment),
            self.deps.launcher.clone(),
        );
        Arc::new(LimitedBackend::new(Arc::new(backend), self.deps.max_concurrent_calls))
    }

    fn rename_all(&mut self) {
        let settings = Arc::clone(&self.files.settings);
        let sources: Vec<CatalogSource> = self
            .state
            .catalog
            .sources()
            .filter_map(|source| {
                let entry = self.servers.get(source.backend.as_str())?;
                Some(server_offer::renamed(settings.aggregator.prefix(), &entry.server, source))
            })
            .collect();
        for source in sources {
            self.state.catalog = self.state.catalog.with(source);
        }
        for (name, source) in &mut self.lost {
            if let Some(entry) = self.servers.get(name) {
                let prefix = settings.aggregator.prefix();
                *source = Arc::new(server_offer::renamed(prefix, &entry.server, source));
            }
        }
    }

    fn add(&mut self, file: ServerFile, origin: Origin) {
        let ServerFile { path, server, secret_changes } = file;
        // Reserve the server's position in the catalog now, so that the order of connections does not decide which of
        // two tools of the same name is called.
        self.state.catalog = self.state.catalog.with(server_offer::nothing(&server));
        let is_pending = server.spec.is_pending();
        // A pending server gets no unit, so nothing can start it.
        if !is_pending {
            self.supervisor.add(&server);
        }
        let entry = ServerEntry {
            server: Arc::clone(&server),
            path,
            secret_changes,
            status: match is_pending {
                true => ServerStatus::awaiting_approval(),
                false => ServerStatus::idle(server.spec.kind),
            },
            since: Timestamp::now(),
            counts: Counts::default(),
            breaker: CircuitBreaker::new(
                &server.name,
                self.files.settings.aggregator.limits.call_failures,
            ),
        };
        self.servers.insert(server.name.clone(), Arc::new(entry));
        if origin == Origin::Edited {
            self.tell_of(Reason::McpServerCreated, &server);
        }
        if server.spec.auto_start && !is_pending {
            self.supervisor.set_running(&server.name, true);
        }
    }

    /// Takes a server out of service until an operator approves its change, or back into service once one has.
    fn change_approval(&mut self, entry: &ServerEntry, file: ServerFile) {
        let ServerFile { path, server, secret_changes } = file;
        let (name, is_pending) = (server.name.clone(), server.spec.is_pending());
        let backend = BackendName::new(name.as_str());
        self.supervisor.remove(&name);
        self.connections.remove(&name);
        self.lost.remove(&name);
        self.state.backends.remove(&backend);
        self.state.catalog = self.state.catalog.with(server_offer::nothing(&server));
        let status = match is_pending {
            true => ServerStatus::awaiting_approval(),
            false => ServerStatus::idle(server.spec.kind),
        };
        let generation = entry.status.generation;
        self.note(&name, |entry| {
            entry.path = path;
            entry.secret_changes = secret_changes;
            entry.server = Arc::clone(&server);
            entry.status = ServerStatus { generation, ..status };
            entry.counts = Counts::default();
        });
        if !is_pending {
            self.supervisor.add(&server);
            if server.spec.auto_start {
                self.supervisor.set_running(&name, true);
            }
        }
        self.tell_of(Reason::McpServerUpdated, &server);
    }

    fn change(&mut self, entry: &ServerEntry, file: ServerFile) {
        if entry.server.spec.is_pending() || file.server.spec.is_pending() {
            return self.change_approval(entry, file);
        }
        let ServerFile { path, server, secret_changes } = file;
        let (before, after) = (&entry.server.spec, &server.spec);
        let name = &server.name;
        let running = self.supervisor.should_run(name);
        let begins = after.auto_start && !before.auto_start && !running;
        let has_other_secrets = entry.secret_changes != secret_changes;
        let restart =
            (before.needs_restart(after) || has_other_secrets) && (running || after.auto_start);
        let kind_differs = before.kind != after.kind;
        self.supervisor.configure(&server);
        if before.call_timeout != after.call_timeout {
            self.apply_call_limits(&server);
        }
        self.note(name, |entry| {
            entry.path = path;
            entry.secret_changes = secret_changes;
            entry.server = Arc::clone(&server);
            if kind_differs && entry.status.condition.is_down() {
                entry.status = ServerStatus {
                    generation: entry.status.generation,
                    ..ServerStatus::idle(after.kind)
                };
            }
        });
        let prefix = self.files.settings.aggregator.prefix();
        if let Some(source) = self.state.catalog.source(name) {
            self.state.catalog =
                self.state.catalog.with(server_offer::renamed(prefix, &server, source));
        }
        match self.lost.get_mut(name) {
            // The name may belong to a different server now.
            Some(_) if restart => drop(self.lost.remove(name)),
            Some(last) => *last = Arc::new(server_offer::renamed(prefix, &server, last)),
            None => (),
        }
        if begins || restart {
            self.supervisor.set_running(name, true);
        }
        self.tell_of(Reason::McpServerUpdated, &server);
    }

    fn remove(&mut self, name: &str) {
        self.supervisor.remove(name);
        self.connections.remove(name);
        let backend = BackendName::new(name);
        self.lost.remove(name);
        self.deps.store.forget_listing(name);
        self.state.backends.remove(&backend);
        self.state.catalog = self.state.catalog.without(&backend);
        if let Some(entry) = self.servers.remove(name) {
            self.tell_of(Reason::McpServerDeleted, &entry.server);
        }
    }

    fn tell_of(&self, reason: Reason, server: &McpServer) {
        self.deps.journal.tell(reason, &server.name, &server.namespace, "");
    }
}

/// A CLI's tools under the names of a gateway; policies use their own names.
pub(crate) fn cli_source(name: &BackendName, config: &CliConfig) -> CatalogSource {
    let source = cli::source(name, config);
    let tools = source.entries().iter().map(|entry| ToolEntry {
        name: ToolName::new(cli_offer::exposed_name(&entry.local_name)),
        ..ToolEntry::clone(entry)
    });
    let offer = Offer { tools: tools.collect(), ..Offer::default() };
    CatalogSource::new(name.clone(), source.info.clone(), offer)
}

/// Warns about settings that only take effect after a restart.
fn warn_of_address(before: &Aggregator, now: &Aggregator) {
    let differ = [
        ("host", before.host != now.host),
        ("port", before.port != now.port),
        ("transport", before.transport != now.transport),
    ];
    for (key, _) in differ.into_iter().filter(|(_, differs)| *differs) {
        tracing::warn!(
            "the new `aggregator.{key}` of config.yaml counts from the next start of muster"
        );
    }
}

pub(super) fn log_new(problems: &[FileProblem], known: &[FileProblem]) {
    for problem in problems.iter().filter(|problem| !known.contains(problem)) {
        match problem.severity {
            Severity::Warning => tracing::warn!("{problem}"),
            Severity::Error => tracing::error!("{problem}"),
        }
    }
}
