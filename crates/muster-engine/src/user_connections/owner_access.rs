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

/// An owner's access token. When it is rejected, the connection is closed, so that its tools disappear.
#[derive(Debug)]
pub(super) struct ObservedAccess {
    access: Arc<dyn AccessTokenSource>,
    connections: Weak<OwnerConnections>,
    server: String,
    id: UnitId,
    changes: broadcast::Sender<Change>,
}

impl ObservedAccess {
    pub(super) fn new(
        access: Arc<dyn AccessTokenSource>,
        connections: &Arc<OwnerConnections>,
        server: &str,
        id: UnitId,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self {
            access,
            connections: Arc::downgrade(connections),
            server: server.to_owned(),
            id,
            changes,
        }
    }

    fn noticed(&self, token: Result<BearerToken, LoginError>) -> Result<BearerToken, LoginError> {
        if let Err(error @ (LoginError::Required | LoginError::Refused(_))) = &token
            && let Some(connections) = self.connections.upgrade()
            && connections.has(&self.server, self.id)
        {
            connections.disconnect(&self.server, &self.changes);
            connections.note_sso(&self.server, Some(sso_error(error)));
            connections.schedule_retry(&self.server, Instant::now());
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
    connections: Weak<OwnerConnections>,
    owner: Owner,
    server: String,
    id: UnitId,
    backend: B,
}

impl<B: Backend> OwnerBackend<B> {
    pub(super) fn new(
        connections: &Arc<OwnerConnections>,
        server: &str,
        id: UnitId,
        backend: B,
    ) -> Self {
        let (connections, owner) = (Arc::downgrade(connections), connections.owner.clone());
        Self { connections, owner, server: server.to_owned(), id, backend }
    }

    fn is_for(&self, cx: CallContext<'_>) -> Result<(), CallError> {
        if cx.caller.owner() == self.owner {
            return Ok(());
        }
        Err(self.failed("it is connected for another caller".to_owned()))
    }

    fn failed(&self, reason: String) -> CallError {
        let backend = BackendName::new(self.server.as_str());
        CallError::Unavailable { backend, reason, no_answer: false }
    }

    /// Explains an error that was caused by an expired token.
    fn explained<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        let over = self
            .connections
            .upgrade()
            .is_none_or(|connections| !connections.has(&self.server, self.id));
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
