//! The transport-independent part of a mock provider: issuing and checking tokens.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{
    clock::MockClock,
    config::{Clients, Feature, MockProviderConfig},
    jwt::{self, SigningKey},
    records::{
        Grant, IssuedToken, ProviderEndpoint, ProviderRecords, RegisteredClient, TokenKind,
        UserIdentity,
    },
    responses::OAuthError,
};
use crate::{instance::random_hex, mock::fault::Fault};

/// The scope prefix by which Dex selects the audience of a token.
const AUDIENCE_SCOPE: &str = "audience:server:client_id:";

/// A mock provider without its transport.
#[derive(Debug)]
pub struct ProviderState {
    pub(super) config: MockProviderConfig,
    origin: String,
    issuer: String,
    pub(super) clock: MockClock,
    pub(super) key: Option<SigningKey>,
    pub(super) trusted: OnceLock<Vec<Trusted>>,
    records: watch::Sender<ProviderRecords>,
}

/// Another provider whose tokens this one exchanges.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) connector: String,
    pub(super) state: Arc<ProviderState>,
}

/// The tokens issued for one grant.
#[derive(Debug, Clone)]
pub struct TokenSet {
    /// The access token.
    pub access: String,
    /// The ID token.
    pub id: String,
    /// The refresh token.
    pub refresh: String,
    /// The granted scopes.
    pub scope: String,
    /// The lifetime of the access token.
    pub lifetime: Duration,
}

impl ProviderState {
    pub(super) fn new(config: &MockProviderConfig, port: u16) -> io::Result<Self> {
        let scheme = if config.uses_tls() { "https" } else { "http" };
        let origin = format!("{scheme}://localhost:{port}");
        let key = config.has(Feature::SignTokens).then(SigningKey::new).transpose()?;
        let records =
            ProviderRecords { error: config.simulate_error.clone(), ..ProviderRecords::default() };
        Ok(Self {
            issuer: format!("{origin}{}", config.path),
            origin,
            clock: MockClock::default(),
            key,
            trusted: OnceLock::new(),
            records: watch::Sender::new(records),
            config: config.clone(),
        })
    }

    pub(super) fn trust(&self, trusted: Vec<Trusted>) {
        // Called once, before the first request.
        let _first = self.trusted.set(trusted);
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its issuer URL.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Its configuration.
    pub const fn config(&self) -> &MockProviderConfig {
        &self.config
    }

    /// Advances its clock; returns whether the configuration allows that.
    pub fn advance(&self, by: Duration) -> bool {
        let movable = self.config.has(Feature::MockClock);
        if movable {
            self.clock.advance(by);
        }
        movable
    }

    /// Reads the records.
    pub(super) fn read<T>(&self, read: impl FnOnce(&ProviderRecords) -> T) -> T {
        read(&self.records.borrow())
    }

    /// Updates the records.
    pub(super) fn update<T>(&self, update: impl FnOnce(&mut ProviderRecords) -> T) -> Option<T> {
        let mut written = None;
        self.records.send_modify(|records| written = Some(update(records)));
        written
    }

    pub(super) fn count_request(&self, what: &'static str) {
        self.update(|records| *records.request_counts.entry(what).or_default() += 1);
    }

    /// Records why a request was rejected, for the report.
    pub(super) fn record_rejection<T>(
        &self,
        what: &str,
        done: Result<T, OAuthError>,
    ) -> Result<T, OAuthError> {
        if let Err(refusal) = &done {
            self.update(|records| records.rejections.push(format!("{what}: {refusal}")));
        }
        done
    }

    /// The request counts and rejections.
    pub fn log(&self) -> Value {
        self.read(
            |records| json!({"requests": records.request_counts, "refused": records.rejections}),
        )
    }

    /// Makes the token endpoint fail with this error, or work again.
    pub fn fail_with(&self, error: Option<&str>) {
        self.update(|records| records.error = error.map(str::to_owned));
    }

    /// Sets or clears the fault of an endpoint.
    pub fn set_fault(&self, endpoint: ProviderEndpoint, fault: Option<Fault>) {
        self.update(|records| match fault {
            Some(fault) => drop(records.faults.insert(endpoint, fault)),
            None => drop(records.faults.remove(&endpoint)),
        });
    }

    /// Revokes all tokens; returns how many there were.
    pub fn revoke_all(&self) -> usize {
        self.update(ProviderRecords::revoke_all).unwrap_or_default()
    }

    /// Issues tokens without a login.
    pub fn mint(&self, identity: &UserIdentity, scope: &str) -> TokenSet {
        let grant = self.grant(&self.config.client_id, identity, scope, Vec::new());
        self.issue(&grant, None, IssuedBy::Login)
    }

    /// Issues a JWT with these claims beside those of every token.
    pub fn mint_jwt(&self, typ: Option<&str>, own: &Map<String, Value>) -> String {
        let now = self.clock.now();
        let expires = now + self.config.lifetime;
        let mut claims = json!({
            "iss": self.issuer, "iat": now.as_secs(), "exp": expires.as_secs(), "jti": random_hex(),
        });
        if let Some(claims) = claims.as_object_mut() {
            claims.extend(own.clone());
        }
        let token = jwt::typed_token(&claims, typ, self.key.as_ref());
        let audience = own.get("aud").and_then(Value::as_str).map(str::to_owned);
        let subject = own.get("sub").and_then(Value::as_str).unwrap_or_default();
        let grant = self.grant("", &UserIdentity::named(subject), "", Vec::new());
        let audience = audience.into_iter().collect();
        let bearer = IssuedToken { audience, grant, kind: TokenKind::Id, expires };
        self.update(|records| records.bearers.insert(token.clone(), bearer));
        token
    }

    /// Makes the provider accept this value as an access token.
    pub fn inject(&self, token: &str, identity: &UserIdentity, scope: &str, lifetime: Duration) {
        let grant = self.grant(&self.config.client_id, identity, scope, Vec::new());
        let expires = self.clock.now() + lifetime;
        let bearer = IssuedToken { audience: Vec::new(), grant, kind: TokenKind::Access, expires };
        self.update(|records| records.bearers.insert(token.to_owned(), bearer));
    }

    pub(super) fn grant(
        &self,
        client: &str,
        identity: &UserIdentity,
        scope: &str,
        resources: Vec<String>,
    ) -> Grant {
        let family = self.update(|records| {
            records.families += 1;
            records.families
        });
        Grant {
            client: client.to_owned(),
            identity: identity.clone(),
            scope: self.granted(scope),
            resources,
            family: family.unwrap_or_default(),
        }
    }

    /// The granted scopes: the requested ones without duplicates, or all by default.
    fn granted(&self, scopes: &str) -> Vec<String> {
        let mut granted: Vec<String> = Vec::new();
        for scope in scopes.split_whitespace() {
            if !granted.iter().any(|known| known == scope) {
                granted.push(scope.to_owned());
            }
        }
        if granted.is_empty() { self.config.scopes.clone() } else { granted }
    }

    /// Issues an access token, an ID token and a refresh token.
    pub(super) fn issue(&self, grant: &Grant, nonce: Option<&str>, fresh: IssuedBy) -> TokenSet {
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
        let bearer = |kind, audience| IssuedToken { grant: grant.clone(), kind, audience, expires };
        let as_access = bearer(TokenKind::Access, resources);
        let as_id = bearer(TokenKind::Id, audience);
        let taken = fresh == IssuedBy::Login || self.config.has(Feature::AcceptRefreshedIdTokens);
        self.update(|records| {
            records.bearers.insert(access.clone(), as_access);
            records.ids.insert(id.clone(), as_id.clone());
            if taken {
                records.bearers.insert(id.clone(), as_id);
            }
            records.refreshes.insert(refresh.clone(), grant.clone());
        });
        let scope = grant.scope.join(" ");
        TokenSet { access, id, refresh, scope, lifetime: self.config.lifetime }
    }

    fn claims(
        &self,
        grant: &Grant,
        audience: &[String],
        now: Duration,
        nonce: Option<&str>,
    ) -> Value {
        let identity = &grant.identity;
        let mut claims = json!({
            "iss": self.issuer,
            "sub": identity.subject,
            "aud": match audience { [only] => json!(only), many => json!(many) },
            "azp": grant.client,
            "iat": now.as_secs(),
            "exp": (now + self.config.lifetime).as_secs(),
            // Makes two logins within a second distinct.
            "jti": random_hex(),
            "email": identity.email,
            "email_verified": true,
            "name": identity.name,
        });
        if let Some(claims) = claims.as_object_mut() {
            if grant.scope.iter().any(|scope| scope == "groups") {
                claims.insert("groups".to_owned(), json!(identity.groups));
            }
            if let Some(nonce) = nonce {
                claims.insert("nonce".to_owned(), nonce.into());
            }
        }
        claims
    }

    /// A valid bearer token.
    pub(super) fn bearer(&self, token: &str) -> Option<IssuedToken> {
        let now = self.clock.now();
        self.read(|records| {
            records.bearers.get(token).filter(|bearer| bearer.expires > now).cloned()
        })
    }

    /// A valid ID token, whether or not servers accept it.
    pub(super) fn id_token(&self, token: &str) -> Option<IssuedToken> {
        let now = self.clock.now();
        self.read(|records| records.ids.get(token).filter(|bearer| bearer.expires > now).cloned())
    }

    /// The claims of the owner of a token.
    pub(super) fn userinfo(&self, token: Option<&str>) -> Result<Value, OAuthError> {
        let bearer = token.and_then(|token| self.bearer(token));
        let bearer = bearer.filter(|bearer| bearer.kind == TokenKind::Access);
        let wrong = || OAuthError::new("invalid_token", "not an access token of this provider");
        let IssuedToken { grant, .. } = bearer.ok_or_else(wrong)?;
        let UserIdentity { subject, email, name, groups } = grant.identity;
        Ok(json!({
            "sub": subject, "email": email, "email_verified": true, "name": name, "groups": groups,
        }))
    }

    /// Registers a client (RFC 7591).
    pub(super) fn register(&self, request: &Value) -> Result<Value, OAuthError> {
        if self.config.clients != Clients::Dynamic {
            return Err(OAuthError::new(
                "invalid_request",
                "dynamic client registration is disabled",
            ));
        }
        let uris = request.get("redirect_uris").and_then(Value::as_array).into_iter().flatten();
        let redirect_uris: Vec<String> =
            uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect();
        if redirect_uris.is_empty() {
            return Err(OAuthError::new("invalid_redirect_uri", "redirect_uris is empty"));
        }
        let method = request.get("token_endpoint_auth_method").and_then(Value::as_str);
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
        self.update(|records| {
            records.clients.insert(id, RegisteredClient { redirect_uris, secret })
        });
        Ok(answer)
    }
}

/// Whether tokens are issued by a login or a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuedBy {
    Login,
    Refresh,
}
