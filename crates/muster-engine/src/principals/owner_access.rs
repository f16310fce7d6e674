//! Guards an owner's connection: no other caller can use it, and it is closed when its token is rejected.

use std::sync::{Arc, Weak};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceRequest},
    call::{CallError, Outcome, Owner},
    credentials::BearerToken,
    logins::{AccessTokenSource, LoginError},
    name::BackendName,
    policy::Permitted,
    request::Change,
    spooled::ToolResult,
};
use tokio::{sync::broadcast, time::Instant};

use super::{owner_connections::OwnerConnections, sso_error};
use crate::supervisor::UnitId;

/// An owner's access token. When it is rejected the connection is closed, so that its tools disappear.
#[derive(Debug)]
pub(super) struct ObservedAccess {
    access: Arc<dyn AccessTokenSource>,
    own: Weak<OwnerConnections>,
    server: String,
    id: UnitId,
    changes: broadcast::Sender<Change>,
}

impl ObservedAccess {
    pub(super) fn new(
        access: Arc<dyn AccessTokenSource>,
        own: &Arc<OwnerConnections>,
        server: &str,
        id: UnitId,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self { access, own: Arc::downgrade(own), server: server.to_owned(), id, changes }
    }

    fn noticed(&self, token: Result<BearerToken, LoginError>) -> Result<BearerToken, LoginError> {
        if let Err(error @ (LoginError::Required | LoginError::Refused(_))) = &token
            && let Some(own) = self.own.upgrade()
            && own.has(&self.server, self.id)
        {
            own.disconnect(&self.server, &self.changes);
            own.note_sso(&self.server, Some(sso_error(error)));
            own.schedule_retry(&self.server, Instant::now());
        }
        token
    }
}

impl AccessTokenSource for ObservedAccess {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(async move { self.noticed(self.access.token().await) })
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move { self.noticed(self.access.replace_rejected(token, challenge).await) })
    }
}

/// An owner's connection as a backend. It serves this owner alone, whatever snapshot it is in.
#[derive(Debug)]
pub(super) struct OwnerBackend<B> {
    own: Weak<OwnerConnections>,
    owner: Owner,
    server: String,
    id: UnitId,
    backend: B,
}

impl<B: Backend> OwnerBackend<B> {
    pub(super) fn new(own: &Arc<OwnerConnections>, server: &str, id: UnitId, backend: B) -> Self {
        let (own, owner) = (Arc::downgrade(own), own.owner.clone());
        Self { own, owner, server: server.to_owned(), id, backend }
    }

    fn is_for(&self, cx: CallContext<'_>) -> Result<(), CallError> {
        if cx.caller.owner() == self.owner {
            return Ok(());
        }
        Err(self.failed("it is connected for somebody else".to_owned()))
    }

    fn failed(&self, reason: String) -> CallError {
        let backend = BackendName::new(self.server.as_str());
        CallError::Unavailable { backend, reason, no_answer: false }
    }

    /// Explains an error that was caused by an expired token.
    fn explained<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        let over = self.own.upgrade().is_none_or(|own| !own.has(&self.server, self.id));
        match result {
            Err(CallError::Unavailable { .. }) if over => {
                let server = &self.server;
                Err(self.failed(format!(
                    "authentication to {server} expired (status 401) - please re-authenticate with \
                     core_auth_login and try again"
                )))
            }
            result => result,
        }
    }
}

impl<B: Backend> Backend for OwnerBackend<B> {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            self.is_for(cx)?;
            self.explained(self.backend.run(cx, call).await)
        })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            self.is_for(cx)?;
            self.explained(self.backend.request(cx, ask).await)
        })
    }
}
