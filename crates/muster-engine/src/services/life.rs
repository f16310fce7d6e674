//! A service made, started, stopped, restarted and taken away.

use std::{sync::Arc, time::Duration};

use muster_config::service::ServiceFile;
use muster_core::{
    backend::{BoxFuture, CallContext},
    name::check_resource_name,
};
use muster_workflow::service::{
    Event, Next, Service, State, arguments, machine::Tool, next, values,
};
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::time::sleep;

use super::{Instance, Services, calls::Phase, missing_tools, needs::Need, turn::Turn};
use crate::{
    events::Reason,
    reconcile::{Edit, ServiceEdit},
};

/// Between the end and the new start of a service that no tool restarts.
const PAUSE: Duration = Duration::from_millis(100);

/// What somebody wants to be made.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) args: Map<String, Value>,
    pub(crate) auto_start: bool,
    /// Whether it outlives the gateway.
    pub(crate) persist: bool,
}

/// How starting went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    Now,
    Before,
}

/// How stopping went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Now,
    Before,
}

/// Why something was not done.
#[derive(Debug, Error)]
pub(crate) enum Problem {
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
    /// Makes a service and starts it. One that cannot be started is not there afterwards.
    pub(crate) async fn create(
        &self,
        cx: CallContext<'_>,
        order: Order,
    ) -> Result<Arc<Instance>, Problem> {
        let persist = order.persist;
        let instance = self.placed(order)?;
        let name = instance.service.name.clone();
        let made = self.begin(cx, &instance, persist).await;
        if let Err(error) = made {
            self.forget(&instance).await;
            return Err(Problem::Refused(format!(
                "failed to start ServiceClass instance: {error}"
            )));
        }
        self.get(&name).ok_or(Problem::Unknown(name))
    }

    /// Looks at an order, and puts the service on the board.
    fn placed(&self, order: Order) -> Result<Arc<Instance>, Problem> {
        let Order { class: class_name, name, args, auto_start, persist: _ } = order;
        self.is_open()?;
        let refused = |text: String| Err(Problem::Refused(text));
        let Some(class) = self.class(&class_name) else {
            return refused(format!(
                "ServiceClass {class_name} not found: service class {class_name} not found"
            ));
        };
        let missing = missing_tools(&self.inner.means.state.borrow(), &class.spec);
        if !missing.is_empty() {
            return refused(format!(
                "ServiceClass {class_name} is not available (missing required tools): {}",
                missing.join(", ")
            ));
        }
        let args = match arguments::completed(&class.spec.args, args) {
            Ok(args) => args,
            Err(unfit) => return refused(format!("arg validation failed: {unfit}")),
        };
        if self.is_static(&name) {
            return refused(format!("static service with name {name} already exists"));
        }
        if let Err(invalid) = check_resource_name(&name) {
            return refused(format!("invalid create request: {invalid}"));
        }
        let namespace = self.inner.means.view.borrow().settings.namespace().to_owned();
        let service =
            Service { name: name.clone(), namespace, class: class_name, args, auto_start };
        let instance = Instance::new(service, Some(class), State::Stopped);
        let exists = || Problem::Refused(format!("service with name {name} already exists"));
        let instance = self.put(instance).ok_or_else(exists)?;
        self.tell(Reason::ServiceInstanceCreated, &instance, "");
        self.look_after(&instance);
        Ok(instance)
    }

    /// Whether a name is that of the gateway itself or of a server.
    pub(crate) fn is_static(&self, name: &str) -> bool {
        name == crate::core_tools::AGGREGATOR
            || self.inner.means.view.borrow().servers.contains_key(name)
    }

    async fn begin(
        &self,
        cx: CallContext<'_>,
        instance: &Instance,
        persist: bool,
    ) -> Result<(), Problem> {
        // On the disk before anything runs: a gateway that ends meanwhile leaves word of it.
        if persist {
            let file =
                ServiceFile { service: (*instance.service).clone(), record: instance.record() };
            let edit = Edit::Service(ServiceEdit::Create(Box::new(file)));
            self.edit(edit).await.map_err(|error| Problem::Refused(error.to_string()))?;
        }
        self.start(cx, &instance.service.name).await.map(|_| ())
    }

    /// Takes a service that never ran off the board, and its file away.
    async fn forget(&self, instance: &Instance) {
        let name = &instance.service.name;
        self.change(name, instance.id, |instance| instance.leaving = true);
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

    /// Starts a service, and before it what it depends on.
    pub(crate) fn start<'a>(
        &'a self,
        cx: CallContext<'a>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Began, Problem>> {
        Box::pin(async move {
            self.is_open()?;
            if let Some(circle) = self.circle(name) {
                return Err(Problem::Refused(format!("it depends on itself: {circle}")));
            }
            let turn = self.turn(name).await?;
            match next(turn.now()?.state, Event::Start) {
                Next::Already => return Ok(Began::Before),
                _ => self.bring_up(cx, &turn).await?,
            }
            Ok(Began::Now)
        })
    }

    /// Starts what a service depends on, then the service itself.
    async fn bring_up(&self, cx: CallContext<'_>, turn: &Turn) -> Result<(), Problem> {
        for need in self.needs(&*turn.now()?) {
            let refused = |text: String| Err(Problem::Refused(text));
            match need {
                Need::Met => (),
                Need::Service(name) => {
                    if let Err(error) = self.start(cx, &name).await {
                        return refused(format!(
                            "dependency '{name}' could not be started: {error}"
                        ));
                    }
                }
                Need::Server(name) => {
                    return refused(format!(
                        "dependency '{name}' is a server that is not connected; start it with core_service_start"
                    ));
                }
                Need::Unknown(name) => {
                    return refused(format!(
                        "dependency '{name}' not found; create a service of that name or class first"
                    ));
                }
            }
        }
        self.run_start(cx, turn).await
    }

    async fn run_start(&self, cx: CallContext<'_>, turn: &Turn) -> Result<(), Problem> {
        turn.change(|instance| {
            if let Some(edited) = instance.edited.take() {
                instance.service = edited;
            }
        });
        turn.happens(Event::Start);
        self.tell(Reason::ServiceInstanceStarting, &*turn.now()?, "");
        turn.save().await;
        self.run(cx, turn, Phase::Start).await?;
        self.tell(Reason::ServiceInstanceStarted, &*turn.now()?, "");
        Ok(())
    }

    /// Runs a tool to its end, and writes down how it went.
    async fn run(&self, cx: CallContext<'_>, turn: &Turn, phase: Phase) -> Result<(), Problem> {
        if let Err(error) = self.perform(cx, turn, phase).await {
            turn.broke(&error).await;
            return Err(Problem::Refused(error));
        }
        if phase != Phase::Stop {
            self.fill_outputs(turn)?;
        }
        turn.happens(Event::Done);
        turn.change(|instance| {
            instance.attempts = 0;
            instance.retry_at = None;
        });
        turn.save().await;
        Ok(())
    }

    fn fill_outputs(&self, turn: &Turn) -> Result<(), Problem> {
        let instance = turn.now()?;
        let Some(class) = self.class_of(&instance) else { return Ok(()) };
        let templates = &class.spec.service_config.outputs;
        let outputs = values::outputs(templates, &instance.service, &instance.given);
        let outputs = outputs.unwrap_or_else(|error| {
            let name = &instance.service.name;
            tracing::warn!(service = name, "it has no outputs: {error}");
            Map::new()
        });
        turn.change(|instance| instance.outputs = outputs);
        Ok(())
    }

    /// Stops a service.
    pub(crate) async fn stop(&self, cx: CallContext<'_>, name: &str) -> Result<Ended, Problem> {
        let turn = self.turn(name).await?;
        match next(turn.now()?.state, Event::Stop) {
            Next::Already => Ok(Ended::Before),
            Next::Run(..) => self.run_stop(cx, &turn).await.map(|()| Ended::Now),
            Next::Is(_) | Next::Busy | Next::Ignored => {
                turn.happens(Event::Stop);
                turn.save().await;
                self.tell(Reason::ServiceInstanceStopped, &*turn.now()?, "");
                Ok(Ended::Now)
            }
        }
    }

    async fn run_stop(&self, cx: CallContext<'_>, turn: &Turn) -> Result<(), Problem> {
        turn.happens(Event::Stop);
        self.tell(Reason::ServiceInstanceStopping, &*turn.now()?, "");
        turn.save().await;
        self.run(cx, turn, Phase::Stop).await?;
        self.tell(Reason::ServiceInstanceStopped, &*turn.now()?, "");
        Ok(())
    }

    /// Restarts a service: by its own tool, or by the two others.
    pub(crate) async fn restart(&self, cx: CallContext<'_>, name: &str) -> Result<(), Problem> {
        self.is_open()?;
        if self.get(name).is_some_and(|instance| instance.state.is_passing()) {
            return Err(Problem::Busy);
        }
        let turn = self.turn(name).await?;
        let before = turn.now()?;
        self.tell(Reason::ServiceInstanceRestarting, &before, "");
        match next(before.state, Event::Restart) {
            Next::Run(Tool::Restart, _) if self.has_restart(&before) => {
                turn.happens(Event::Restart);
                turn.save().await;
                self.run(cx, &turn, Phase::Restart).await?;
            }
            Next::Run(Tool::Restart, _) => {
                let stopped = self.run_stop(cx, &turn).await;
                // Of one that does not run properly nobody expects that it stops properly.
                if before.state == State::Running {
                    stopped?;
                }
                sleep(PAUSE).await;
                self.bring_up(cx, &turn).await?;
            }
            _ => self.bring_up(cx, &turn).await?,
        }
        self.tell(Reason::ServiceInstanceRestarted, &*turn.now()?, "");
        Ok(())
    }

    fn has_restart(&self, instance: &Instance) -> bool {
        let class = self.class_of(instance);
        class.is_some_and(|class| class.spec.service_config.lifecycle_tools.restart.is_some())
    }

    /// Takes a service away: it is stopped as well as it can be, and forgotten.
    pub(crate) async fn delete(&self, cx: CallContext<'_>, name: &str) -> Result<(), Problem> {
        let turn = self.turn(name).await?;
        turn.change(|instance| instance.leaving = true);
        if matches!(next(turn.now()?.state, Event::Stop), Next::Run(..))
            && let Err(error) = self.run_stop(cx, &turn).await
        {
            tracing::warn!(service = name, "it is deleted without being stopped: {error}");
        }
        let last = turn.now()?;
        self.remove_file(name).await;
        self.remove(name, turn.id());
        self.tell(Reason::ServiceInstanceDeleted, &last, "");
        Ok(())
    }

    pub(super) fn is_open(&self) -> Result<(), Problem> {
        if self.inner.board.borrow().ending { Err(Problem::Ending) } else { Ok(()) }
    }
}
