//! The future that serves one request, owned by whatever carries its response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use muster_core::call::Caller;
use tokio::time::timeout;

use super::{App, ORPHAN_TIMEOUT, call_limits::CallPlace, sessions::HttpSession};
use crate::{client_channel::ClientChannel, incoming::ValidRequest, server::RpcResponse};

/// How long a client may take to show that it is alive after one of its connections broke: the
/// connections of a client that died close one after the other.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The response; `None` if the request was cancelled.
type ResponseFuture = Pin<Box<dyn Future<Output = Option<RpcResponse>> + Send>>;

/// A request that is being served. Dropping it cancels a modern request; a legacy one becomes an orphan.
pub(super) struct Serving {
    future: Option<ResponseFuture>,
    legacy: Option<(Arc<App>, Arc<HttpSession>)>,
    call: Option<CallPlace>,
}

impl Serving {
    pub(super) fn modern(
        app: Arc<App>,
        caller: Caller,
        channel: Arc<ClientChannel>,
        request: ValidRequest,
    ) -> Self {
        let future =
            async move { Some(app.server.serve(&caller, channel, &app.draining, request).await) };
        Self { future: Some(Box::pin(future)), legacy: None, call: None }
    }

    pub(super) fn legacy(
        app: &Arc<App>,
        session: &Arc<HttpSession>,
        caller: Caller,
        channel: Arc<ClientChannel>,
        request: ValidRequest,
    ) -> Self {
        let future = serve_in_session(Arc::clone(app), session, caller, channel, request);
        let legacy = Some((Arc::clone(app), Arc::clone(session)));
        Self { future: Some(Box::pin(future)), legacy, call: None }
    }

    /// The same request, which is counted as a call until it ends.
    pub(super) fn holding(mut self, call: Option<CallPlace>) -> Self {
        self.call = call;
        self
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<RpcResponse>> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let response = std::task::ready!(future.as_mut().poll(cx));
        self.future = None;
        self.call = None;
        Poll::Ready(response)
    }
}

/// Serves a request of a session until it is complete or cancelled, or until the session ends.
pub(super) fn serve_in_session(
    app: Arc<App>,
    session: &Arc<HttpSession>,
    caller: Caller,
    channel: Arc<ClientChannel>,
    request: ValidRequest,
) -> impl Future<Output = Option<RpcResponse>> + Send + use<> {
    let running = session.start(&request.id);
    let caller = session.caller(caller);
    async move {
        let serving = app.server.serve(&caller, channel, &app.draining, request);
        running.token.run_until_cancelled(serving).await
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && let Some((app, session)) = self.legacy.take()
            && !app.cut.is_cancelled()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let cut = app.cut.clone();
            let call = self.call.take();
            app.tasks.spawn(async move {
                tokio::select! {
                    () = finish_orphan(future, &session) => (),
                    () = cut.cancelled() => (),
                }
                drop(call);
            });
        }
    }
}

/// Continues a request whose connection broke while its client is still there.
async fn finish_orphan(mut future: ResponseFuture, session: &HttpSession) {
    if timeout(ALIVE_TIMEOUT, &mut future).await.is_ok() {
        return;
    }
    let mut streams = session.streams.subscribe();
    tokio::select! {
        _ = timeout(ORPHAN_TIMEOUT, future) => (),
        _ = streams.wait_for(|streams| *streams == 0) => {
            tracing::debug!("a request was cancelled: its client is gone");
        }
    }
}
