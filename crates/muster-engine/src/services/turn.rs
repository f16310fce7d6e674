//! The right to act on one service.

use std::sync::Arc;

use jiff::Timestamp;
use muster_workflow::service::{
    Event, Next, State,
    health::{Checks, Health},
    machine::Tool,
    next,
};
use tokio::sync::OwnedMutexGuard;

use super::{Instance, Services, board::Id, life::Problem};
use crate::events::Reason;

/// Held by whoever acts on a service. Dropped while a tool runs, the service has failed.
#[derive(Debug)]
pub(super) struct Turn {
    services: Services,
    name: String,
    id: Id,
    _held: OwnedMutexGuard<()>,
}

impl Services {
    /// Waits for one's turn.
    pub(super) async fn turn(&self, name: &str) -> Result<Turn, Problem> {
        let unknown = || Problem::Unknown(name.to_owned());
        let known = self.get(name).ok_or_else(unknown)?;
        let held = Arc::clone(&known.turn).lock_owned().await;
        // It may have gone meanwhile.
        self.get(name).filter(|now| now.id == known.id).ok_or_else(unknown)?;
        Ok(Turn { services: self.clone(), name: name.to_owned(), id: known.id, _held: held })
    }

    /// One's turn, if nobody else has it.
    pub(super) fn try_turn(&self, name: &str) -> Option<Turn> {
        let known = self.get(name)?;
        let held = Arc::clone(&known.turn).try_lock_owned().ok()?;
        Some(Turn { services: self.clone(), name: name.to_owned(), id: known.id, _held: held })
    }
}

impl Turn {
    pub(super) const fn id(&self) -> Id {
        self.id
    }

    /// What it is now.
    pub(super) fn now(&self) -> Result<Arc<Instance>, Problem> {
        let known = self.services.get(&self.name).filter(|now| now.id == self.id);
        known.ok_or_else(|| Problem::Unknown(self.name.clone()))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Instance)) {
        self.services.change(&self.name, self.id, change);
    }

    /// Lets something happen, and says which tool has to be run for it.
    pub(super) fn happens(&self, event: Event) -> Option<Tool> {
        let before = self.now().ok()?;
        let (state, tool) = match next(before.state, event) {
            Next::Is(state) => (state, None),
            Next::Run(tool, state) => (state, Some(tool)),
            Next::Already | Next::Busy | Next::Ignored => return None,
        };
        let after = self.services.change(&self.name, self.id, |instance| {
            instance.state = state;
            instance.changes += 1;
            instance.updated = Timestamp::now();
            instance.checks = match state {
                State::Running => Checks::fresh(),
                State::Failed => Checks { health: Health::Unhealthy, ..Checks::default() },
                _ => Checks::default(),
            };
            if !matches!(state, State::Failed | State::Retrying | State::Waiting) {
                instance.error = None;
            }
        })?;
        let detail = format!("{} → {}", before.state.as_str(), state.as_str());
        self.services.tell(Reason::ServiceInstanceStateChanged, &after, &detail);
        tool
    }

    /// The tool has failed.
    pub(super) async fn broke(&self, error: &str) {
        self.fail(error);
        self.save().await;
    }

    fn fail(&self, error: &str) {
        self.happens(Event::Broke);
        self.change(|instance| instance.error = Some(error.to_owned()));
        if let Ok(now) = self.now() {
            tracing::warn!(service = self.name, "failed: {error}");
            self.services.tell(Reason::ServiceInstanceFailed, &now, error);
        }
    }

    /// Writes down what became of it, if it outlives the gateway.
    pub(super) async fn save(&self) {
        if let Ok(now) = self.now() {
            self.services.save(&now).await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.now().is_ok_and(|now| now.state.is_passing()) {
            self.fail("the call was cancelled before its tool was done");
        }
    }
}
