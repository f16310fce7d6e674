//! Access by the ID token of the user's login to the gateway. The token is forwarded to a server that trusts the
//! same issuer, or exchanged for an access token of the server's own issuer (RFC 8693).

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::{BearerToken, IdTokenSource},
    logins::{AccessTokenSource, LoginError, LoginSubject, ProtectedServer},
    server_auth::{ServerAuth, TokenExchange},
};
use tokio::sync::Mutex;

use super::{
    OAuthClient,
    client_credentials::{self, SecretLocation},
};
use crate::{
    lock::Lock,
    oauth::{
        ACCESS_TOKEN, ClientIdentity, DEFAULT_SCOPES, ExchangeError, ExchangeRequest, ID_TOKEN,
        TokenResponse, same_issuer, unverified_claims,
    },
};

/// How many seconds a token must still be valid to be sent.
const MARGIN: u64 = 30;
/// The lifetime in seconds that is assumed if the issuer names none.
const DEFAULT_LIFETIME: u64 = 3600;

/// The source of a user's ID token.
#[derive(Debug, Clone)]
struct UserIdToken {
    client: Arc<OAuthClient>,
    owner: Owner,
    /// The issuer of the user's login to the gateway, if there is one.
    issuer: Option<Arc<str>>,
    id_tokens: Option<Arc<dyn IdTokenSource>>,
}

impl UserIdToken {
    fn new(client: &Arc<OAuthClient>, person: &LoginSubject) -> Self {
        let principal = person.principal.as_ref();
        let id_tokens = principal.and_then(|principal| principal.identity.clone());
        let issuer = principal.map(|principal| Arc::clone(&principal.issuer));
        Self { client: Arc::clone(client), owner: person.owner.clone(), issuer, id_tokens }
    }

    /// Returns an ID token that does not expire within the margin. `purpose` is named in errors.
    async fn token(&self, purpose: &str) -> Result<BearerToken, LoginError> {
        let refuse = |text: String| Err(LoginError::Refused(text));
        let own = match &self.id_tokens {
            Some(id_tokens) => id_tokens.id_token().await,
            None => Ok(None),
        };
        let token = match own {
            Ok(Some(token)) => token,
            Ok(None) | Err(_) => {
                let other =
                    self.client.id_token_of_grants(&self.owner, self.issuer.as_deref()).await;
                match (other, own) {
                    (Ok(Some(other)), _) => other,
                    // An unavailable provider or storage is not a refusal: report it as retryable.
                    (_, Err(error)) | (Err(error), _) => return Err(error),
                    (Ok(None), Ok(_)) => {
                        return refuse(format!("no ID token available for {purpose}"));
                    }
                }
            }
        };
        let expires = unverified_claims(token.reveal()).and_then(|claims| claims.exp);
        if expires.unwrap_or(u64::MAX) <= self.client.clock.now().saturating_add(MARGIN) {
            return refuse(format!("ID token has expired, needs refresh before {purpose}"));
        }
        Ok(token)
    }
}

impl OAuthClient {
    /// Returns the ID token of a login at some server. For a user with a login to the gateway it must be from the
    /// same issuer: other issuers did not issue their tokens to be forwarded.
    async fn id_token_of_grants(
        &self,
        owner: &Owner,
        login_issuer: Option<&str>,
    ) -> Result<Option<BearerToken>, LoginError> {
        let issuers = self.issuers_of(owner).await;
        let issuers = issuers.map_err(|error| LoginError::Unavailable(error.to_string()))?;
        for issuer in issuers {
            if login_issuer.is_some_and(|login_issuer| !same_issuer(login_issuer, &issuer)) {
                continue;
            }
            let grant = self.entry(owner, &issuer).await.get();
            if let Some(id) = grant.and_then(|grant| grant.id) {
                return Ok(Some(BearerToken::new(id.reveal().as_str())));
            }
        }
        Ok(None)
    }
}

/// Forwards the user's ID token.
#[derive(Debug)]
pub(super) struct ForwardedToken(UserIdToken);

impl ForwardedToken {
    pub(super) fn new(client: &Arc<OAuthClient>, person: &LoginSubject) -> Self {
        Self(UserIdToken::new(client, person))
    }
}

impl AccessTokenSource for ForwardedToken {
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

/// Exchanges the user's ID token for an access token, which is cached until it expires.
#[derive(Debug)]
pub(super) struct ExchangedToken {
    user: UserIdToken,
    exchange: TokenExchange,
    scopes: String,
    cached: Lock<Option<CachedToken>>,
    /// Held during an exchange, so that concurrent callers share one.
    exchanging: Mutex<()>,
}

#[derive(Debug)]
struct CachedToken {
    token: BearerToken,
    expires: u64,
    subject: String,
}

impl ExchangedToken {
    pub(super) fn new(
        client: &Arc<OAuthClient>,
        person: &LoginSubject,
        site: &ProtectedServer,
    ) -> Self {
        let exchange = site.auth.token_exchange.clone().unwrap_or_default();
        let scopes = scopes(&site.auth, &exchange);
        Self {
            user: UserIdToken::new(client, person),
            exchange,
            scopes,
            cached: Lock::default(),
            exchanging: Mutex::default(),
        }
    }

    fn fresh(&self, refused: Option<&BearerToken>) -> Option<BearerToken> {
        let now = self.user.client.clock.now();
        let cached = self.cached.lock();
        let cached = cached.as_ref().filter(|token| now.saturating_add(MARGIN) < token.expires)?;
        refused.is_none_or(|refused| *refused != cached.token).then(|| cached.token.clone())
    }

    async fn get(&self, refused: Option<&BearerToken>) -> Result<BearerToken, LoginError> {
        if let Some(token) = self.fresh(refused) {
            return Ok(token);
        }
        let _exchanging = self.exchanging.lock().await;
        if let Some(token) = self.fresh(refused) {
            return Ok(token);
        }
        let id_token = self.user.token("token exchange").await?;
        let subject = unverified_claims(id_token.reveal()).and_then(|claims| claims.sub);
        let subject = subject.filter(|subject| !subject.is_empty()).ok_or_else(|| {
            LoginError::Refused("failed to extract user ID from token".to_owned())
        })?;
        let response = self.exchange(&id_token).await?;
        let lifetime = response.expires_in.unwrap_or(DEFAULT_LIFETIME);
        let expires = self.user.client.clock.now().saturating_add(lifetime);
        let token = BearerToken::new(response.access_token.reveal().as_str());
        let cached = CachedToken { token: token.clone(), expires, subject: subject.clone() };
        // A separate statement: as part of the condition, the lock would be held until the end of the block.
        let before = self.cached.lock().replace(cached);
        if before.is_some_and(|before| before.subject != subject) {
            tracing::debug!("an exchanged token belongs to another subject than the one before");
        }
        Ok(token)
    }

    async fn exchange(&self, id_token: &BearerToken) -> Result<TokenResponse, LoginError> {
        let TokenExchange { dex_token_endpoint, connector_id, expected_issuer, .. } =
            &self.exchange;
        if connector_id.is_empty() {
            return Err(LoginError::Refused("connector ID is required".to_owned()));
        }
        let OAuthClient { options, http, .. } = &*self.user.client;
        let identity = match &self.exchange.client_credentials_secret_ref {
            Some(reference) => {
                let (cluster, folder) = (options.cluster.as_deref(), options.secrets.as_deref());
                client_credentials::read(SecretLocation { cluster, folder }, reference).await?
            }
            None => ClientIdentity::public(String::new()),
        };
        let request = ExchangeRequest {
            endpoint: dex_token_endpoint,
            connector_id,
            scopes: &self.scopes,
            expected_issuer,
            issuer_setting: "auth.tokenExchange.expectedIssuer",
            subject_token: id_token.reveal(),
            subject_token_type: ID_TOKEN,
            requested_token_type: ACCESS_TOKEN,
        };
        request.send(http, &identity, options.policy).await.map_err(|error| match error {
            ExchangeError::Refused(reason) => LoginError::Refused(reason),
            ExchangeError::Failed(error) => match LoginError::from(error) {
                LoginError::Unavailable(reason) => {
                    LoginError::Unavailable(format!("token exchange failed: {reason}"))
                }
                other => LoginError::Refused(format!("token exchange failed: {other}")),
            },
        })
    }
}

impl AccessTokenSource for ExchangedToken {
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

/// The configured scopes, and Dex's scopes for the required audiences.
fn scopes(auth: &ServerAuth, exchange: &TokenExchange) -> String {
    let configured = exchange.scopes.trim();
    let mut scopes = if configured.is_empty() { DEFAULT_SCOPES } else { configured }.to_owned();
    for audience in &auth.required_audiences {
        let wanted = format!("audience:server:client_id:{audience}");
        if !scopes.split_whitespace().any(|scope| scope == wanted) {
            scopes.push(' ');
            scopes.push_str(&wanted);
        }
    }
    scopes
}
