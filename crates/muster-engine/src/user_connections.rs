//! The connections of single callers, to servers that require a login.
//!
//! **Invariant:** connections are stored under their owner, and a [`GatewaySnapshot`] made of them is given only
//! to that owner. An owner is a login or a session that the gateway named, never something that a request claims.

mod idle_sweep;
mod owner_access;
mod owner_connections;
mod owner_unit;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, boxed},
    call::{Caller, Owner},
    connect::Connector,
    logins::{
        AccessTokenSource, AuthMethod, LoginError, LoginObserver, LoginService, LoginSubject,
        ProtectedServer,
    },
    request::Change,
};
use muster_gateway::dispatch::{CallerSnapshots, GatewaySnapshot};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use self::owner_connections::OwnerConnections;
pub(crate) use self::owner_connections::OwnerStanding;
use crate::{
    events::{EventJournal, Reason},
    reconcile::Input,
    timing::EngineTiming,
    view::{Counts, ServerEntry, View},
};

/// The idle timeout after which an owner's connections are closed. Tokens are kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The number of owners with connections, beyond which the least recently active one is evicted.
const MAX_OWNERS: usize = 10_000;

/// The dependencies for connecting servers.
#[derive(Debug)]
pub(crate) struct Deps {
    pub(crate) connect: Arc<dyn Connector>,
    pub(crate) logins: Option<Arc<dyn LoginService>>,
    pub(crate) timing: EngineTiming,
    pub(crate) max_concurrent_calls: usize,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) journal: EventJournal,
    pub(crate) tasks: TaskTracker,
}

/// The connections of all owners.
#[derive(Debug)]
pub struct UserConnections {
    deps: Deps,
    owners: RwLock<BTreeMap<Owner, Arc<OwnerConnections>>>,
    last_id: AtomicU64,
}

/// Why a server is not connected for an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotConnected {
    /// The server rejected the token; a login may help.
    Login,
    /// Any other error.
    Failed(String),
}

impl CallerSnapshots for UserConnections {
    fn snapshot(&self, caller: &Caller, shared: Arc<GatewaySnapshot>) -> Arc<GatewaySnapshot> {
        match self.find(&caller.owner()) {
            Some(connections) => connections.snapshot(shared),
            None => shared,
        }
    }

    fn touch(self: Arc<Self>, caller: &Caller) -> Option<BoxFuture<'static, ()>> {
        self.connect_in_background(caller);
        self.find(&caller.owner())?.first_attempts(Instant::now())
    }
}

impl UserConnections {
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self { deps, owners: RwLock::default(), last_id: AtomicU64::new(0) })
    }

    /// The state of one server for one owner.
    pub(crate) fn standing(&self, owner: &Owner, server: &str) -> OwnerStanding {
        self.find(owner).map_or(OwnerStanding::None, |connections| connections.standing(server))
    }

    /// Rate-limits logins: the error is the number of seconds until the next attempt.
    pub(crate) fn check_login_rate(&self, owner: &Owner) -> Result<(), u64> {
        self.connections_of(owner).check_login_rate(Instant::now())
    }

    /// The login service, if logins are configured.
    pub(crate) fn logins(&self) -> Option<&Arc<dyn LoginService>> {
        self.deps.logins.as_ref()
    }

    /// Connects the servers that accept the caller's login, or a stored one, in the background. Failed
    /// attempts are retried after a while, as long as the caller is active.
    fn connect_in_background(self: &Arc<Self>, caller: &Caller) {
        let Some(principal) = &caller.principal else { return };
        let Some(logins) = &self.deps.logins else { return };
        let view = Arc::clone(&self.deps.view.borrow());
        if !view.servers.values().any(|entry| entry.status.needs_login) {
            return;
        }
        let login = (Arc::clone(&principal.login), principal.identity.is_some());
        let wanting = view.servers.values().filter(|entry| entry.status.needs_login);
        let connections = self.connections_of(&caller.owner());
        for entry in connections.due(login, wanting, Instant::now()) {
            let (this, logins) = (Arc::clone(self), Arc::clone(logins));
            let attempt = connections.begin_attempt(&entry.server.name);
            let person = LoginSubject::of(caller);
            self.deps.tasks.spawn(boxed(async move {
                // Requests wait until this guard is dropped.
                let _attempt = attempt;
                let protected_server = protected_server(&entry);
                let silent = AuthMethod::of(&protected_server.auth).is_silent();
                if silent && person.principal.as_ref().is_none_or(|who| who.identity.is_none()) {
                    return;
                }
                let remembered = match silent {
                    true => Ok(true),
                    false => logins.has_stored_login(&person, &protected_server).await,
                };
                let connected = match remembered {
                    Ok(true) => this.connect_silently(&person, &entry).await.map(drop),
                    other => other.map(drop),
                };
                let connections = this.connections_of(&person.owner);
                match connected {
                    // Only the user can change the outcome, so there is no retry.
                    Ok(()) | Err(LoginError::Required | LoginError::NotConfigured) => {
                        connections.stop_retrying(&protected_server.name);
                    }
                    Err(_) => connections.schedule_retry(&protected_server.name, Instant::now()),
                }
            }));
        }
    }

    /// Connects a server for an owner, if that needs no interaction.
    pub(crate) async fn connect_silently(
        self: &Arc<Self>,
        person: &LoginSubject,
        entry: &Arc<ServerEntry>,
    ) -> Result<Counts, LoginError> {
        let logins = self.deps.logins.as_ref().ok_or(LoginError::NotConfigured)?;
        let protected_server = protected_server(entry);
        let method = AuthMethod::of(&protected_server.auth);
        let connected = async {
            let access = logins.access(person, &protected_server).await?;
            match self.connect(person, entry, access).await {
                Ok(counts) => Ok(counts),
                Err(NotConnected::Login) if method.is_silent() => {
                    Err(LoginError::Refused("the server does not accept the token".to_owned()))
                }
                Err(NotConnected::Login) => Err(LoginError::Required),
                Err(NotConnected::Failed(error)) => Err(LoginError::Unavailable(error)),
            }
        };
        let connected = connected.await;
        if method.is_silent() {
            let connections = self.connections_of(&person.owner);
            connections.note_sso(&entry.server.name, connected.as_ref().err().map(sso_error));
            self.record_sso(method, entry, connected.as_ref().err());
        }
        connected
    }

    /// Connects a server for an owner with an access token, unless it is connected already.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        person: &LoginSubject,
        entry: &Arc<ServerEntry>,
        access: Arc<dyn AccessTokenSource>,
    ) -> Result<Counts, NotConnected> {
        let connections = self.connections_of(&person.owner);
        let lock = connections.connect_lock(&entry.server.name);
        let _guard = lock.lock().await;
        if let OwnerStanding::Connected { counts, .. } = connections.standing(&entry.server.name) {
            return Ok(counts);
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let counts = owner_unit::connect(self, &connections, entry, access, id).await?;
        if let Some(inputs) = self.deps.inputs.upgrade() {
            // The receiver is gone during shutdown.
            drop(inputs.send(Input::LoggedIn { name: entry.server.name.clone() }).await);
        }
        Ok(counts)
    }

    /// Closes an owner's connection to a server.
    pub(crate) fn disconnect(&self, owner: &Owner, server: &str) {
        if let Some(connections) = self.find(owner) {
            connections.disconnect(server, &self.deps.changes);
            connections.stop_retrying(server);
            connections.note_sso(server, None);
        }
    }

    /// Logs a caller out of a server: closes the caller's own connection and deletes its tokens. Returns `false` if
    /// there is no such server.
    pub async fn log_out(&self, caller: &Caller, server: &str) -> bool {
        let Some(entry) = self.deps.view.borrow().servers.get(server).cloned() else {
            return false;
        };
        let person = LoginSubject::of(caller);
        if let Some(logins) = &self.deps.logins {
            logins.forget(&person, &protected_server(&entry)).await;
        }
        self.disconnect(&person.owner, server);
        true
    }

    /// Logs a caller out of every server.
    pub async fn log_out_everywhere(&self, caller: &Caller) {
        let person = LoginSubject::of(caller);
        if let Some(logins) = &self.deps.logins {
            logins.forget_all(&person).await;
        }
        let Some(connections) = self.find(&person.owner) else { return };
        for server in connections.outdated_servers(|_| false) {
            connections.disconnect(&server, &self.deps.changes);
            connections.stop_retrying(&server);
            connections.note_sso(&server, None);
        }
    }

    /// Closes the connections of all owners.
    pub(crate) fn close(&self) {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn find(&self, owner: &Owner) -> Option<Arc<OwnerConnections>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(owner).map(Arc::clone)
    }

    fn connections_of(&self, owner: &Owner) -> Arc<OwnerConnections> {
        if let Some(connections) = self.find(owner) {
            return connections;
        }
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= MAX_OWNERS && !owners.contains_key(owner) {
            let longest = owners
                .values()
                .min_by_key(|connections| connections.used())
                .map(|connections| connections.owner.clone());
            if let Some(longest) = longest {
                owners.remove(&longest);
            }
        }
        let made = owners
            .entry(owner.clone())
            .or_insert_with(|| Arc::new(OwnerConnections::new(owner.clone())));
        Arc::clone(made)
    }

    fn all(&self) -> Vec<Arc<OwnerConnections>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.values().map(Arc::clone).collect()
    }

    fn close_owner(&self, owner: &Owner) {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).remove(owner);
    }

    fn record_sso(&self, method: AuthMethod, entry: &ServerEntry, error: Option<&LoginError>) {
        let reason = match (method, error.is_some()) {
            (AuthMethod::Exchanged, false) => Reason::McpServerTokenExchanged,
            (AuthMethod::Exchanged, true) => Reason::McpServerTokenExchangeFailed,
            (AuthMethod::Forwarded, false) => Reason::McpServerTokenForwarded,
            (AuthMethod::Forwarded, true) => Reason::McpServerTokenForwardingFailed,
            (AuthMethod::Login, _) => return,
        };
        let detail = error.map(sso_error);
        let server = &entry.server;
        let detail = detail.unwrap_or_default();
        self.deps.journal.tell(reason, &server.name, &server.namespace, &detail);
    }
}

/// Why single sign-on failed, without secrets.
fn sso_error(error: &LoginError) -> String {
    crate::redact::error(&error.to_string())
}

/// The server as the login service sees it.
pub(crate) fn protected_server(entry: &ServerEntry) -> ProtectedServer {
    ProtectedServer {
        name: entry.server.name.clone(),
        url: entry.server.spec.url.clone(),
        auth: entry.server.spec.auth.clone().unwrap_or_default(),
        challenge: entry.status.challenge.clone(),
    }
}

/// Connects a server after a login in the browser.
#[derive(Debug)]
pub(crate) struct LoginCompleted(pub(crate) Weak<UserConnections>);

impl LoginObserver for LoginCompleted {
    fn logged_in(&self, person: LoginSubject, server: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let gone = || "the gateway is shutting down".to_owned();
            let user_connections = self.0.upgrade().ok_or_else(gone)?;
            let entry = user_connections.deps.view.borrow().servers.get(&server).cloned();
            let entry = entry.ok_or_else(|| format!("server '{server}' is not there any more"))?;
            let connected = user_connections.connect_silently(&person, &entry).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
    }
}

/// Closes outdated and idle connections.
pub(crate) async fn sweep_idle(
    user_connections: Weak<UserConnections>,
    view: watch::Receiver<Arc<View>>,
) {
    idle_sweep::sweep_idle(user_connections, view).await;
}
