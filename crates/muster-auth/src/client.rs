//! The gateway as a client of issuers: it gets people tokens for the servers behind it.
//!
//! What people are given is kept for each of them alone, by issuer, and every token for the resource it
//! was made for. It leaves this module through [`AccessTokenSource`], for one person and one server, and in
//! requests to the issuer that gave it.

mod access;
mod challenge;
mod discovery;
mod documents;
mod flows;
mod given;
mod grants;
mod identity;
mod kept;
mod pages;
mod places;
mod secrets;
mod silent;
mod steps;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    logins::{
        AccessTokenSource, AuthMethod, IssuerInfo, LoginError, LoginObserver, LoginService,
        LoginSubject, ProtectedServer,
    },
};
use muster_net::{AddressPolicy, HttpClient};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::{discovery::Found, flows::Waiting, kept::Slot, places::Place, steps::Steps};
pub use self::{pages::Pages, places::speaks_for};
use crate::{clock::Clock, lock::Lock, secret::Secret, store::Vault, turns::Turns};

const NAME: &str = "Muster MCP Aggregator";
const HOME: &str = "https://github.com/giantswarm/muster";
const USUAL_SCOPES: &str = "openid profile email groups offline_access";
/// Of anything that is remembered in this process there is no more than this.
const MOST: usize = 10_000;
/// How long a gateway that ends waits for issuers.
const SETTLE: Duration = Duration::from_secs(5);

/// How the gateway is a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where browsers reach the gateway, without a slash at the end.
    pub public_url: String,
    /// What issuers know it by; empty for the address of its own document.
    pub client_id: String,
    /// Its secret at issuers where it was registered beforehand.
    pub client_secret: Option<Secret>,
    /// Where people come back to.
    pub callback_path: String,
    /// Where its own document is.
    pub document_path: String,
    /// What that document says is asked for.
    pub scopes: String,
    /// Where that id was registered. Empty for everywhere, with a secret too.
    pub client_issuer: String,
    /// The folder of secrets that files of servers name.
    pub secrets: Option<PathBuf>,
    /// How far issuers may be.
    pub reach: AddressPolicy,
}

impl Options {
    /// The usual, for a gateway at `public_url`. Issuers on this machine are only asked if the gateway is
    /// on it, too.
    pub fn new(public_url: &str) -> Self {
        let here = Place::parse(public_url).is_some_and(|place| place.is_here());
        Self {
            public_url: public_url.trim_end_matches('/').to_owned(),
            client_id: String::new(),
            client_secret: None,
            client_issuer: String::new(),
            secrets: None,
            callback_path: "/oauth/proxy/callback".to_owned(),
            document_path: "/.well-known/oauth-client.json".to_owned(),
            scopes: USUAL_SCOPES.to_owned(),
            reach: if here { AddressPolicy::Loopback } else { AddressPolicy::Public },
        }
    }

    fn callback_url(&self) -> String {
        format!("{}{}", self.public_url, self.callback_path)
    }

    fn document_url(&self) -> String {
        format!("{}{}", self.public_url, self.document_path)
    }

    fn is_own_document(&self) -> bool {
        self.client_id.is_empty() || self.client_id == self.document_url()
    }
}

/// What is kept of logins, by owner and issuer.
type Slots = BTreeMap<(Owner, String), Arc<Slot>>;

/// Logs people in at servers.
#[derive(Debug)]
pub struct Client {
    options: Options,
    dialer: HttpClient,
    vault: Vault,
    clock: Clock,
    /// What is done to its end, whoever asked for it.
    tasks: TaskTracker,
    slots: Lock<Slots>,
    waiting: Lock<BTreeMap<String, Waiting>>,
    /// What was found out about servers, by name.
    sites: Lock<BTreeMap<String, Known>>,
    /// What servers asked for in vain.
    steps: Steps,
    /// Whoever writes down what an owner has waits for the turn.
    turns: Turns,
}

#[derive(Debug, Clone)]
struct Known {
    url: String,
    issuer: String,
    scope: String,
    resource: String,
}

impl Client {
    /// A client that keeps what it is given in `vault`.
    pub fn new(options: Options, dialer: HttpClient, vault: Vault, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            options,
            dialer,
            vault,
            clock,
            tasks: TaskTracker::new(),
            slots: Lock::default(),
            waiting: Lock::default(),
            sites: Lock::default(),
            steps: Steps::default(),
            turns: Turns::default(),
        })
    }

    /// Waits for what must be done to its end: a token that an issuer has just given.
    pub async fn settle(&self) {
        self.tasks.close();
        drop(timeout(SETTLE, self.tasks.wait()).await);
    }

    /// The host that browsers and issuers address us by.
    pub fn host(&self) -> Option<String> {
        Place::parse(&self.options.public_url).map(|place| place.host().to_owned())
    }

    /// What it logs people in with.
    pub fn logins(self: &Arc<Self>) -> Arc<dyn LoginService> {
        Arc::new(Handle(Arc::clone(self)))
    }

    /// What it shows to browsers and issuers.
    pub fn pages(self: &Arc<Self>) -> Pages {
        Pages(Arc::clone(self))
    }

    fn note_site(&self, site: &ProtectedServer, found: &Found) {
        let known = Known {
            url: site.url.clone(),
            issuer: found.issuer.issuer.clone(),
            scope: found.scope.clone(),
            resource: found.resource.clone(),
        };
        self.sites.lock().insert(site.name.clone(), known);
    }

    fn known(&self, site: &ProtectedServer) -> Option<Known> {
        let pin = site.auth.authorization_server.as_ref().map(|pin| pin.issuer.as_str());
        let pin = pin.filter(|issuer| !issuer.is_empty());
        let fits = |known: &&Known| {
            known.url == site.url && pin.is_none_or(|pin| places::same_issuer(pin, &known.issuer))
        };
        self.sites.lock().get(&site.name).filter(fits).cloned()
    }

    async fn found(&self, site: &ProtectedServer) -> Result<Known, LoginError> {
        if let Some(known) = self.known(site) {
            return Ok(known);
        }
        let found = self.discover(site).await?;
        self.note_site(site, &found);
        self.known(site).ok_or(LoginError::Required)
    }

    async fn by_login(
        self: &Arc<Self>,
        person: &LoginSubject,
        site: &ProtectedServer,
    ) -> Result<Arc<dyn AccessTokenSource>, LoginError> {
        let known = self.found(site).await?;
        let slot = self.slot(&person.owner, &known.issuer).await;
        if slot.get().is_none() {
            return Err(LoginError::Required);
        }
        let access = access::Kept {
            client: Arc::clone(self),
            owner: person.owner.clone(),
            server: site.name.clone(),
            slot,
            resource: known.resource,
        };
        // What cannot be had is found out now, not by the first request.
        access.token().await?;
        Ok(Arc::new(access))
    }
}

/// A client as the rest of the gateway knows it.
#[derive(Debug)]
struct Handle(Arc<Client>);

impl LoginService for Handle {
    fn access<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<Arc<dyn AccessTokenSource>, LoginError>> {
        Box::pin(async move {
            let client = &self.0;
            match AuthMethod::of(&site.auth) {
                AuthMethod::Login => client.by_login(person, site).await,
                AuthMethod::Forwarded => {
                    let access = silent::Forwarded::new(client, person);
                    access.token().await?;
                    Ok(Arc::new(access) as Arc<dyn AccessTokenSource>)
                }
                AuthMethod::Exchanged => {
                    let access = silent::Exchanged::new(client, person, site);
                    access.token().await?;
                    Ok(Arc::new(access) as Arc<dyn AccessTokenSource>)
                }
            }
        })
    }

    fn begin<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> BoxFuture<'a, Result<String, LoginError>> {
        Box::pin(self.0.start(person, site, arrived))
    }

    fn forget<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.steps.forget(&person.owner, Some(&site.name));
            if AuthMethod::of(&site.auth).is_silent() {
                return;
            }
            if let Ok(known) = self.0.found(site).await {
                self.0.drop_grant(&person.owner, &known.issuer).await;
            }
        })
    }

    fn forget_all<'a>(&'a self, person: &'a LoginSubject) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.steps.forget(&person.owner, None);
            for issuer in self.0.issuers_of(&person.owner).await {
                self.0.drop_grant(&person.owner, &issuer).await;
            }
        })
    }

    fn has_stored_login<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<bool, LoginError>> {
        Box::pin(async move {
            let issuers = self.0.issuers_of(&person.owner).await;
            if issuers.is_empty() {
                return Ok(false);
            }
            // A server names its issuer itself. Only where the person has been is where they want to be.
            let known = self.0.found(site).await?;
            let slot = self.0.slot(&person.owner, &known.issuer).await;
            Ok(slot.get().is_some_and(|grant| grant.access.contains_key(&known.resource)))
        })
    }

    fn needs_step_up<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(wanted) = self.0.steps.wanted(&person.owner, &site.name) else { return false };
            let Ok(known) = self.0.found(site).await else { return false };
            let grant = self.0.slot(&person.owner, &known.issuer).await.get();
            // Another gateway may have seen to it.
            grant.is_some_and(|grant| !places::covers(&grant.scope, &wanted))
        })
    }

    fn issuer(&self, site: &ProtectedServer) -> IssuerInfo {
        let known = self.0.known(site);
        known.map(|Known { issuer, scope, .. }| IssuerInfo { issuer, scope }).unwrap_or_default()
    }
}
