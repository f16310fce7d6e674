//! What units say, taken into the state.

use std::sync::Arc;

use muster_core::{
    backend::Backend,
    connect::Listing,
    name::{BackendName, exposed},
    request::Change,
};
use muster_gateway::condition::Condition;

use super::Reconciler;
use crate::{
    events::Reason,
    limited::{Limited, Patience},
    offer,
    status::Report,
    supervisor::Word,
    view::{Counts, Known},
};

impl Reconciler {
    pub(super) fn hear(&mut self, name: &str, word: Word) {
        let Some(known) = self.servers.get(name).cloned() else { return };
        match word {
            Word::Doing(report) => {
                self.tell(&known, &report);
                self.note(name, |known| known.report = report);
                self.publish();
            }
            Word::Up(report, listing, backend) => {
                self.tell(&known, &report);
                let patience = known.server.spec.call_limit();
                let patience =
                    patience.map(|limit| Patience { server: BackendName::new(name), limit });
                let backend = Limited::new(backend, self.means.calls_at_once).within(patience);
                let backend: Arc<dyn Backend> = Arc::new(backend);
                self.state.backends.insert(BackendName::new(name), backend);
                self.note(name, |known| known.report = report);
                self.offers(&known, &listing);
            }
            Word::Relisted(listing) => self.offers(&known, &listing),
            Word::Down(report) => {
                self.tell(&known, &report);
                self.state.backends.remove(&BackendName::new(name));
                self.state.catalog = self.state.catalog.with(offer::nothing(&known.server));
                self.note(name, |known| {
                    known.report = report;
                    known.counts = Counts::default();
                });
                self.publish();
            }
            Word::Updated(uri) => {
                let prefix = self.files.settings.aggregator.prefix();
                let uri = match uri.contains("://") {
                    true => uri,
                    false => exposed(prefix, known.server.prefix(), &uri),
                };
                // Nobody may be listening.
                drop(self.outlets.changes.send(Change::Resource { uri }));
            }
        }
    }

    /// A server that someone has logged in to is up, though not for everybody.
    pub(super) fn logged_in(&mut self, name: &str) {
        let kind = self.servers.get(name).map(|known| known.server.spec.kind);
        let Some(kind) = kind else { return };
        self.note(name, |known| {
            if known.report.condition == Condition::AuthRequired {
                known.report.condition = Condition::up(kind);
            }
        });
        self.publish_view();
    }

    fn offers(&mut self, known: &Known, listing: &Listing) {
        let prefix = self.files.settings.aggregator.prefix().to_owned();
        let source = offer::source(&prefix, &known.server, listing);
        let counts = Counts {
            tools: source.entries().len(),
            resources: source.resources.len(),
            prompts: source.prompts.len(),
        };
        self.warn_of_collisions(&source);
        self.state.catalog = self.state.catalog.with(source);
        self.note(&known.server.name, |known| known.counts = counts);
        let server = &known.server;
        let found = format!("{} tools", counts.tools);
        self.means.journal.tell(
            Reason::McpServerToolsDiscovered,
            &server.name,
            &server.namespace,
            &found,
        );
        let theirs = format!("{prefix}_{}_", server.prefix());
        self.check_workflows(|workflow| workflow.reaches().any(|tool| tool.starts_with(&theirs)));
        self.publish();
    }

    fn warn_of_collisions(&self, source: &muster_core::catalog::Source) {
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

    pub(super) fn note(&mut self, name: &str, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.servers.get_mut(name) {
            change(Arc::make_mut(known));
        }
    }

    /// Takes down what a report means after what was.
    fn tell(&self, known: &Known, next: &Report) {
        let (before, server) = (&known.report, &known.server);
        let tell = |reason: Reason, detail: &str| {
            self.means.journal.tell(reason, &server.name, &server.namespace, detail);
        };
        let error = next.error.as_deref().unwrap_or_default();
        if known.counts != Counts::default() && !next.condition.is_up() {
            tell(Reason::McpServerToolsUnavailable, error);
        }
        match next.condition {
            Condition::Starting if before.next_retry.is_some() => {
                tell(Reason::McpServerRecoveryStarted, "");
            }
            Condition::Starting if before.last_attempt.is_some() => {
                tell(Reason::McpServerRestarting, "");
            }
            Condition::Starting => tell(Reason::McpServerStarting, ""),
            Condition::Running | Condition::Connected => {
                tell(Reason::McpServerStarted, "");
                if before.failures > 0 {
                    tell(Reason::McpServerRecoverySucceeded, "");
                }
            }
            Condition::Stopped | Condition::Disconnected if !before.condition.is_down() => {
                tell(Reason::McpServerStopped, "");
            }
            Condition::Failed | Condition::Unreachable => {
                tracing::warn!(server = server.name, "{}: {error}", next.condition.as_str());
                tell(Reason::McpServerFailed, error);
                if before.failures > 0 {
                    tell(Reason::McpServerRecoveryFailed, error);
                }
            }
            Condition::AuthRequired => tell(Reason::McpServerAuthRequired, ""),
            Condition::Stopped | Condition::Disconnected | Condition::Stopping => (),
        }
    }
}
