//! The services made from service classes: started, stopped and watched by calling tools.
//!
//! Whoever asks for something runs the tools as themselves, through the one call path: what they may
//! not call, a service does not call for them. What nobody asked for (starting with the gateway,
//! checks of health) is called as [`OWN_NAME`], and policies hold for it too.
//!
//! **Invariant:** one thing happens to a service at a time. Whoever acts on it holds its turn; when
//! they are gone before the end, it has failed.

mod board;
mod calls;
mod care;
mod classes;
mod end;
mod files;
mod life;
mod needs;
mod turn;

use std::sync::Arc;

use muster_core::{
    backend::CallContext,
    call::Caller,
    client::{ClientHandle, NoClient},
};
use muster_gateway::dispatch::{Dispatcher, GatewaySnapshot};
use muster_workflow::service::ServiceClass;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use self::board::Board;
pub(crate) use self::{
    board::Instance,
    life::{Began, Ended, Order, Problem},
    needs::missing_tools,
};
use crate::{
    events::{Journal, Reason},
    reconcile::{Edit, EditError, Input},
    store::Store,
    supervisor::Timing,
    view::View,
};

/// Who calls tools when nobody asked.
const OWN_NAME: &str = "muster-services";

/// What services work with.
#[derive(Debug)]
pub(crate) struct Means {
    pub(crate) store: Arc<Store>,
    pub(crate) journal: Journal,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) state: watch::Receiver<Arc<GatewaySnapshot>>,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) tasks: TaskTracker,
    pub(crate) timing: Timing,
}

/// All services. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    means: Means,
    board: watch::Sender<Board>,
    own: Own,
}

/// What calls tools when nobody asked.
#[derive(Debug)]
struct Own {
    dispatcher: Dispatcher,
    caller: Caller,
    client: Arc<dyn ClientHandle>,
}

impl Services {
    pub(crate) fn new(means: Means) -> Self {
        let own = Own {
            dispatcher: Dispatcher::new(means.state.clone()),
            caller: Caller { subject: OWN_NAME.into(), ..Caller::local() },
            client: NoClient::shared(),
        };
        let (board, _) = watch::channel(Board::default());
        let services = Self { inner: Arc::new(Inner { means, board, own }) };
        services.inner.means.tasks.spawn(classes::follow(services.clone()));
        services
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Instance>> {
        self.inner.board.borrow().instances.values().cloned().collect()
    }

    /// One of them.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Instance>> {
        self.inner.board.borrow().instances.get(name).cloned()
    }

    /// The class of a service: as it is now, or as it was when it was last there.
    fn class_of(&self, instance: &Instance) -> Option<Arc<ServiceClass>> {
        self.class(&instance.service.class).or_else(|| instance.class.clone())
    }

    /// A class.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<ServiceClass>> {
        let view = self.inner.means.view.borrow();
        view.classes.get(name).map(|file| Arc::clone(&file.class))
    }

    /// For what nobody asked for.
    fn own(&self) -> CallContext<'_> {
        let Own { dispatcher, caller, client } = &self.inner.own;
        CallContext { client, caller, tools: dispatcher }
    }

    fn tell(&self, reason: Reason, instance: &Instance, detail: &str) {
        let service = &instance.service;
        self.inner.means.journal.tell(reason, &service.name, &service.namespace, detail);
    }

    /// Has the reconciler write a file, and waits until it has taken effect.
    async fn edit(&self, edit: Edit) -> Result<(), EditError> {
        let inputs = self.inner.means.inputs.upgrade().ok_or(EditError::Ending)?;
        let (answer, answered) = oneshot::channel();
        let input = Input::Edit(Box::new(edit), answer);
        inputs.send(input).await.map_err(|_| EditError::Ending)?;
        answered.await.map_err(|_| EditError::Ending)?
    }
}
