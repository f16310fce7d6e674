//! The lifecycle of a service: create, start, stop, restart, delete.

use std::{sync::Arc, time::Duration};

use muster_config::service::ServiceFile;
use muster_core::{
    backend::{BoxFuture, CallContext},
    name::check_resource_name,
};
use muster_workflow::service::{
    Service, ServiceEvent, ServiceState, Transition, arguments, machine::LifecycleTool, next,
    values,
};
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::time::sleep;

use super::{
    Instance, Services, calls::Phase, dependencies::Dependency, lease::Lease, missing_tools,
};
use crate::{
    events::Reason,
    reconcile::{Edit, ServiceEdit},
};

/// The pause between stop and start of a service without a restart tool.
const PAUSE: Duration = Duration::from_millis(100);

/// The arguments of a new service.
#[derive(Debug)]
pub(crate) struct NewService {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) args: Map<String, Value>,
    pub(crate) auto_start: bool,
    /// Whether it is stored in a file.
    pub(crate) persist: bool,
}

/// The result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    Now,
    Already,
}

/// The result of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Now,
    Already,
}

/// Why an operation failed.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    #[error("service {0} not found")]
    Unknown(String),
    #[error("{0}")]
    Refused(String),
    #[error("cannot restart while starting or stopping")]
    Busy,
    #[error("the gateway is shutting down")]
    Ending,
}

impl Services {
    /// Creates and starts a service. If it cannot be started, it is removed.
    pub(crate) async fn create(
        &self,
        cx: CallContext<'_>,
        new: NewService,
    ) -> Result<Arc<Instance>, ServiceError> {
        let persist = new.persist;
        let instance = self.register(new)?;
        let name = instance.service.name.clone();
        let made = self.begin(cx, &instance, persist).await;
        if let Err(error) = made {
            self.forget(&instance).await;
            return Err(ServiceError::Refused(format!(
                "failed to start ServiceClass instance: {error}"
            )));
        }
        self.get(&name).ok_or(ServiceError::Unknown(name))
    }

    /// Validates and registers a new service.
    fn register(&self, new: NewService) -> Result<Arc<Instance>, ServiceError> {
        let NewService { class: class_name, name, args, auto_start, persist: _ } = new;
        self.check_running()?;
        let refused = |text: String| Err(ServiceError::Refused(text));
        let Some(class) = self.class(&class_name) else {
            return refused(format!(
                "ServiceClass {class_name} not found: service class {class_name} not found"
            ));
        };
        let missing = missing_tools(&self.inner.deps.state.borrow(), &class.spec);
        if !missing.is_empty() {
            return refused(format!(
                "ServiceClass {class_name} is not available (missing required tools): {}",
                missing.join(", ")
            ));
        }
        let args = match arguments::with_defaults(&class.spec.args, args) {
            Ok(args) => args,
            Err(unfit) => return refused(format!("arg validation failed: {unfit}")),
        };
        if self.is_static(&name) {
            return refused(format!("static service with name {name} already exists"));
        }
        if let Err(invalid) = check_resource_name(&name) {
            return refused(format!("invalid create request: {invalid}"));
        }
        let namespace = self.inner.deps.view.borrow().settings.namespace().to_owned();
        let service =
            Service { name: name.clone(), namespace, class: class_name, args, auto_start };
        let instance = Instance::new(service, Some(class), ServiceState::Stopped);
        let exists = || ServiceError::Refused(format!("service with name {name} already exists"));
        let instance = self.insert(instance).ok_or_else(exists)?;
        self.record(Reason::ServiceInstanceCreated, &instance, "");
        self.spawn_controller(&instance);
        Ok(instance)
    }

    /// Whether a name is taken by the gateway itself or by a server.
    pub(crate) fn is_static(&self, name: &str) -> bool {
        name == crate::core_tools::AGGREGATOR
            || self.inner.deps.view.borrow().servers.contains_key(name)
    }

    async fn begin(
        &self,
        cx: CallContext<'_>,
        instance: &Instance,
        persist: bool,
    ) -> Result<(), ServiceError> {
        // Write the file before anything runs, so that the next gateway knows about the service after a crash.
        if persist {
            let file =
                ServiceFile { service: (*instance.service).clone(), record: instance.record() };
            let edit = Edit::Service(ServiceEdit::Create(Box::new(file)));
            self.edit(edit).await.map_err(|error| ServiceError::Refused(error.to_string()))?;
        }
        self.start(cx, &instance.service.name).await.map(|_| ())
    }

    /// Removes a service that never ran, and its file.
    async fn forget(&self, instance: &Instance) {
        let name = &instance.service.name;
        self.change(name, instance.id, |instance| instance.deleting = true);
        self.remove_file(name).await;
        self.remove(name, instance.id);
    }

    async fn remove_file(&self, name: &str) {
        if self.get(name).is_some_and(|instance| instance.path.is_none()) {
            return;
        }
        let edit = Edit::Service(ServiceEdit::Delete(name.to_owned()));
        if let Err(error) = self.edit(edit).await {
            tracing::warn!(service = name, "its file stays: {error}");
        }
    }

    /// Starts a service and its dependencies.
    pub(crate) fn start<'a>(
        &'a self,
        cx: CallContext<'a>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Started, ServiceError>> {
        Box::pin(async move {
            self.check_running()?;
            if let Some(cycle) = self.cycle(name) {
                return Err(ServiceError::Refused(format!("it depends on itself: {cycle}")));
            }
            let lease = self.lease(name).await?;
            match next(lease.now()?.state, ServiceEvent::Start) {
                Transition::Already => return Ok(Started::Already),
                _ => self.bring_up(cx, &lease).await?,
            }
            Ok(Started::Now)
        })
    }

    /// Starts the dependencies of a service, then the service itself.
    async fn bring_up(&self, cx: CallContext<'_>, lease: &Lease) -> Result<(), ServiceError> {
        for need in self.dependencies(&*lease.now()?) {
            let refused = |text: String| Err(ServiceError::Refused(text));
            match need {
                Dependency::Met => (),
                Dependency::Service(name) => {
                    if let Err(error) = self.start(cx, &name).await {
                        return refused(format!(
                            "dependency '{name}' could not be started: {error}"
                        ));
                    }
                }
                Dependency::Server(name) => {
                    return refused(format!(
                        "dependency '{name}' is a server that is not connected; start it with core_service_start"
                    ));
                }
                Dependency::Unknown(name) => {
                    return refused(format!(
                        "dependency '{name}' not found; create a service of that name or class first"
                    ));
                }
            }
        }
        self.run_start(cx, lease).await
    }

    async fn run_start(&self, cx: CallContext<'_>, lease: &Lease) -> Result<(), ServiceError> {
        lease.change(|instance| {
            if let Some(edited) = instance.edited.take() {
                instance.service = edited;
            }
        });
        lease.apply(ServiceEvent::Start);
        self.record(Reason::ServiceInstanceStarting, &*lease.now()?, "");
        lease.save().await;
        self.run(cx, lease, Phase::Start).await?;
        self.record(Reason::ServiceInstanceStarted, &*lease.now()?, "");
        Ok(())
    }

    /// Calls a tool and records the result.
    async fn run(
        &self,
        cx: CallContext<'_>,
        lease: &Lease,
        phase: Phase,
    ) -> Result<(), ServiceError> {
        if let Err(error) = self.perform(cx, lease, phase).await {
            lease.fail_and_save(&error).await;
            return Err(ServiceError::Refused(error));
        }
        if phase != Phase::Stop {
            self.fill_outputs(lease)?;
        }
        lease.apply(ServiceEvent::Done);
        lease.change(|instance| {
            instance.attempts = 0;
            instance.retry_at = None;
        });
        lease.save().await;
        Ok(())
    }

    fn fill_outputs(&self, lease: &Lease) -> Result<(), ServiceError> {
        let instance = lease.now()?;
        let Some(class) = self.class_of(&instance) else { return Ok(()) };
        let templates = &class.spec.service_config.outputs;
        let outputs = values::outputs(templates, &instance.service, &instance.given);
        let outputs = outputs.unwrap_or_else(|error| {
            let name = &instance.service.name;
            tracing::warn!(service = name, "it has no outputs: {error}");
            Map::new()
        });
        lease.change(|instance| instance.outputs = outputs);
        Ok(())
    }

    /// Stops a service.
    pub(crate) async fn stop(
        &self,
        cx: CallContext<'_>,
        name: &str,
    ) -> Result<Stopped, ServiceError> {
        let lease = self.lease(name).await?;
        match next(lease.now()?.state, ServiceEvent::Stop) {
            Transition::Already => Ok(Stopped::Already),
            Transition::Run(..) => self.run_stop(cx, &lease).await.map(|()| Stopped::Now),
            Transition::MoveTo(_) | Transition::Busy | Transition::Ignored => {
                lease.apply(ServiceEvent::Stop);
                lease.save().await;
                self.record(Reason::ServiceInstanceStopped, &*lease.now()?, "");
                Ok(Stopped::Now)
            }
        }
    }

    async fn run_stop(&self, cx: CallContext<'_>, lease: &Lease) -> Result<(), ServiceError> {
        lease.apply(ServiceEvent::Stop);
        self.record(Reason::ServiceInstanceStopping, &*lease.now()?, "");
        lease.save().await;
        self.run(cx, lease, Phase::Stop).await?;
        self.record(Reason::ServiceInstanceStopped, &*lease.now()?, "");
        Ok(())
    }

    /// Restarts a service with its restart tool, or by stopping and starting it.
    pub(crate) async fn restart(
        &self,
        cx: CallContext<'_>,
        name: &str,
    ) -> Result<(), ServiceError> {
        self.check_running()?;
        if self.get(name).is_some_and(|instance| instance.state.is_passing()) {
            return Err(ServiceError::Busy);
        }
        let lease = self.lease(name).await?;
        let before = lease.now()?;
        self.record(Reason::ServiceInstanceRestarting, &before, "");
        match next(before.state, ServiceEvent::Restart) {
            Transition::Run(LifecycleTool::Restart, _) if self.has_restart(&before) => {
                lease.apply(ServiceEvent::Restart);
                lease.save().await;
                self.run(cx, &lease, Phase::Restart).await?;
            }
            Transition::Run(LifecycleTool::Restart, _) => {
                let stopped = self.run_stop(cx, &lease).await;
                // Ignore the failure if the service was not running properly.
                if before.state == ServiceState::Running {
                    stopped?;
                }
                sleep(PAUSE).await;
                self.bring_up(cx, &lease).await?;
            }
            _ => self.bring_up(cx, &lease).await?,
        }
        self.record(Reason::ServiceInstanceRestarted, &*lease.now()?, "");
        Ok(())
    }

    fn has_restart(&self, instance: &Instance) -> bool {
        let class = self.class_of(instance);
        class.is_some_and(|class| class.spec.service_config.lifecycle_tools.restart.is_some())
    }

    /// Stops a service, as far as possible, and removes it.
    pub(crate) async fn delete(&self, cx: CallContext<'_>, name: &str) -> Result<(), ServiceError> {
        let lease = self.lease(name).await?;
        lease.change(|instance| instance.deleting = true);
        if matches!(next(lease.now()?.state, ServiceEvent::Stop), Transition::Run(..))
            && let Err(error) = self.run_stop(cx, &lease).await
        {
            tracing::warn!(service = name, "it is deleted without being stopped: {error}");
        }
        let last = lease.now()?;
        self.remove_file(name).await;
        self.remove(name, lease.id());
        self.record(Reason::ServiceInstanceDeleted, &last, "");
        Ok(())
    }

    pub(super) fn check_running(&self) -> Result<(), ServiceError> {
        if self.inner.registry.borrow().shutting_down { Err(ServiceError::Ending) } else { Ok(()) }
    }
}
