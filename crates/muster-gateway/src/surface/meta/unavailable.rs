//! The servers that a listing or a search misses, in every reply that would otherwise hide it.

use muster_core::{json::raw, text, token_estimate};
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
    /// Those that the caller of a snapshot may see, in at most a third of the budget.
    pub(in crate::surface) fn of(state: &GatewaySnapshot, budget: Budget) -> Self {
        let mut absent: Vec<&Absent> = state.absent.values().collect();
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
