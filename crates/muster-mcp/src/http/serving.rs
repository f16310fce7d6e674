//! The future that serves one request, owned by whatever carries its response.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use muster_core::{
    backend::{ResourceOperation, boxed},
    call::Caller,
    request::Request,
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    App, ORPHAN_TIMEOUT, caller_limits::CallPlace, replica_sessions::ShareError,
    sessions::HttpSession,
};
use crate::{
    client_channel::ClientChannel,
    incoming::ValidRequest,
    model::{DecodedRequest, Method},
    reply_to::ReplyTo,
    server::RpcResponse,
    wire::{RpcError, code},
};

/// How long a client may take to show that it is alive after one of its connections broke: the
/// connections of a client that died close one after the other.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The response; `None` if the request was cancelled.
type ResponseFuture = Pin<Box<dyn Future<Output = Option<RpcResponse>> + Send>>;

/// A request that is being served. Dropping it cancels a modern request; a legacy one becomes an orphan.
pub(super) struct Serving {
    app: Arc<App>,
    reply_to: ReplyTo,
    future: Option<ResponseFuture>,
    /// The session of a legacy request.
    session: Option<Arc<HttpSession>>,
    call: Option<CallPlace>,
    /// Whether it is a subscription, which has no end of its own.
    is_listening: bool,
}

/// The error for a request whose changes of the session could not be shared with other replicas.
fn not_shared(error: &ShareError) -> RpcError {
    match error {
        ShareError::Store(error) => {
            RpcError::new(code::INTERNAL_ERROR, format!("{error}; try again"))
        }
        other => RpcError::new(code::INVALID_PARAMS, other.to_string()),
    }
}

impl Serving {
    pub(super) fn modern(
        app: Arc<App>,
        caller: Caller,
        channel: Arc<ClientChannel>,
        request: ValidRequest,
    ) -> Self {
        let (reply_to, serving) = (ReplyTo::of(&request), Arc::clone(&app));
        let is_listening = request.method == Method::Listen;
        let listener = is_listening.then(|| app.listeners.open(&caller, &app.draining));
        let future = async move {
            let shutdown = listener.as_ref().map_or(&serving.draining, |listener| &listener.ended);
            Some(serving.server.serve(&caller, channel, shutdown, request).await)
        };
        let future: Option<ResponseFuture> = Some(Box::pin(future));
        Self { app, reply_to, future, session: None, call: None, is_listening }
    }

    pub(super) fn legacy(
        app: &Arc<App>,
        session: &Arc<HttpSession>,
        caller: Caller,
        channel: Arc<ClientChannel>,
        request: ValidRequest,
    ) -> Self {
        let reply_to = ReplyTo::of(&request);
        let future = serve_in_session(Arc::clone(app), session, caller, channel, request);
        let (app, session) = (Arc::clone(app), Some(Arc::clone(session)));
        let future: Option<ResponseFuture> = Some(Box::pin(future));
        Self { app, reply_to, future, session, call: None, is_listening: false }
    }

    /// Counts the request as a call until it ends.
    pub(super) fn holding(mut self, call: Option<CallPlace>) -> Self {
        self.call = call;
        self
    }

    /// Whether the request is a subscription.
    pub(super) const fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// The id of the request.
    pub(super) fn request_id(&self) -> &RawValue {
        &self.reply_to.id
    }

    /// Cancels the request, even if it belongs to a session.
    pub(super) fn cancel(mut self) {
        self.session = None;
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<RpcResponse>> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let response = match future.as_mut().poll(cx) {
            Poll::Ready(response) => response,
            Poll::Pending if self.app.is_cut.load(Ordering::Acquire) => {
                Some(self.reply_to.cut_off())
            }
            Poll::Pending => return Poll::Pending,
        };
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
    let method = request.method;
    let shared_reply = app
        .replica_sessions
        .is_some()
        .then(|| (ReplyTo::of(&request), subscribed_resource(&request)));
    async move {
        let serving = app.server.serve(&caller, channel, &app.draining, request);
        let response = running.token.run_until_cancelled(serving).await;
        let (Some(shared), Some((reply_to, subscribed))) = (&app.replica_sessions, shared_reply)
        else {
            return response;
        };
        let session = &running.session;
        if !changes_session(method) {
            // The response does not depend on changes that an earlier request could not store.
            save_later(&app, session);
        } else if let Err(error) = Box::pin(shared.save(&app, session)).await {
            if method == Method::Initialize {
                // The client will not use the session.
                app.sessions.end(&session.id);
            }
            return Some(reply_to.error(not_shared(&error)));
        } else if let Some(uri) = subscribed
            && response.as_ref().is_some_and(|response| response.code().is_none())
            && !session.state.all_subscriptions().contains(&uri)
        {
            // Another request found no room for its subscription, and this one was undone as well.
            return Some(reply_to.error(not_shared(&ShareError::TooManySubscriptions)));
        }
        response
    }
}

/// The resource that a request subscribes to.
fn subscribed_resource(request: &ValidRequest) -> Option<String> {
    match &request.request {
        DecodedRequest::Handled(handled) => match &handled.request {
            Request::Resource(ResourceOperation::Subscribe { uri }) => Some(uri.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a method changes the record of its session that replicas share.
const fn changes_session(method: Method) -> bool {
    matches!(
        method,
        Method::Initialize | Method::SetLogLevel | Method::Subscribe | Method::Unsubscribe
    )
}

/// Stores the changes of a session in the background.
pub(super) fn save_later(app: &Arc<App>, session: &Arc<HttpSession>) {
    if !session.state.has_unshared() {
        return;
    }
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let tasks = app.tasks.clone();
    tasks.spawn(boxed(async move {
        if let Some(shared) = &app.replica_sessions
            && let Err(error) = shared.save(&app, &session).await
        {
            tracing::debug!("session {}: {error}", session.log_name());
        }
    }));
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && let Some(session) = self.session.take()
            && !self.app.cut.is_cancelled()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let cut = self.app.cut.clone();
            let call = self.call.take();
            self.app.tasks.spawn(boxed(async move {
                tokio::select! {
                    () = finish_orphan(future, &session) => (),
                    () = cut.cancelled() => (),
                }
                drop(call);
            }));
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
