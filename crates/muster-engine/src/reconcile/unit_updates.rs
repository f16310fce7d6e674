//! Applies the updates of units to the state.

use std::sync::Arc;

use jiff::Timestamp;
use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::boxed,
    connect::ServerListing,
    name::{BackendName, exposed_name},
    request::Change,
};
use muster_gateway::condition::ServerCondition;

use super::Reconciler;
use crate::{
    backend_limits::LimitedBackend,
    events::Reason,
    server_offer,
    status::ServerStatus,
    supervisor::UnitUpdate,
    view::{Counts, ServerEntry},
};

impl Reconciler {
    /// Applies an update, publishes the state and records the events, in this order, so that the reader of an event
    /// finds the state that it reports.
    pub(super) fn apply_unit_update(&mut self, name: &str, update: UnitUpdate) {
        let Some(entry) = self.servers.get(name).cloned() else { return };
        match update {
            UnitUpdate::StatusChanged(status) => {
                // Its tools are unknown until a caller logs in, but it already counts as a member of its family.
                if status.condition == ServerCondition::AuthRequired
                    && entry.server.spec.family.is_some()
                {
                    let prefix = self.files.settings.aggregator.prefix();
                    let source = server_offer::awaiting_login(prefix, &entry.server);
                    self.state.catalog = self.state.catalog.with(source);
                }
                self.recall_listing(&entry.server, status.condition);
                self.note(name, |entry| entry.status = status.clone());
                self.publish();
                self.tell(&entry, &status);
            }
            UnitUpdate::Connected(status, listing, backend) => {
                entry.breaker.close();
                self.connections.insert(name.to_owned(), backend);
                self.apply_call_limits(&entry.server);
                self.lost.remove(name);
                self.note(name, |entry| entry.status = status.clone());
                let counts = self.publish_listing(&entry, &listing);
                self.tell(&entry, &status);
                self.tell_tools(&entry.server, counts);
            }
            UnitUpdate::Relisted(listing) => {
                let counts = self.publish_listing(&entry, &listing);
                self.tell_tools(&entry.server, counts);
            }
            UnitUpdate::Disconnected(status) => {
                self.connections.remove(name);
                self.state.backends.remove(&BackendName::new(name));
                self.keep_listing(name, status.condition);
                self.recall_listing(&entry.server, status.condition);
                self.state.catalog = self.state.catalog.with(server_offer::nothing(&entry.server));
                self.note(name, |entry| {
                    entry.status = status.clone();
                    entry.counts = Counts::default();
                });
                self.publish();
                self.tell(&entry, &status);
            }
            UnitUpdate::ResourceUpdated(uri) => {
                let prefix = self.files.settings.aggregator.prefix();
                let uri = match uri.contains("://") {
                    true => uri,
                    false => exposed_name(prefix, entry.server.prefix(), &uri),
                };
                // An error means that there is no listener.
                drop(self.outputs.changes.send(Change::Resource { uri }));
            }
        }
    }

    /// Applies the limits of a server to its connection. Calls in flight keep those they began with.
    pub(super) fn apply_call_limits(&mut self, server: &McpServer) {
        let Some(backend) = self.connections.get(&server.name) else { return };
        let Some(entry) = self.servers.get(&server.name) else { return };
        let (max_calls, breaker) = (self.deps.max_concurrent_calls, Arc::clone(&entry.breaker));
        let limited = LimitedBackend::for_server(Arc::clone(backend), server, max_calls, breaker);
        self.state.backends.insert(BackendName::new(server.name.as_str()), Arc::new(limited));
    }

    /// Keeps the listing of a server that is lost, so that its tools are still found. A server that was
    /// stopped has none.
    fn keep_listing(&mut self, name: &str, condition: ServerCondition) {
        if condition.is_down() || condition == ServerCondition::AuthRequired {
            self.lost.remove(name);
            return;
        }
        let source = self.state.catalog.source(name);
        if let Some(source) = source.filter(|source| !source.entries().is_empty()) {
            self.lost.insert(name.to_owned(), Arc::new(source.some_tools(|_| true)));
        }
    }

    /// Recalls the tools of a server that cannot be connected from the listing that an earlier gateway stored. They are
    /// not shown before the server has failed, because clients assume that a listed tool can be called.
    fn recall_listing(&mut self, server: &McpServer, condition: ServerCondition) {
        let has_failed =
            matches!(condition, ServerCondition::Failed | ServerCondition::Unreachable);
        if !has_failed || self.lost.contains_key(&server.name) {
            return;
        }
        if let Some(listing) = self.deps.store.last_listing(server) {
            let prefix = self.files.settings.aggregator.prefix();
            let source = server_offer::source(prefix, server, &listing);
            self.lost.insert(server.name.clone(), Arc::new(source.some_tools(|_| true)));
        }
    }

    /// Stores the listing for the next start, in the background.
    fn store_listing(&self, server: &Arc<McpServer>, listing: &ServerListing) {
        let (store, server) = (Arc::clone(&self.deps.store), Arc::clone(server));
        let listing = ServerListing { tools: listing.tools.clone(), ..ServerListing::default() };
        self.deps.tasks.spawn(boxed(async move {
            if let Err(error) = store.write_listing(&server, &listing).await {
                tracing::debug!("the tools of {} are not stored: {error}", server.name);
            }
        }));
    }

    /// Marks a server as up once a caller has logged in to it.
    pub(super) fn logged_in(&mut self, name: &str) {
        let kind = self.servers.get(name).map(|entry| entry.server.spec.kind);
        let Some(kind) = kind else { return };
        self.note(name, |entry| {
            if entry.status.condition == ServerCondition::AuthRequired {
                entry.status.condition = ServerCondition::up(kind);
            }
        });
        self.publish_view();
    }

    /// Adds the tools, resources and prompts of a server to the catalog.
    fn publish_listing(&mut self, entry: &ServerEntry, listing: &ServerListing) -> Counts {
        let prefix = self.files.settings.aggregator.prefix().to_owned();
        let source = server_offer::source(&prefix, &entry.server, listing);
        let counts = Counts {
            tools: source.own_tools().len(),
            resources: source.resources.len(),
            prompts: source.prompts.len(),
        };
        self.store_listing(&entry.server, listing);
        self.warn_of_collisions(&source);
        self.state.catalog = self.state.catalog.with(source);
        self.note(&entry.server.name, |entry| entry.counts = counts);
        let server = &entry.server;
        let family = server.spec.family.as_ref().map(|family| family.name.as_str());
        let theirs = [Some(server.prefix()), family];
        let theirs = theirs.map(|name| name.map(|name| format!("{prefix}_{name}_")));
        self.check_workflows(|workflow| {
            let of_server =
                |tool: &str| theirs.iter().flatten().any(|start| tool.starts_with(start));
            workflow.reachable_tools().any(of_server)
        });
        self.publish();
        counts
    }

    fn tell_tools(&self, server: &McpServer, counts: Counts) {
        let reason = Reason::McpServerToolsDiscovered;
        let found = match counts.tools {
            1 => "1 tool".to_owned(),
            tools => format!("{tools} tools"),
        };
        self.deps.journal.tell(reason, &server.name, &server.namespace, &found);
    }

    fn warn_of_collisions(&self, source: &muster_core::catalog::CatalogSource) {
        self.warn_of_family(source.backend.as_str());
        for entry in source.entries() {
            let taken = self.state.catalog.get(entry.name.as_str());
            if let Some(taken) = taken.filter(|taken| taken.backend != source.backend) {
                let (name, backend, first) = (&entry.name, &source.backend, &taken.backend);
                tracing::warn!(
                    "two tools are named `{name}`: which of `{first}` and `{backend}` is called \
                     depends on their order; give one of them a `toolPrefix`"
                );
            }
        }
    }

    /// Warns about a family whose servers are not selected by the same argument.
    fn warn_of_family(&self, name: &str) {
        let family = |entry: &Arc<ServerEntry>| entry.server.spec.family.clone();
        let Some(own) = self.servers.get(name).and_then(family) else { return };
        let others = self.servers.values().filter(|entry| {
            family(entry).is_some_and(|other| {
                other.name == own.name && other.instance_arg != own.instance_arg
            })
        });
        let others: Vec<&str> = others.map(|entry| entry.server.name.as_str()).collect();
        if !others.is_empty() {
            tracing::warn!(
                server = name,
                "the tools of family `{}` are not grouped: `instanceArg` differs from that of {}",
                own.name,
                others.join(", ")
            );
        }
    }

    pub(super) fn note(&mut self, name: &str, change: impl FnOnce(&mut ServerEntry)) {
        if let Some(entry) = self.servers.get_mut(name) {
            let entry = Arc::make_mut(entry);
            let before = entry.status.clone();
            change(entry);
            if !entry.status.continues(&before) {
                entry.since = Timestamp::now();
            }
        }
    }

    /// Records the events of a status change.
    fn tell(&self, entry: &ServerEntry, next: &ServerStatus) {
        let (before, server) = (&entry.status, &entry.server);
        let tell = |reason: Reason, detail: &str| {
            self.deps.journal.tell(reason, &server.name, &server.namespace, detail);
        };
        let error = next.error.as_deref().unwrap_or_default();
        if entry.counts != Counts::default() && !next.condition.is_up() {
            tell(Reason::McpServerToolsUnavailable, error);
        }
        match next.condition {
            ServerCondition::Starting if before.next_retry.is_some() => {
                tell(Reason::McpServerRecoveryStarted, "");
            }
            ServerCondition::Starting if before.last_attempt.is_some() => {
                tell(Reason::McpServerRestarting, "");
            }
            ServerCondition::Starting => tell(Reason::McpServerStarting, ""),
            ServerCondition::Running | ServerCondition::Connected => {
                tell(Reason::McpServerStarted, "");
                if before.failures > 0 {
                    tell(Reason::McpServerRecoverySucceeded, "");
                }
            }
            ServerCondition::Stopped | ServerCondition::Disconnected
                if !before.condition.is_down() =>
            {
                tell(Reason::McpServerStopped, "");
            }
            ServerCondition::Failed | ServerCondition::Unreachable => {
                tracing::warn!(server = server.name, "{}: {error}", next.condition.as_str());
                tell(Reason::McpServerFailed, error);
                if before.failures > 0 {
                    tell(Reason::McpServerRecoveryFailed, error);
                }
            }
            ServerCondition::AuthRequired => tell(Reason::McpServerAuthRequired, ""),
            ServerCondition::Stopped
            | ServerCondition::Disconnected
            | ServerCondition::Stopping
            | ServerCondition::AwaitingApproval => (),
        }
    }
}
