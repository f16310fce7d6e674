//! The services created from service classes, which are started, stopped and checked by calling tools.
//!
//! A service's tools are called as the caller that acts on it, through the dispatcher: a service calls
//! nothing that its caller may not call. Background calls (auto start, health checks) are made as
//! [`SYSTEM_SUBJECT`], under the same policies.
//!
//! **Invariant:** one operation on a service at a time. It holds the service's lease; if it is cancelled, the
//! service has failed.

mod calls;
mod classes;
mod controller;
mod dependencies;
mod files;
mod lease;
mod lifecycle;
mod registry;
mod shutdown;

use std::sync::Arc;

use muster_core::{
    backend::{CallContext, boxed},
    call::Caller,
    client::{ClientHandle, NoClient},
};
use muster_gateway::dispatch::{Dispatcher, GatewaySnapshot};
use muster_telemetry::Telemetry;
use muster_workflow::service::ServiceClass;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use self::registry::Registry;
pub(crate) use self::{
    dependencies::missing_tools,
    lifecycle::{NewService, ServiceError, Started, Stopped},
    registry::Instance,
};
use crate::{
    events::{EventJournal, Reason},
    reconcile::{Edit, EditError, Input},
    store::ConfigStore,
    timing::EngineTiming,
    view::View,
};

/// The subject of background calls.
const SYSTEM_SUBJECT: &str = "muster-services";

/// The dependencies of services.
#[derive(Debug)]
pub(crate) struct Deps {
    pub(crate) store: Arc<ConfigStore>,
    pub(crate) journal: EventJournal,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) state: watch::Receiver<Arc<GatewaySnapshot>>,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) tasks: TaskTracker,
    pub(crate) timing: EngineTiming,
    pub(crate) telemetry: Telemetry,
}

/// All services. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    deps: Deps,
    registry: watch::Sender<Registry>,
    system: SystemCaller,
}

/// The caller of tools in the background.
#[derive(Debug)]
struct SystemCaller {
    dispatcher: Dispatcher,
    caller: Caller,
    client: Arc<dyn ClientHandle>,
}

impl Services {
    pub(crate) fn new(deps: Deps) -> Self {
        let system = SystemCaller {
            dispatcher: Dispatcher::new(deps.state.clone())
                .with_observer(deps.telemetry.observer()),
            caller: Caller { subject: SYSTEM_SUBJECT.into(), ..Caller::local() },
            client: NoClient::shared(),
        };
        let (registry, _) = watch::channel(Registry::default());
        let services = Self { inner: Arc::new(Inner { deps, registry, system }) };
        services.inner.deps.tasks.spawn(boxed(classes::follow(services.clone())));
        services
    }

    /// All services, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Instance>> {
        self.inner.registry.borrow().instances.values().cloned().collect()
    }

    /// A service.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Instance>> {
        self.inner.registry.borrow().instances.get(name).cloned()
    }

    /// The current class of a service, or its last known one.
    fn class_of(&self, instance: &Instance) -> Option<Arc<ServiceClass>> {
        self.class(&instance.service.class).or_else(|| instance.class.clone())
    }

    /// A service class.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<ServiceClass>> {
        let view = self.inner.deps.view.borrow();
        view.classes.get(name).map(|file| Arc::clone(&file.class))
    }

    /// The context for calls in the background.
    fn system(&self) -> CallContext<'_> {
        let SystemCaller { dispatcher, caller, client } = &self.inner.system;
        CallContext { client, caller, tools: dispatcher, sent: None }
    }

    fn record(&self, reason: Reason, instance: &Instance, detail: &str) {
        let service = &instance.service;
        self.inner.deps.journal.tell(reason, &service.name, &service.namespace, detail);
    }

    /// Writes a file through the reconciler, and waits until it is applied.
    async fn edit(&self, edit: Edit) -> Result<(), EditError> {
        let inputs = self.inner.deps.inputs.upgrade().ok_or(EditError::Ending)?;
        let (answer, answered) = oneshot::channel();
        let input = Input::Edit(Box::new(edit), answer);
        inputs.send(input).await.map_err(|_| EditError::Ending)?;
        answered.await.map_err(|_| EditError::Ending)?
    }
}
