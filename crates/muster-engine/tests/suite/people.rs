//! Servers that require a login, and callers who log in to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext},
    call::{CallError, Caller, Outcome, Owner},
    connect::{
        ConnectError, ConnectRequest, ConnectResult, Connection, ConnectionEvent,
        ConnectionObserver, Connector, ServerListing,
    },
    credentials::{BearerToken, Principal},
    json::raw,
    logins::{
        AccessTokenSource, IssuerInfo, LoginError, LoginObserver, LoginService, LoginSubject,
        ProtectedServer,
    },
    name::BackendName,
    policy::Permitted,
    spooled::ToolResult,
};
use serde_json::json;
use tokio::sync::watch;

/// Servers that identify callers by their tokens.
#[derive(Debug, Default, Clone)]
pub(crate) struct Guarded(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The logged-in callers by server.
    tokens: BTreeSet<(String, String)>,
    /// The callers who granted less than a server requires.
    wanting: BTreeSet<(String, String)>,
    links: Vec<(String, Arc<dyn ConnectionObserver>)>,
    /// Whether the login service is unavailable.
    away: bool,
    /// Whether the login service does not answer yet.
    held: watch::Sender<bool>,
    /// Whether calls hang.
    silent: bool,
    /// Counts listings, so that lists differ.
    round: usize,
    connected: BTreeMap<String, usize>,
}

/// A caller who is logged in to the gateway.
pub(crate) fn known(name: &str) -> Caller {
    Caller::authenticated(Arc::new(Principal {
        id: name.into(),
        issuer: "https://issuer".into(),
        subject: name.into(),
        email: None,
        name: None,
        groups: Arc::from([]),
        login: "login".into(),
        identity: None,
        client: None,
    }))
}

/// A caller with a session of its own.
pub(crate) fn someone(name: &str) -> Caller {
    Caller { session: Some(name.into()), ..Caller::local() }
}

fn name(owner: &Owner) -> String {
    match owner {
        Owner::Subject(name) | Owner::Session(name) => name.to_string(),
    }
}

impl Guarded {
    /// A caller completes a login in the browser.
    pub(crate) fn admit(&self, who: &str, server: &str) {
        self.0.lock().unwrap().tokens.insert((who.to_owned(), server.to_owned()));
    }

    /// A server starts to reject a caller's token, without notice.
    pub(crate) fn revoke(&self, who: &str, server: &str) {
        self.0.lock().unwrap().tokens.remove(&(who.to_owned(), server.to_owned()));
    }

    /// The login service becomes unavailable, or available again.
    pub(crate) fn be_away(&self, away: bool) {
        self.0.lock().unwrap().away = away;
    }

    /// The login service stops answering, or answers again.
    pub(crate) fn hold(&self, held: bool) {
        self.0.lock().unwrap().held.send_replace(held);
    }

    /// Calls hang from now on.
    pub(crate) fn fall_silent(&self) {
        self.0.lock().unwrap().silent = true;
    }

    /// A server requires more scopes of a caller than were granted, or no longer does.
    pub(crate) fn want(&self, who: &str, server: &str, wants: bool) {
        let key = (who.to_owned(), server.to_owned());
        let wanting = &mut self.0.lock().unwrap().wanting;
        if wants {
            wanting.insert(key)
        } else {
            wanting.remove(&key)
        };
    }

    fn wants(&self, who: &str, server: &str) -> bool {
        self.0.lock().unwrap().wanting.contains(&(who.to_owned(), server.to_owned()))
    }

    pub(crate) fn is_admitted(&self, who: &str, server: &str) -> bool {
        self.0.lock().unwrap().tokens.contains(&(who.to_owned(), server.to_owned()))
    }

    /// Sends an event to everyone connected to a server.
    pub(crate) fn happen(&self, server: &str, event: &ConnectionEvent) {
        let links = self.0.lock().unwrap().links.clone();
        for (_, events) in links.iter().filter(|(name, _)| name == server) {
            events.on_event(event.clone());
        }
    }

    /// The number of connections to a server for a caller.
    pub(crate) fn connected(&self, server: &str) -> usize {
        self.0.lock().unwrap().connected.get(server).copied().unwrap_or_default()
    }

    fn links(
        &self,
        server: &str,
        access: Arc<dyn AccessTokenSource>,
        events: Arc<dyn ConnectionObserver>,
    ) -> Own {
        let mut inner = self.0.lock().unwrap();
        inner.links.push((server.to_owned(), events));
        *inner.connected.entry(server.to_owned()).or_default() += 1;
        Own { guarded: self.clone(), server: server.to_owned(), access }
    }
}

impl Connector for Guarded {
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
        let ConnectRequest { name, access, events, .. } = request;
        let Some(access) = access else {
            let challenge = Some("Bearer".to_owned());
            return Box::pin(std::future::ready(Err(ConnectError::Unauthorized { challenge })));
        };
        Box::pin(async move {
            let own = self.links(name, access, events);
            let unauthorized = |_| ConnectError::Unauthorized { challenge: None };
            own.who().await.map_err(unauthorized)?;
            let own: Arc<dyn Connection> = Arc::new(own);
            Ok(own)
        })
    }
}

/// A caller's connection.
#[derive(Debug)]
struct Own {
    guarded: Guarded,
    server: String,
    access: Arc<dyn AccessTokenSource>,
}

impl Own {
    /// The subject of the token, checked for each request.
    async fn who(&self) -> Result<String, LoginError> {
        let token = self.access.token().await?;
        let (who, server) = token.reveal().split_once('@').unwrap();
        assert_eq!(server, self.server, "a token for another server");
        if self.guarded.is_admitted(who, server) {
            return Ok(who.to_owned());
        }
        self.access.replace_rejected(&token, Some("Bearer error=\"invalid_token\"")).await?;
        panic!("there is no other token")
    }
}

impl Backend for Own {
    fn run<'a>(
        &'a self,
        _: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let silent = self.guarded.0.lock().unwrap().silent;
            if silent {
                return std::future::pending().await;
            }
            let tool = &call.entry().local_name;
            let who = match self.who().await {
                Ok(who) if **tool != *"shared" && self.guarded.wants(&who, &self.server) => {
                    let token = self.access.token().await.unwrap();
                    let challenge = "Bearer error=\"insufficient_scope\"";
                    self.access.replace_rejected(&token, Some(challenge)).await.map(|_| who)
                }
                who => who,
            };
            match who {
                Ok(who) => {
                    Ok(Outcome::text(format!("{} did {tool} for only-{who}", self.server)).into())
                }
                Err(error) => Err(CallError::Unavailable {
                    backend: BackendName::new(self.server.as_str()),
                    reason: error.to_string(),
                    no_answer: false,
                }),
            }
        })
    }
}

impl Connection for Own {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(async move {
            let unauthorized = |_| ConnectError::Unauthorized { challenge: None };
            let who = self.who().await.map_err(unauthorized)?;
            let round = {
                let mut inner = self.guarded.0.lock().unwrap();
                inner.round += 1;
                inner.round
            };
            let tool = |name: String, description: String| {
                raw(
                    &json!({"name": name, "description": description, "inputSchema": {"type": "object"}}),
                )
            };
            Ok(ServerListing {
                tools: vec![
                    tool("shared".to_owned(), format!("what only-{who} may see {round}")),
                    tool(format!("only-{who}"), "mine".to_owned()),
                ],
                resources: vec![raw(&json!({"uri": format!("{}://only-{who}", self.server)}))],
                prompts: vec![raw(&json!({"name": format!("only-{who}")}))],
                protocol: "2025-11-25".to_owned(),
                ..ServerListing::default()
            })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl LoginService for Guarded {
    fn access<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<Arc<dyn AccessTokenSource>, LoginError>> {
        let who = name(&person.owner);
        let admitted = self.is_admitted(&who, &site.name);
        let access: Arc<dyn AccessTokenSource> = Arc::new(Pass(format!("{who}@{}", site.name)));
        let (away, mut held) = {
            let inner = self.0.lock().unwrap();
            (inner.away, inner.held.subscribe())
        };
        let given = match admitted {
            _ if away => Err(LoginError::Unavailable("it is away".to_owned())),
            true => Ok(access),
            false => Err(LoginError::Required),
        };
        Box::pin(async move {
            drop(held.wait_for(|held| !held).await);
            given
        })
    }

    fn begin<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> BoxFuture<'a, Result<String, LoginError>> {
        drop(arrived);
        let url = format!("https://issuer/?only-{}={}", name(&person.owner), site.name);
        Box::pin(std::future::ready(Ok(url)))
    }

    fn forget<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, ()> {
        self.revoke(&name(&person.owner), &site.name);
        Box::pin(std::future::ready(()))
    }

    fn forget_all<'a>(&'a self, person: &'a LoginSubject) -> BoxFuture<'a, ()> {
        let who = name(&person.owner);
        self.0.lock().unwrap().tokens.retain(|(owner, _)| *owner != who);
        Box::pin(std::future::ready(()))
    }

    fn has_stored_login<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<bool, LoginError>> {
        Box::pin(std::future::ready(Ok(self.is_admitted(&name(&person.owner), &site.name))))
    }

    fn needs_step_up<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(self.wants(&name(&person.owner), &site.name)))
    }

    fn issuer(&self, _: &ProtectedServer) -> IssuerInfo {
        IssuerInfo { issuer: "https://issuer".to_owned(), scope: "read".to_owned() }
    }
}

/// A caller's access token.
#[derive(Debug)]
struct Pass(String);

impl AccessTokenSource for Pass {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(std::future::ready(Ok(BearerToken::new(self.0.as_str()))))
    }

    fn replace_rejected<'a>(
        &'a self,
        _: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        let more = challenge.is_some_and(|said| said.contains("insufficient_scope"));
        let error = if more {
            LoginError::InsufficientScope("it wants more".to_owned())
        } else {
            LoginError::Required
        };
        Box::pin(std::future::ready(Err(error)))
    }
}
