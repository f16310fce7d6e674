//! The lease of a service: exclusive access for one operation.

use std::sync::Arc;

use jiff::Timestamp;
use muster_workflow::service::{
    ServiceEvent, ServiceState, Transition,
    health::{HealthChecks, ServiceHealth},
    machine::LifecycleTool,
    next,
};
use tokio::sync::OwnedMutexGuard;

use super::{Instance, Services, lifecycle::ServiceError, registry::Id};
use crate::events::Reason;

/// Exclusive access to a service. If it is dropped while a tool runs, the service has failed.
#[derive(Debug)]
pub(super) struct Lease {
    services: Services,
    name: String,
    id: Id,
    _held: OwnedMutexGuard<()>,
}

impl Services {
    /// Waits for the lease.
    pub(super) async fn lease(&self, name: &str) -> Result<Lease, ServiceError> {
        let unknown = || ServiceError::Unknown(name.to_owned());
        let instance = self.get(name).ok_or_else(unknown)?;
        let held = Arc::clone(&instance.lease).lock_owned().await;
        // The service may have been deleted meanwhile.
        self.get(name).filter(|now| now.id == instance.id).ok_or_else(unknown)?;
        Ok(Lease { services: self.clone(), name: name.to_owned(), id: instance.id, _held: held })
    }

    /// The lease, if it is free.
    pub(super) fn try_lease(&self, name: &str) -> Option<Lease> {
        let instance = self.get(name)?;
        let held = Arc::clone(&instance.lease).try_lock_owned().ok()?;
        Some(Lease { services: self.clone(), name: name.to_owned(), id: instance.id, _held: held })
    }
}

impl Lease {
    pub(super) const fn id(&self) -> Id {
        self.id
    }

    /// The current service.
    pub(super) fn now(&self) -> Result<Arc<Instance>, ServiceError> {
        let instance = self.services.get(&self.name).filter(|now| now.id == self.id);
        instance.ok_or_else(|| ServiceError::Unknown(self.name.clone()))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Instance)) {
        self.services.change(&self.name, self.id, change);
    }

    /// Applies an event of the state machine. Returns the tool to call.
    pub(super) fn apply(&self, event: ServiceEvent) -> Option<LifecycleTool> {
        let before = self.now().ok()?;
        let (state, tool) = match next(before.state, event) {
            Transition::MoveTo(state) => (state, None),
            Transition::Run(tool, state) => (state, Some(tool)),
            Transition::Already | Transition::Busy | Transition::Ignored => return None,
        };
        let after = self.services.change(&self.name, self.id, |instance| {
            instance.state = state;
            instance.changes += 1;
            instance.updated = Timestamp::now();
            instance.checks = match state {
                ServiceState::Running => HealthChecks::fresh(),
                ServiceState::Failed => {
                    HealthChecks { health: ServiceHealth::Unhealthy, ..HealthChecks::default() }
                }
                _ => HealthChecks::default(),
            };
            if !matches!(
                state,
                ServiceState::Failed | ServiceState::Retrying | ServiceState::Waiting
            ) {
                instance.error = None;
            }
        })?;
        let detail = format!("{} → {}", before.state.as_str(), state.as_str());
        self.services.record(Reason::ServiceInstanceStateChanged, &after, &detail);
        tool
    }

    /// Marks the service as failed.
    pub(super) async fn fail_and_save(&self, error: &str) {
        self.fail(error);
        self.save().await;
    }

    fn fail(&self, error: &str) {
        self.apply(ServiceEvent::Failed);
        self.change(|instance| instance.error = Some(error.to_owned()));
        if let Ok(now) = self.now() {
            tracing::warn!(service = self.name, "failed: {error}");
            self.services.record(Reason::ServiceInstanceFailed, &now, error);
        }
    }

    /// Writes the state to the service's file, if it has one.
    pub(super) async fn save(&self) {
        if let Ok(now) = self.now() {
            self.services.save(&now).await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.now().is_ok_and(|now| now.state.is_passing()) {
            self.fail("the call was cancelled before its tool was done");
        }
    }
}
