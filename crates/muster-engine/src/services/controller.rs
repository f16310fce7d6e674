//! The controller of a service: a task that starts the service, retries, and checks its health.

use std::sync::Arc;

use muster_core::{backend::boxed, backoff::Backoff};
use muster_gateway::dispatch;
use muster_workflow::service::{
    ServiceClass, ServiceEvent, ServiceState,
    health::{HealthChecks, ServiceHealth, check_response},
    values,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Instance, Services,
    calls::Phase,
    registry::{Id, Registry},
};
use crate::{events::Reason, view::View};

/// The next action of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Wait for a change.
    Nothing,
    /// Start the service.
    Start,
    /// Start the service at a time.
    Retry(Instant),
    /// Find out whether the service runs.
    Probe,
    /// Check the service's health at a time.
    Check(Instant),
}

impl Services {
    /// Spawns the controller, which ends with the service.
    pub(super) fn spawn_controller(&self, instance: &Instance) {
        let controller = Controller {
            name: instance.service.name.clone(),
            id: instance.id,
            registries: self.inner.registry.subscribe(),
            views: self.inner.deps.view.clone(),
            states: self.inner.deps.state.clone(),
            services: self.clone(),
            check_at: None,
        };
        self.inner.deps.tasks.spawn(boxed(controller.run()));
    }
}

struct Controller {
    services: Services,
    name: String,
    id: Id,
    registries: watch::Receiver<Registry>,
    views: watch::Receiver<Arc<View>>,
    states: watch::Receiver<Arc<dispatch::GatewaySnapshot>>,
    check_at: Option<(u64, Instant)>,
}

impl Controller {
    async fn run(mut self) {
        loop {
            self.views.mark_unchanged();
            self.states.mark_unchanged();
            let registry = self.registries.borrow_and_update().clone();
            let known = registry.instances.get(&self.name).filter(|known| known.id == self.id);
            let Some(instance) = known.filter(|_| !registry.shutting_down) else { return };
            let due = self.due(instance);
            let at = match due {
                Due::Nothing => None,
                Due::Start | Due::Probe => Some(Instant::now()),
                Due::Retry(at) | Due::Check(at) => Some(at),
            };
            let time = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.registries.changed() => if changed.is_err() { return },
                changed = self.views.changed() => if changed.is_err() { return },
                changed = self.states.changed() => if changed.is_err() { return },
                () = time => {
                    let (services, name, id) = (self.services.clone(), self.name.clone(), self.id);
                    let instance = Arc::clone(instance);
                    let act = async move {
                        match due {
                            Due::Nothing => (),
                            Due::Start | Due::Retry(_) => services.start_or_retry(&name, id).await,
                            Due::Probe => services.probe(&name).await,
                            Due::Check(_) => services.check_health(&instance).await,
                        }
                    };
                    // An action in progress is cancelled at shutdown.
                    let shutting_down = self.registries.wait_for(|registry| registry.shutting_down);
                    tokio::select! {
                        biased;
                        _ = shutting_down => return,
                        () = act => (),
                    }
                    self.check_at = None;
                }
            }
        }
    }

    fn due(&mut self, instance: &Instance) -> Due {
        if instance.deleting {
            return Due::Nothing;
        }
        match instance.state {
            ServiceState::Waiting => match self.services.blocked_by(instance) {
                None => Due::Start,
                Some(reason) => {
                    if instance.error.as_deref() != Some(&reason) {
                        let reason = Some(reason);
                        self.services.change(&self.name, self.id, |known| known.error = reason);
                    }
                    Due::Nothing
                }
            },
            ServiceState::Retrying => instance.retry_at.map_or(Due::Start, Due::Retry),
            ServiceState::Unknown if self.services.can_probe(instance) => Due::Probe,
            ServiceState::Running => self.next_check(instance).map_or(Due::Nothing, Due::Check),
            ServiceState::Unknown
            | ServiceState::Starting
            | ServiceState::Stopping
            | ServiceState::Stopped
            | ServiceState::Failed => Due::Nothing,
        }
    }

    /// The time of the next health check. A service that has just started is first checked after one interval.
    fn next_check(&mut self, instance: &Instance) -> Option<Instant> {
        let class = checked(&self.services, instance)?;
        let pause = class.spec.service_config.health_check.pause();
        match self.check_at {
            Some((changes, at)) if changes == instance.changes => Some(at),
            _ => {
                let at = Instant::now() + pause;
                self.check_at = Some((instance.changes, at));
                Some(at)
            }
        }
    }
}

/// The class of a service, if its health is checked.
fn checked(services: &Services, instance: &Instance) -> Option<Arc<ServiceClass>> {
    let class = services.class_of(instance)?;
    let config = &class.spec.service_config;
    let looks = config.health_check.enabled && config.lifecycle_tools.health_check.is_some();
    looks.then_some(class)
}

impl Services {
    /// Starts a service, and schedules a retry if that fails.
    async fn start_or_retry(&self, name: &str, id: Id) {
        let Err(error) = self.start(self.system(), name).await else { return };
        let Ok(lease) = self.lease(name).await else { return };
        let timing = self.inner.deps.timing;
        lease.apply(ServiceEvent::Retry);
        self.change(name, id, |instance| {
            let backoff = Backoff { first: timing.restart_backoff, max: timing.max_backoff };
            let wait = backoff.delay(instance.attempts);
            instance.attempts += 1;
            instance.retry_at = Some(Instant::now() + wait);
            instance.error = Some(error.to_string());
        });
        lease.save().await;
    }

    fn can_probe(&self, instance: &Instance) -> bool {
        let Some(class) = self.class_of(instance) else { return false };
        let asks = class.spec.service_config.lifecycle_tools.status.is_some();
        asks && super::missing_tools(&self.inner.deps.state.borrow(), &class.spec).is_empty()
    }

    /// Finds out whether a service that an earlier gateway started still runs.
    async fn probe(&self, name: &str) {
        let Ok(lease) = self.lease(name).await else { return };
        match self.perform(self.system(), &lease, Phase::Status).await {
            Ok(()) => drop(lease.apply(ServiceEvent::FoundUp)),
            Err(error) => {
                lease.apply(ServiceEvent::FoundDown);
                tracing::info!(service = name, "it runs no longer: {error}");
                if lease.now().is_ok_and(|now| now.service.auto_start) {
                    lease.apply(ServiceEvent::Wait);
                }
            }
        }
        lease.save().await;
    }

    /// Checks the health of a service.
    async fn check_health(&self, instance: &Instance) {
        let Some(class) = checked(self, instance) else { return };
        let config = &class.spec.service_config;
        let Some(tool) = &config.lifecycle_tools.health_check else { return };
        let seen = values::template_data(&instance.service, &instance.given);
        let looked = match values::render_args(tool.args.as_ref(), &seen) {
            Ok(args) => self.ask(self.system(), &tool.tool, &args, config.timeout.check()).await,
            Err(error) => Err(format!("failed to process health check arguments: {error}")),
        };
        let looked = looked.and_then(|said| check_response(tool, said.success, &said.text));
        let before = instance.checks;
        let mut after = before;
        let (name, changes) = (&instance.service.name, instance.changes);
        self.change(name, instance.id, |now| {
            // Restarted meanwhile: the result belongs to another run.
            if now.changes == changes {
                after = now.checks.after(looked.is_ok(), &config.health_check);
                now.checks = after;
                now.error = looked.as_ref().err().cloned();
            }
        });
        self.record_health(instance, before, after, &looked);
    }

    fn record_health(
        &self,
        instance: &Instance,
        before: HealthChecks,
        after: HealthChecks,
        looked: &Result<(), String>,
    ) {
        let tell = |reason: Reason, detail: &str| self.record(reason, instance, detail);
        if let Err(error) = looked {
            tell(Reason::ServiceInstanceHealthCheckFailed, error);
        }
        if before.failures > 0 && looked.is_ok() {
            tell(Reason::ServiceInstanceHealthCheckRecovered, "");
        }
        match (before.health, after.health) {
            (ServiceHealth::Unhealthy, ServiceHealth::Healthy) => {
                tell(Reason::ServiceInstanceHealthy, "");
            }
            (ServiceHealth::Unhealthy, ServiceHealth::Unhealthy) => (),
            (_, ServiceHealth::Unhealthy) => {
                let error = looked.as_ref().err().map(String::as_str).unwrap_or_default();
                tell(Reason::ServiceInstanceUnhealthy, error);
            }
            _ => (),
        }
    }
}
