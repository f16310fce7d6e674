//! The work behind one request, held by whatever will carry its answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use muster_core::{call::Caller, client::ClientHandle};
use tokio::{sync::mpsc, time::timeout};

use super::{ADRIFT_LIMIT, App, sessions::HttpSession};
use crate::{
    back::Back,
    incoming::Prepared,
    server::{Answer, At},
};

/// How long a client may take to show that it is still there when a connection of its broke: the
/// connections of one that died close one after the other.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

type Future = Pin<Box<dyn std::future::Future<Output = Option<Answer>> + Send>>;

/// A request being served; `None` is what comes of one that was taken back. Dropping it cancels a
/// modern request and sets a legacy one adrift.
pub(super) struct Work {
    future: Option<Future>,
    legacy: Option<(Arc<App>, Arc<HttpSession>)>,
}

impl Work {
    pub(super) fn modern(
        app: Arc<App>,
        caller: Caller,
        mut prepared: Prepared,
        out: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Self {
        let back = prepared.back(None, out);
        let future = async move { Some(serve(&app, &caller, back, prepared).await) };
        Self { future: Some(Box::pin(future)), legacy: None }
    }

    pub(super) fn legacy(
        app: &Arc<App>,
        session: &Arc<HttpSession>,
        caller: Caller,
        prepared: Prepared,
        out: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Self {
        let future = legacy(Arc::clone(app), session, caller, prepared, out);
        let legacy = Some((Arc::clone(app), Arc::clone(session)));
        Self { future: Some(Box::pin(future)), legacy }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let answer = std::task::ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(answer)
    }
}

/// Serves a request of a session until it is answered, taken back, or the session ends.
pub(super) fn legacy(
    app: Arc<App>,
    session: &Arc<HttpSession>,
    caller: Caller,
    mut prepared: Prepared,
    out: Option<mpsc::Sender<Vec<u8>>>,
) -> impl std::future::Future<Output = Option<Answer>> + Send + use<> {
    let running = session.start(&prepared.id);
    let caller = session.caller(caller);
    let back = prepared.back(Some(&session.state), out);
    async move {
        let serving = serve(&app, &caller, back, prepared);
        running.token.run_until_cancelled(serving).await
    }
}

async fn serve(app: &App, caller: &Caller, back: Back, prepared: Prepared) -> Answer {
    let back = Arc::new(back);
    let client: Arc<dyn ClientHandle> = Arc::<Back>::clone(&back);
    let at = At { caller, back: &back, client: &client, leaving: &app.draining };
    app.server.answer(at, prepared).await
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && let Some((app, session)) = self.legacy.take()
            && !app.cut.is_cancelled()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let cut = app.cut.clone();
            app.tasks.spawn(async move {
                tokio::select! {
                    () = adrift(future, &session) => (),
                    () = cut.cancelled() => (),
                }
            });
        }
    }
}

/// Goes on with a request whose connection broke while its client is still there.
async fn adrift(mut future: Future, session: &HttpSession) {
    if timeout(SIGN_OF_LIFE, &mut future).await.is_ok() {
        return;
    }
    let mut streams = session.streams.subscribe();
    tokio::select! {
        _ = timeout(ADRIFT_LIMIT, future) => (),
        _ = streams.wait_for(|streams| *streams == 0) => {
            tracing::debug!("a request was cancelled: its client is gone");
        }
    }
}
