//! A mock provider without its port: what it issues, what it accepts, and what it remembers.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    book::{Bearer, Book, Endpoint, Grant, Kind, Person, Registered},
    clock::Clock,
    config::{Clients, Feature, ProviderConfig},
    jwt::{self, Key},
    reply::Refusal,
};
use crate::{instance::random_hex, mock::fault::Fault};

/// Dex asks for the audience of a token by such a scope.
const AUDIENCE_SCOPE: &str = "audience:server:client_id:";

/// A provider.
#[derive(Debug)]
pub struct Core {
    pub(super) config: ProviderConfig,
    origin: String,
    issuer: String,
    pub(super) clock: Clock,
    pub(super) key: Option<Key>,
    pub(super) trusted: OnceLock<Vec<Trusted>>,
    book: watch::Sender<Book>,
}

/// Another provider whose tokens are exchanged.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) connector: String,
    pub(super) core: Arc<Core>,
}

/// Tokens that were given out.
#[derive(Debug, Clone)]
pub struct Minted {
    /// For servers.
    pub access: String,
    /// Who logged in.
    pub id: String,
    /// For new ones.
    pub refresh: String,
    /// What they are good for.
    pub scope: String,
    /// How long.
    pub lifetime: Duration,
}

impl Core {
    pub(super) fn new(config: &ProviderConfig, port: u16) -> io::Result<Self> {
        let scheme = if config.uses_tls() { "https" } else { "http" };
        let origin = format!("{scheme}://localhost:{port}");
        let key = config.has(Feature::SignTokens).then(Key::new).transpose()?;
        let book = Book { error: config.simulate_error.clone(), ..Book::default() };
        Ok(Self {
            issuer: format!("{origin}{}", config.path),
            origin,
            clock: Clock::default(),
            key,
            trusted: OnceLock::new(),
            book: watch::Sender::new(book),
            config: config.clone(),
        })
    }

    pub(super) fn trust(&self, trusted: Vec<Trusted>) {
        // It is called once, before anybody can ask.
        let _first = self.trusted.set(trusted);
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What it calls itself.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What the scenario says about it.
    pub const fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// Moves its clock, if the scenario may do that.
    pub fn advance(&self, by: Duration) -> bool {
        let movable = self.config.has(Feature::MockClock);
        if movable {
            self.clock.advance(by);
        }
        movable
    }

    /// Looks into the book.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Book) -> T) -> T {
        look(&self.book.borrow())
    }

    /// Writes into the book.
    pub(super) fn write<T>(&self, write: impl FnOnce(&mut Book) -> T) -> Option<T> {
        let mut written = None;
        self.book.send_modify(|book| written = Some(write(book)));
        written
    }

    pub(super) fn asked(&self, what: &'static str) {
        self.write(|book| *book.asked.entry(what).or_default() += 1);
    }

    /// Remembers why something was refused, so that a report can say it.
    pub(super) fn refuse<T>(&self, what: &str, done: Result<T, Refusal>) -> Result<T, Refusal> {
        if let Err(refusal) = &done {
            self.write(|book| book.refused.push(format!("{what}: {refusal}")));
        }
        done
    }

    /// How often each thing was asked for, and what was refused.
    pub fn log(&self) -> Value {
        self.look(|book| json!({"requests": book.asked, "refused": book.refused}))
    }

    /// Makes the token endpoint answer everything with an error, or work again.
    pub fn fail_with(&self, error: Option<&str>) {
        self.write(|book| book.error = error.map(str::to_owned));
    }

    /// Makes the answers of an endpoint go wrong, or well again.
    pub fn set_fault(&self, endpoint: Endpoint, fault: Option<Fault>) {
        self.write(|book| match fault {
            Some(fault) => drop(book.faults.insert(endpoint, fault)),
            None => drop(book.faults.remove(&endpoint)),
        });
    }

    /// Forgets all tokens. How many there were.
    pub fn revoke_all(&self) -> usize {
        self.write(Book::revoke_all).unwrap_or_default()
    }

    /// Gives out tokens without anybody asking for them.
    pub fn mint(&self, person: &Person, scope: &str) -> Minted {
        let grant = self.grant(&self.config.client_id, person, scope, Vec::new());
        self.issue(&grant, None, Fresh::Login)
    }

    /// Makes it take a value as an access token.
    pub fn inject(&self, token: &str, person: &Person, scope: &str, lifetime: Duration) {
        let grant = self.grant(&self.config.client_id, person, scope, Vec::new());
        let expires = self.clock.now() + lifetime;
        let bearer = Bearer { audience: Vec::new(), grant, kind: Kind::Access, expires };
        self.write(|book| book.bearers.insert(token.to_owned(), bearer));
    }

    pub(super) fn grant(
        &self,
        client: &str,
        person: &Person,
        scope: &str,
        resources: Vec<String>,
    ) -> Grant {
        let family = self.write(|book| {
            book.families += 1;
            book.families
        });
        Grant {
            client: client.to_owned(),
            person: person.clone(),
            scope: self.granted(scope),
            resources,
            family: family.unwrap_or_default(),
        }
    }

    /// What is granted: what is asked for, each once; without a wish, everything it speaks of.
    fn granted(&self, scope: &str) -> Vec<String> {
        let mut granted: Vec<String> = Vec::new();
        for wish in scope.split_whitespace() {
            if !granted.iter().any(|scope| scope == wish) {
                granted.push(wish.to_owned());
            }
        }
        if granted.is_empty() { self.config.scopes.clone() } else { granted }
    }

    /// Gives out an access token, an ID token and a refresh token.
    pub(super) fn issue(&self, grant: &Grant, nonce: Option<&str>, fresh: Fresh) -> Minted {
        let now = self.clock.now();
        let expires = now + self.config.lifetime;
        let extra = grant.scope.iter().filter_map(|scope| scope.strip_prefix(AUDIENCE_SCOPE));
        let extra: Vec<String> = extra.map(str::to_owned).collect();
        let mut audience = extra.clone();
        if !audience.contains(&grant.client) {
            audience.push(grant.client.clone());
        }
        let claims = self.claims(grant, &audience, now, nonce);
        let id = jwt::token(&claims, self.key.as_ref());
        let access = format!("mock-access-{}{}", random_hex(), random_hex());
        let refresh = format!("mock-refresh-{}{}", random_hex(), random_hex());
        let resources = grant.resources.iter().chain(&extra).cloned().collect();
        let bearer = |kind, audience| Bearer { grant: grant.clone(), kind, audience, expires };
        let as_access = bearer(Kind::Access, resources);
        let as_id = bearer(Kind::Id, audience);
        let taken = fresh == Fresh::Login || self.config.has(Feature::AcceptRefreshedIdTokens);
        self.write(|book| {
            book.bearers.insert(access.clone(), as_access);
            book.ids.insert(id.clone(), as_id.clone());
            if taken {
                book.bearers.insert(id.clone(), as_id);
            }
            book.refreshes.insert(refresh.clone(), grant.clone());
        });
        let scope = grant.scope.join(" ");
        Minted { access, id, refresh, scope, lifetime: self.config.lifetime }
    }

    fn claims(
        &self,
        grant: &Grant,
        audience: &[String],
        now: Duration,
        nonce: Option<&str>,
    ) -> Value {
        let person = &grant.person;
        let mut claims = json!({
            "iss": self.issuer,
            "sub": person.subject,
            "aud": match audience { [only] => json!(only), many => json!(many) },
            "azp": grant.client,
            "iat": now.as_secs(),
            "exp": (now + self.config.lifetime).as_secs(),
            // Two logins within a second are still two tokens.
            "jti": random_hex(),
            "email": person.email,
            "email_verified": true,
            "name": person.name,
        });
        if let Some(claims) = claims.as_object_mut() {
            if grant.scope.iter().any(|scope| scope == "groups") {
                claims.insert("groups".to_owned(), json!(person.groups));
            }
            if let Some(nonce) = nonce {
                claims.insert("nonce".to_owned(), nonce.into());
            }
        }
        claims
    }

    /// A bearer token that is still good.
    pub(super) fn bearer(&self, token: &str) -> Option<Bearer> {
        let now = self.clock.now();
        self.look(|book| book.bearers.get(token).filter(|bearer| bearer.expires > now).cloned())
    }

    /// An ID token that is still good, whether servers take it or not.
    pub(super) fn id_token(&self, token: &str) -> Option<Bearer> {
        let now = self.clock.now();
        self.look(|book| book.ids.get(token).filter(|bearer| bearer.expires > now).cloned())
    }

    /// Who a token belongs to.
    pub(super) fn userinfo(&self, token: Option<&str>) -> Result<Value, Refusal> {
        let bearer = token.and_then(|token| self.bearer(token));
        let bearer = bearer.filter(|bearer| bearer.kind == Kind::Access);
        let wrong = || Refusal::new("invalid_token", "no access token of this provider");
        let Bearer { grant, .. } = bearer.ok_or_else(wrong)?;
        let Person { subject, email, name, groups } = grant.person;
        Ok(json!({
            "sub": subject, "email": email, "email_verified": true, "name": name, "groups": groups,
        }))
    }

    /// Takes up a client that registers itself.
    pub(super) fn register(&self, wish: &Value) -> Result<Value, Refusal> {
        if self.config.clients != Clients::Dynamic {
            return Err(Refusal::new("invalid_request", "clients cannot register here"));
        }
        let uris = wish.get("redirect_uris").and_then(Value::as_array).into_iter().flatten();
        let redirect_uris: Vec<String> =
            uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect();
        if redirect_uris.is_empty() {
            return Err(Refusal::new("invalid_redirect_uri", "redirect_uris is empty"));
        }
        let method = wish.get("token_endpoint_auth_method").and_then(Value::as_str);
        let method = method.unwrap_or("client_secret_basic");
        let secret = (method != "none").then(|| format!("secret-{}", random_hex()));
        let id = format!("client-{}", random_hex());
        let mut answer = json!({
            "client_id": id,
            "redirect_uris": redirect_uris,
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        });
        if let (Some(answer), Some(secret)) = (answer.as_object_mut(), &secret) {
            answer.insert("client_secret".to_owned(), secret.as_str().into());
            answer.insert("client_secret_expires_at".to_owned(), 0.into());
        }
        self.write(|book| book.clients.insert(id, Registered { redirect_uris, secret }));
        Ok(answer)
    }
}

/// Whether tokens come of a login or of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fresh {
    Login,
    Refresh,
}
