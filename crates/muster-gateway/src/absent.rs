//! Servers whose tools cannot be called now, and what to do about each.

use std::sync::Arc;

use muster_api::UnavailableServer;
use muster_core::{
    catalog::{CatalogSnapshot, CatalogSource, ToolEntry},
    name::BackendName,
    next_step::{LOG_IN, NextStep, START_SERVICE},
    text,
};

use crate::{condition::ServerCondition, dispatch::GatewaySnapshot};

/// A server whose tools cannot be called now.
#[derive(Debug, Clone)]
pub struct Absent {
    /// The server.
    pub server: BackendName,
    /// Its condition.
    pub condition: ServerCondition,
    /// Whether it is connected with the caller's login at the gateway.
    pub uses_sso: bool,
    /// Its last error. Never holds a secret.
    pub error: Option<String>,
    /// When it is tried again, in RFC 3339.
    pub next_retry: Option<String>,
    /// Its last listing, if the server was lost rather than stopped.
    pub last: Option<Arc<CatalogSource>>,
    /// The prefix of the tools of its family, if it has one.
    pub family_prefix: Option<String>,
}

impl Absent {
    /// Creates an absent server in this condition, without a last listing.
    pub fn new(server: BackendName, condition: ServerCondition) -> Self {
        let (error, next_retry, last, family_prefix) = (None, None, None, None);
        Self { server, condition, uses_sso: false, error, next_retry, last, family_prefix }
    }

    /// Whether the caller has to log in to it, and there is a tool for that.
    pub(crate) fn requires_login(&self, state: &GatewaySnapshot) -> bool {
        let is_required = self.condition == ServerCondition::AuthRequired && !self.uses_sso;
        is_required && state.catalog.get(LOG_IN).is_some()
    }

    /// Its last error in one short line.
    pub(crate) fn reason(&self) -> Option<String> {
        let line = text::printable(self.error.as_deref()?);
        (!line.is_empty()).then_some(line)
    }

    /// Its state, its reason, and what its caller can do.
    pub fn info(&self, state: &GatewaySnapshot) -> UnavailableServer {
        UnavailableServer {
            server: self.server.to_string(),
            state: self.condition.state(),
            reason: self.reason(),
            hint: Some(self.hint(state)),
        }
    }

    /// Says that the server is unavailable, and why.
    pub fn in_words(&self) -> String {
        format!("server {} is unavailable ({})", self.server, self.summary())
    }

    /// The hint for its caller.
    pub(crate) fn hint(&self, state: &GatewaySnapshot) -> String {
        let server = &self.server;
        let word = text::shell_quoted(server.as_str());
        // Without core tools there is no command to suggest either: a server given on the command line is only retried.
        let start = state.catalog.get(START_SERVICE).map(|entry| match state.policy.shows(entry) {
            true => NextStep::StartService { name: server.to_string() }.to_string(),
            false => format!("an operator runs `muster start service {word}`"),
        });
        match (self.condition, &self.next_retry, start) {
            (ServerCondition::AuthRequired, ..) if self.uses_sso => {
                "it uses your login at this gateway: log in to the gateway again".to_owned()
            }
            (ServerCondition::AuthRequired, _, Some(_)) => {
                format!("log in with {}", NextStep::LogIn { server: server.to_string() })
            }
            (ServerCondition::AuthRequired, _, None) => "it requires a login".to_owned(),
            (ServerCondition::AwaitingApproval, ..) => {
                format!("an operator must approve it first: `muster approve mcpserver {word}`")
            }
            (ServerCondition::Starting, ..) => {
                "it is still starting; call again in a moment".to_owned()
            }
            (_, Some(at), Some(start)) => {
                format!("it is tried again at {at}; to try now: {start}")
            }
            (_, Some(at), None) => format!("it is tried again at {at}"),
            (_, None, Some(start)) => format!("to start it: {start}"),
            (_, None, None) => "call again later".to_owned(),
        }
    }

    /// Its state and reason in one line.
    pub(crate) fn summary(&self) -> String {
        let state = self.condition.as_str();
        match self.reason() {
            Some(reason) => format!("{state}: {reason}"),
            None => state.to_owned(),
        }
    }
}

impl GatewaySnapshot {
    /// The catalog with the last known tools of absent servers. It shares everything with the catalog if there
    /// are none.
    pub(crate) fn listed(&self) -> CatalogSnapshot {
        let lost = self.absent.values().filter_map(|absent| absent.last.as_deref());
        lost.fold(self.catalog.clone(), |listed, last| {
            let some =
                last.some_tools(|entry: &ToolEntry| listed.get(entry.name.as_str()).is_none());
            listed.with(some)
        })
    }

    /// The absent servers that a tool of this name may belong to: the one with its prefix, or the members of its
    /// family.
    pub fn absent_servers_of(&self, tool: &str) -> Vec<&Absent> {
        let of_server = self.absent.iter().filter(|(start, _)| tool.starts_with(start.as_str()));
        let of_server = of_server.max_by_key(|(start, _)| start.len()).map(|(_, absent)| absent);
        let in_family = |absent: &&Absent| {
            absent.family_prefix.as_ref().is_some_and(|start| tool.starts_with(start.as_str()))
        };
        match of_server {
            Some(absent) => vec![absent],
            None => self.absent.values().filter(in_family).collect(),
        }
    }

    /// The absent server of a tool that is listed only because it was in that server's last listing.
    pub(crate) fn absence_of(&self, entry: &Arc<ToolEntry>) -> Option<&Absent> {
        let live = || self.catalog.get(entry.name.as_str());
        let mut absent = self.absent.values();
        absent
            .find(|absent| absent.last.is_some() && absent.server == entry.backend)
            .filter(|_| !live().is_some_and(|live| Arc::ptr_eq(live, entry)))
    }
}
