//! Access by the person's login to the gateway: their identity is shown to a server that trusts the
//! same issuer, or exchanged for a token of the server's own (RFC 8693).

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::{BearerToken, IdTokenSource},
    logins::{AccessTokenSource, LoginError, LoginSubject, ProtectedServer},
    server_auth::{ServerAuth, TokenExchange},
};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{
    Client,
    discovery::clean,
    grants::{Counter, Tokens},
    identity::{Identity, Proof},
    places, secrets,
};
use crate::{lock::Lock, random::from_base64url};

/// Less than this must not be left of an identity that is shown to somebody, or of a token.
const MARGIN: u64 = 30;
const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const USUAL_SCOPES: &str = "openid profile email groups";

/// Where a person's identity comes from.
#[derive(Debug, Clone)]
struct Proven {
    client: Arc<Client>,
    owner: Owner,
    /// Who vouches for them at the gateway, if somebody does.
    issuer: Option<Arc<str>>,
    identity: Option<Arc<dyn IdTokenSource>>,
}

impl Proven {
    fn of(client: &Arc<Client>, person: &LoginSubject) -> Self {
        let identity = person.principal.as_ref().and_then(|who| who.identity.clone());
        let issuer = person.principal.as_ref().map(|who| Arc::clone(&who.issuer));
        Self { client: Arc::clone(client), owner: person.owner.clone(), issuer, identity }
    }

    /// An identity that is good for a moment yet.
    async fn token(&self, what: &str) -> Result<BearerToken, LoginError> {
        let refuse = |text: String| Err(LoginError::Refused(text));
        let own = match &self.identity {
            Some(identity) => identity.id_token().await,
            None => Ok(None),
        };
        let token = match own {
            Ok(Some(token)) => token,
            Ok(None) | Err(_) => {
                let other = self.client.other_identity(&self.owner, self.issuer.as_deref()).await;
                match (other, own) {
                    (Some(other), _) => other,
                    // Who cannot be asked has not refused.
                    (None, Err(error)) => return Err(error),
                    (None, Ok(_)) => return refuse(format!("no ID token available for {what}")),
                }
            }
        };
        let ends = claims(token.reveal()).and_then(|claims| claims.exp).unwrap_or(u64::MAX);
        if ends <= self.client.clock.now().saturating_add(MARGIN) {
            return refuse(format!("ID token has expired, needs refresh before {what}"));
        }
        Ok(token)
    }
}

impl Client {
    /// The identity that came with a login at some server. Of those who are known here, only what the
    /// same issuer says is shown: the others never meant it for anybody else.
    async fn other_identity(&self, owner: &Owner, known_by: Option<&str>) -> Option<BearerToken> {
        for issuer in self.issuers_of(owner).await {
            if known_by.is_some_and(|known_by| !places::same_issuer(known_by, &issuer)) {
                continue;
            }
            let grant = self.slot(owner, &issuer).await.get();
            if let Some(id) = grant.and_then(|grant| grant.id) {
                return Some(BearerToken::new(id.reveal().as_str()));
            }
        }
        None
    }
}

/// Shows the person's identity.
#[derive(Debug)]
pub(super) struct Forwarded(Proven);

impl Forwarded {
    pub(super) fn new(client: &Arc<Client>, person: &LoginSubject) -> Self {
        Self(Proven::of(client, person))
    }
}

impl AccessTokenSource for Forwarded {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(self.0.token("forwarding"))
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move {
            let again = self.0.token("forwarding").await?;
            if again != *token {
                return Ok(again);
            }
            let text = "ID token forwarding failed: the server does not accept it (status 401)";
            Err(LoginError::Refused(text.to_owned()))
        })
    }
}

/// Exchanges the person's identity.
#[derive(Debug)]
pub(super) struct Exchanged {
    proven: Proven,
    exchange: TokenExchange,
    scopes: String,
    kept: Lock<Option<Kept>>,
    busy: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    token: BearerToken,
    ends: u64,
    /// Whose it is.
    subject: String,
}

impl Exchanged {
    pub(super) fn new(client: &Arc<Client>, person: &LoginSubject, site: &ProtectedServer) -> Self {
        let exchange = site.auth.token_exchange.clone().unwrap_or_default();
        let scopes = scopes(&site.auth, &exchange);
        Self {
            proven: Proven::of(client, person),
            exchange,
            scopes,
            kept: Lock::default(),
            busy: Mutex::default(),
        }
    }

    fn fresh(&self, refused: Option<&BearerToken>) -> Option<BearerToken> {
        let now = self.proven.client.clock.now();
        let kept = self.kept.lock();
        let kept = kept.as_ref().filter(|kept| now.saturating_add(MARGIN) < kept.ends)?;
        refused.is_none_or(|refused| *refused != kept.token).then(|| kept.token.clone())
    }

    async fn get(&self, refused: Option<&BearerToken>) -> Result<BearerToken, LoginError> {
        if let Some(token) = self.fresh(refused) {
            return Ok(token);
        }
        let _turn = self.busy.lock().await;
        if let Some(token) = self.fresh(refused) {
            return Ok(token);
        }
        let identity = self.proven.token("token exchange").await?;
        let subject = claims(identity.reveal()).and_then(|claims| claims.sub);
        let subject = subject.filter(|subject| !subject.is_empty()).ok_or_else(|| {
            LoginError::Refused("failed to extract user ID from token".to_owned())
        })?;
        let tokens = self.ask(&identity).await?;
        self.check(&tokens)?;
        let ends = self.proven.client.clock.now().saturating_add(tokens.lifetime);
        let token = BearerToken::new(tokens.access.reveal().as_str());
        let kept = Kept { token: token.clone(), ends, subject: subject.clone() };
        // A statement of its own: in a condition the lock would be held to the end of the block.
        let before = self.kept.lock().replace(kept);
        if before.is_some_and(|before| before.subject != subject) {
            tracing::debug!("an exchanged token belongs to another subject than the one before");
        }
        Ok(token)
    }

    async fn ask(&self, identity: &BearerToken) -> Result<Tokens, LoginError> {
        let TokenExchange { dex_token_endpoint: endpoint, connector_id, .. } = &self.exchange;
        let refuse = |text: String| Err(LoginError::Refused(text));
        if !endpoint.starts_with("https://") {
            return refuse(format!("dex token endpoint must use HTTPS (got: {})", clean(endpoint)));
        }
        if connector_id.is_empty() {
            return refuse("connector ID is required".to_owned());
        }
        let client = &self.proven.client;
        let ourselves = match &self.exchange.client_credentials_secret_ref {
            Some(named) => secrets::identity(client.options.secrets.as_deref(), named)?,
            None => Identity { id: String::new(), secret: None, proof: Proof::None },
        };
        let fields = [
            ("grant_type", GRANT),
            ("subject_token", identity.reveal()),
            ("subject_token_type", ID_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
            ("connector_id", connector_id.as_str()),
            ("scope", self.scopes.as_str()),
        ];
        let counter = Counter { endpoint, identity: &ourselves };
        let given = client.grant(counter, &fields, &[identity.reveal()]).await;
        given.map_err(|denied| match LoginError::from(denied) {
            LoginError::Unavailable(reason) => {
                LoginError::Unavailable(format!("token exchange failed: {reason}"))
            }
            other => LoginError::Refused(format!("token exchange failed: {other}")),
        })
    }

    /// Whoever answers must be the issuer that is expected, whatever the way to it.
    fn check(&self, tokens: &Tokens) -> Result<(), LoginError> {
        let Some(issuer) = claims(tokens.access.reveal()).and_then(|claims| claims.iss) else {
            return Ok(());
        };
        let TokenExchange { expected_issuer, dex_token_endpoint, .. } = &self.exchange;
        let expected = match expected_issuer.as_str() {
            "" => dex_token_endpoint.strip_suffix("/token").unwrap_or(dex_token_endpoint),
            expected => expected,
        };
        if issuer.trim_end_matches('/') == expected.trim_end_matches('/') {
            return Ok(());
        }
        Err(LoginError::Refused(format!(
            "token issuer mismatch: expected \"{}\", got \"{}\". Check auth.tokenExchange.expectedIssuer",
            clean(expected),
            clean(&issuer)
        )))
    }
}

impl AccessTokenSource for Exchanged {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(self.get(None))
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move {
            let again = self.get(Some(token)).await?;
            if again != *token {
                return Ok(again);
            }
            let text = "the server does not accept the exchanged token (status 401)";
            Err(LoginError::Refused(text.to_owned()))
        })
    }
}

/// What is asked for: what the file says, and that the token is made for the audiences it names.
fn scopes(auth: &ServerAuth, exchange: &TokenExchange) -> String {
    let given = exchange.scopes.trim();
    let mut scopes = if given.is_empty() { USUAL_SCOPES } else { given }.to_owned();
    for audience in &auth.required_audiences {
        let wanted = format!("audience:server:client_id:{audience}");
        if !scopes.split_whitespace().any(|scope| scope == wanted) {
            scopes.push(' ');
            scopes.push_str(&wanted);
        }
    }
    scopes
}

/// What a token says about itself, unproven: it is only used to see early that it will not do.
#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    sub: Option<String>,
    #[serde(default)]
    exp: Option<u64>,
}

fn claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    serde_json::from_slice(&from_base64url(payload.trim_end_matches('='))?).ok()
}
