//! Authentication of requests: turns a bearer token into a principal, or into a challenge.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    credentials::{BearerToken, IdTokenSource, Principal},
    logins::LoginError,
};
use tokio::time::Instant;

use super::{
    Inner, TrustedIssuerConfig,
    config::ClaimPattern,
    logins::{LoginIdTokens, TokenRecord, access_key, last_login_key},
    provider::{Identity, ProviderError},
    responses::{self, OAuthError, Reply},
    token_cache::{Digest, Validation},
};
use crate::{
    jwks::{JwksCache, JwksError},
    jwt::{Claims, ExpectedClaims, Jwt, JwtError},
    random,
    text::printable,
};

/// The cache TTL of the gateway's own tokens, if other gateways can revoke them.
const SHARED_TTL: Duration = Duration::from_secs(5);
/// The cache TTL of the gateway's own tokens, if only this gateway can revoke them: it evicts them when it does.
const LOCAL_TTL: Duration = Duration::from_secs(60);
/// The cache TTL of the provider's access tokens. Only the provider knows whether it has revoked one.
const PROVIDER_TTL: Duration = Duration::ZERO;
/// The cache TTL of invalid tokens.
const INVALID_TTL: Duration = Duration::from_secs(10);

/// The error for a user who is not allowed: it names the refused identity and refers to the operator.
pub(super) fn not_allowed(id: &str, email: Option<&str>) -> OAuthError {
    // Keep to the characters that an error description may have (RFC 6749, 4.1.2.1).
    let is_plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    let user = email.unwrap_or(id);
    let user: String = user.chars().take(200).map(|c| if is_plain(c) { c } else { '?' }).collect();
    let description = format!(
        "{user} may not use this gateway. Ask its operator to add this address, its domain or one of your groups to \
         access.allowedUsers, access.allowedDomains or access.allowedGroups in config.yaml"
    );
    OAuthError::new(StatusCode::FORBIDDEN, "access_denied", description)
}

/// Another issuer whose signed tokens are accepted.
#[derive(Debug)]
pub(super) struct TrustedIssuerKeys {
    pub(super) config: TrustedIssuerConfig,
    pub(super) keys: JwksCache,
}

impl TrustedIssuerKeys {
    /// Checks what the issuer's configuration requires of a verified token, and returns the claims of the user.
    fn accept(&self, token: &str, mut claims: Claims) -> Result<Claims, JwtError> {
        let TrustedIssuerConfig { claims: required, subject_claim, types, .. } = &self.config;
        let jwt = Jwt::parse(token).ok_or(JwtError::Malformed)?;
        if !types.is_empty() && !types.iter().any(|typ| typ.eq_ignore_ascii_case(jwt.typ())) {
            return Err(JwtError::Type);
        }
        let text = |name: &str| claim(token, name);
        let fits = |(name, pattern): &(String, ClaimPattern)| {
            text(name).is_some_and(|value| pattern.matches(&value))
        };
        if !required.iter().all(fits) {
            return Err(JwtError::Claim);
        }
        if let Some(name) = subject_claim {
            let subject = text(name).filter(|subject| !subject.is_empty());
            claims.sub = subject.ok_or(JwtError::Subject)?;
        }
        Ok(claims)
    }
}

/// The value of a claim, if it is a string.
fn claim(token: &str, name: &str) -> Option<String> {
    let payload = random::from_base64url(token.split('.').nth(1)?)?;
    let claims: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&payload).ok()?;
    claims.get(name)?.as_str().map(str::to_owned)
}

/// The single rate-limit bucket of invalid tokens. It protects the provider, so it ignores the addresses they come
/// from.
const PROVIDER_BUCKET: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Inner {
    /// Authenticates a request.
    pub(super) async fn authenticate(
        self: &Arc<Self>,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>, Reply> {
        let token = bearer(headers).map_err(|reason| self.challenge(reason))?;
        let digest = random::sha256(token.as_bytes());
        let validation = match self.tokens.get(&digest) {
            Some(validation) => Ok(validation),
            None => Box::pin(self.validate(token, digest)).await,
        };
        match validation {
            Ok(Validation::Valid(principal)) => {
                let Principal { id, email, groups, .. } = &*principal;
                if self.config.allows(id, email.as_deref(), groups) {
                    return Ok(principal);
                }
                tracing::info!("refused {}: not an allowed user", printable(id));
                Err(responses::error(&not_allowed(id, email.as_deref())))
            }
            Ok(Validation::Invalid) => Err(self.challenge("Token validation failed")),
            Err(error) => Err(responses::error(&error)),
        }
    }

    /// Whether a user is still allowed and their login at the gateway, if they have one, has not ended. Expiry of the
    /// token does not matter: its client obtains another for the next request.
    pub(super) async fn still_admits(&self, principal: &Principal) -> bool {
        let Principal { id, email, groups, login, client, .. } = principal;
        if !self.config.allows(id, email.as_deref(), groups) {
            return false;
        }
        // A storage failure does not mean that the login has ended.
        client.is_none() || !matches!(self.login(login).await, Ok(None))
    }

    /// Validates a token. Concurrent requests with one token share a validation.
    async fn validate(
        self: &Arc<Self>,
        token: &str,
        digest: Digest,
    ) -> Result<Validation, OAuthError> {
        let arrived = Instant::now();
        let _validating = self.locks.lock(&random::base64url(&digest)).await;
        let cached =
            self.tokens.get(&digest).or_else(|| self.tokens.validated_since(&digest, arrived));
        if let Some(validation) = cached {
            return Ok(validation);
        }
        let begun = Instant::now();
        let (validation, ttl) = match self.validate_own(token).await? {
            Some(validated) => validated,
            None => self.validate_foreign(token, &digest).await?,
        };
        self.tokens.put(digest, validation.clone(), begun, ttl);
        Ok(validation)
    }

    /// Validates a token that the gateway issued; `None` if it did not.
    async fn validate_own(
        self: &Arc<Self>,
        token: &str,
    ) -> Result<Option<(Validation, Duration)>, OAuthError> {
        let Some(record) = self.vault.get::<TokenRecord>(&access_key(token)).await? else {
            return Ok(None);
        };
        let remaining = record.expires.saturating_sub(self.clock.now());
        let Some(login) = self.login(&record.login).await?.filter(|_| remaining > 0) else {
            return Ok(Some((Validation::Invalid, INVALID_TTL)));
        };
        let ttl = if self.vault.is_shared() { SHARED_TTL } else { LOCAL_TTL };
        let ttl = ttl.min(Duration::from_secs(remaining));
        let principal = self.principal(&login, &record.client);
        Ok(Some((Validation::Valid(Arc::new(principal)), ttl)))
    }

    /// Validates a token of the provider or of a trusted issuer.
    async fn validate_foreign(
        self: &Arc<Self>,
        token: &str,
        digest: &Digest,
    ) -> Result<(Validation, Duration), OAuthError> {
        let jwt = match Jwt::parse(token) {
            Some(jwt) => jwt,
            None if looks_like_jwt(token) => return Ok((Validation::Invalid, INVALID_TTL)),
            None => return self.validate_opaque(token, digest).await,
        };
        let issuer = jwt.unverified_issuer().trim_end_matches('/').to_owned();
        if issuer == self.provider.config.issuer.trim_end_matches('/') {
            // Do not accept the gateway's own client id: servers behind the gateway receive ID tokens with that
            // audience, and each of them could impersonate its users here.
            let audiences = &self.config.trusted_audiences;
            return match self.provider.claims(token, audiences, None).await {
                Ok(claims) => Ok(self.valid_jwt(&issuer, claims, Some(token))),
                Err(err) => invalid_or_unavailable(&err),
            };
        }
        let Some(verified) = self.trusted_claims(&issuer, token).await else {
            return Ok((Validation::Invalid, INVALID_TTL));
        };
        match verified {
            // A server that the operator configured with `forwardToken` gets the token unchanged, including the
            // agent that acts for the user.
            Ok(claims) => Ok(self.valid_jwt(&issuer, claims, Some(token))),
            Err(JwksError::Token(reason)) => {
                tracing::info!("a token of `{issuer}` is not valid: {reason}");
                Ok((Validation::Invalid, INVALID_TTL))
            }
            Err(err @ (JwksError::Fetch(_) | JwksError::Malformed | JwksError::BackingOff)) => {
                tracing::warn!("{err}");
                Err(OAuthError::unavailable("the issuer of the token is not available"))
            }
        }
    }

    /// Verifies a token of a trusted issuer and returns its claims; `None` if the issuer is not trusted. `issuer` has
    /// no trailing slash.
    pub(super) async fn trusted_claims(
        &self,
        issuer: &str,
        token: &str,
    ) -> Option<Result<Claims, JwksError>> {
        let trusted =
            self.trusted.iter().find(|one| one.config.issuer.trim_end_matches('/') == issuer)?;
        let expected = ExpectedClaims {
            issuer: &trusted.config.issuer,
            audiences: &trusted.config.audiences,
            nonce: None,
            now: self.clock.now(),
        };
        let verified = trusted.keys.verify(token, &expected).await;
        Some(verified.and_then(|claims| Ok(trusted.accept(token, claims)?)))
    }

    /// Validates an opaque access token at the provider.
    ///
    /// Anybody can send any number of tokens, and each one causes a request to the provider. After a burst of
    /// invalid tokens, unknown ones are refused for a while; tokens that were valid before are still looked up.
    async fn validate_opaque(
        self: &Arc<Self>,
        token: &str,
        digest: &Digest,
    ) -> Result<(Validation, Duration), OAuthError> {
        if self.invalid_tokens.is_exhausted(PROVIDER_BUCKET) && !self.tokens.was_valid(digest) {
            return Err(OAuthError::unavailable("too many invalid tokens; retry later"));
        }
        let _permit = self.lookups.acquire().await;
        let identity = match self.provider.user_info(token).await {
            Ok(identity) => identity,
            Err(err) => {
                if !matches!(err, ProviderError::Unavailable(_)) {
                    self.invalid_tokens.allows(PROVIDER_BUCKET);
                }
                return invalid_or_unavailable(&err);
            }
        };
        let mut principal = external_principal(&self.provider.config.issuer, identity);
        // The user's last login at the gateway can supply ID tokens for servers, now or later.
        let id_tokens = LoginIdTokens::of_last_login(self, Arc::clone(&principal.id));
        principal.identity = Some(Arc::new(id_tokens));
        if let Some(login) = self.vault.get::<String>(&last_login_key(&principal.id)).await? {
            principal.login = login.as_str().into();
        }
        Ok((Validation::Valid(Arc::new(principal)), PROVIDER_TTL))
    }

    /// The validation of a verified token. The token can be forwarded to servers.
    fn valid_jwt(
        &self,
        issuer: &str,
        claims: Claims,
        id_token: Option<&str>,
    ) -> (Validation, Duration) {
        let remaining = Duration::from_secs(claims.expires().saturating_sub(self.clock.now()));
        let mut principal = external_principal(issuer, claims.into());
        principal.identity = id_token
            .map(|token| Arc::new(FixedIdToken(BearerToken::new(token))) as Arc<dyn IdTokenSource>);
        (Validation::Valid(Arc::new(principal)), remaining.min(LOCAL_TTL))
    }

    /// The challenge: a response that tells a client how to authenticate.
    fn challenge(&self, reason: &str) -> Reply {
        let error = OAuthError::new(StatusCode::UNAUTHORIZED, "invalid_token", reason);
        let mut reply = responses::error(&error);
        let value = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource\", scope=\"{}\", \
             error=\"invalid_token\", error_description=\"{reason}\"",
            self.config.base_url,
            self.scopes().join(" "),
        );
        if let Ok(value) = HeaderValue::from_str(&value) {
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
        reply
    }
}

/// The principal of a user without a login at the gateway.
fn external_principal(issuer: &str, identity: Identity) -> Principal {
    let id = Principal::id_of(issuer, &identity.subject);
    Principal {
        login: id.clone(),
        id,
        issuer: issuer.into(),
        subject: identity.subject.into(),
        email: identity.email.map(Into::into),
        name: identity.name.map(Into::into),
        groups: identity.groups.into(),
        identity: None,
        client: None,
    }
}

/// The ID token of a request, which may be forwarded.
#[derive(Debug)]
struct FixedIdToken(BearerToken);

impl IdTokenSource for FixedIdToken {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(std::future::ready(Ok(Some(self.0.clone()))))
    }
}

/// Whether a token looks like a JWT. The gateway verifies such a token itself: the provider may parse it more
/// leniently, and does not know which audiences the gateway accepts.
fn looks_like_jwt(token: &str) -> bool {
    let start = token.get(..2).and_then(|two| random::from_base64url(&format!("{two}A")));
    token.matches('.').count() >= 2 && start.is_some_and(|bytes| bytes.first() == Some(&b'{'))
}

/// The bearer token of a request (RFC 6750).
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let line = lines.next().ok_or("Missing Authorization header")?;
    let malformed = "Invalid Authorization header format";
    if lines.next().is_some() {
        return Err(malformed);
    }
    let (scheme, token) =
        line.to_str().ok().and_then(|line| line.split_once(' ')).ok_or(malformed)?;
    let token = token.trim();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let body = token.trim_end_matches('=');
    let valid = body.bytes().all(allowed) && !body.is_empty();
    if scheme.eq_ignore_ascii_case("bearer") && valid { Ok(token) } else { Err(malformed) }
}

/// Distinguishes an invalid token from an unavailable provider: a client must not discard its token because the
/// provider is down.
fn invalid_or_unavailable(err: &ProviderError) -> Result<(Validation, Duration), OAuthError> {
    match err {
        ProviderError::Unavailable(_) => {
            tracing::warn!("{err}");
            Err(OAuthError::unavailable("the identity provider is not available"))
        }
        ProviderError::Refused(_) | ProviderError::Invalid(_) => {
            tracing::info!("a token is not valid: {err}");
            Ok((Validation::Invalid, INVALID_TTL))
        }
    }
}
