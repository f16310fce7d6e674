//! The servers that are missing from a listing or a search, named in every reply that would otherwise hide the gap.

use muster_core::{json::raw, next_step::LOG_IN, text, token_estimate};
use serde::Serialize;

use super::budget::Budget;
use crate::{absent::Absent, dispatch::GatewaySnapshot};

/// The number of servers that are named.
const MOST: usize = 6;
/// The number of servers that are named where there is little room.
const FEW: usize = 2;

/// The servers whose tools cannot be called now, within bounds.
#[derive(Debug, Default, Serialize)]
pub(in crate::surface) struct Unavailable {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable: Vec<Server>,
    /// The number of servers, if not all are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable_total: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Server {
    server: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Unavailable {
    /// The unavailable servers that the caller of a snapshot may see, in at most a third of the budget.
    pub(in crate::surface) fn of(state: &GatewaySnapshot, budget: Budget) -> Self {
        Self::among(state.absent.values().collect(), state, budget)
    }

    /// The unavailable servers other than [`LoginServers`].
    pub(super) fn besides_logins(state: &GatewaySnapshot, budget: Budget) -> Self {
        let others = state.absent.values().filter(|absent| !absent.requires_login(state));
        Self::among(others.collect(), state, budget)
    }

    fn among(mut absent: Vec<&Absent>, state: &GatewaySnapshot, budget: Budget) -> Self {
        // A server that failed is more of a surprise than one that was stopped.
        absent.sort_by_key(|absent| absent.condition.is_down());
        let fits = |one: &Self| one.cost() <= budget.0 / 3;
        let full =
            Self::written(&absent, MOST, |absent| (absent.reason(), Some(absent.hint(state))));
        if fits(&full) {
            return full;
        }
        let brief = |most| Self::written(&absent, most, |_| (None, None));
        Some(brief(MOST)).filter(fits).unwrap_or_else(|| brief(FEW))
    }

    fn written(
        absent: &[&Absent],
        most: usize,
        about: impl Fn(&Absent) -> (Option<String>, Option<String>),
    ) -> Self {
        let servers = absent.iter().take(most).map(|absent| {
            let (reason, hint) = about(absent);
            let server = text::shortened(absent.server.as_str()).into_owned();
            Server { server, state: absent.condition.as_str(), reason, hint }
        });
        Self {
            unavailable: servers.collect(),
            unavailable_total: Some(absent.len()).filter(|count| *count > most),
        }
    }

    /// Whether every server is available.
    pub(in crate::surface) fn is_empty(&self) -> bool {
        self.unavailable.is_empty()
    }

    /// Its cost in tokens.
    pub(super) fn cost(&self) -> usize {
        if self.is_empty() { 0 } else { token_estimate::estimate(raw(self).get()) }
    }

    /// The names of the servers, in a sentence.
    pub(super) fn sentence(&self) -> String {
        let names: Vec<&str> = self.unavailable.iter().map(|one| one.server.as_str()).collect();
        match names.as_slice() {
            [] => String::new(),
            names => format!("hint: these servers are unavailable: {}", names.join(", ")),
        }
    }
}

/// The servers that the caller has to log in to, within bounds.
#[derive(Debug, Default, Serialize)]
pub(super) struct LoginServers {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers_requiring_auth: Vec<LoginServer>,
    /// The number of servers, if not all are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    servers_requiring_auth_total: Option<usize>,
}

#[derive(Debug, Serialize)]
struct LoginServer {
    name: String,
    status: &'static str,
    auth_tool: &'static str,
}

impl LoginServers {
    /// The servers to log in to that the caller of a snapshot may see.
    pub(super) fn of(state: &GatewaySnapshot, budget: Budget) -> Self {
        let absent: Vec<&Absent> =
            state.absent.values().filter(|absent| absent.requires_login(state)).collect();
        let all = Self::written(&absent, MOST);
        if all.cost() <= budget.0 / 3 { all } else { Self::written(&absent, FEW) }
    }

    fn written(absent: &[&Absent], most: usize) -> Self {
        let servers = absent.iter().take(most).map(|absent| LoginServer {
            name: text::shortened(absent.server.as_str()).into_owned(),
            status: absent.condition.as_str(),
            auth_tool: LOG_IN,
        });
        Self {
            servers_requiring_auth: servers.collect(),
            servers_requiring_auth_total: Some(absent.len()).filter(|count| *count > most),
        }
    }

    /// Its cost in tokens.
    pub(super) fn cost(&self) -> usize {
        let is_empty = self.servers_requiring_auth.is_empty();
        if is_empty { 0 } else { token_estimate::estimate(raw(self).get()) }
    }
}
