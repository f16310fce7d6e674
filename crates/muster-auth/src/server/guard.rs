//! From the headers of a request to a principal, or to a refusal that says how to become one.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    credentials::{BearerToken, IdTokenSource, Principal},
    logins::LoginError,
};
use tokio::time::Instant;

use super::{
    Inner,
    cache::{Digest, Judged},
    logins::{LoginTokens, Token, access_key, last_key},
    provider::{Identity, ProviderError},
    reply::{self, Failure, Reply},
};
use crate::{
    jwks::{Keys, KeysError},
    jwt::{Claims, Expected, Jwt},
    random,
};

/// How long a token of ours is not looked up again where others may take it back.
const SHARED: Duration = Duration::from_secs(5);
/// And where only we do, and forget it then.
const ALONE: Duration = Duration::from_secs(60);
/// How long the provider's word on a token of its own is taken: it may take the token back at any
/// moment, and only it knows.
const FOREIGN: Duration = Duration::ZERO;
/// How long a bad token stays bad.
const BAD: Duration = Duration::from_secs(10);

/// Someone else whose signed tokens are taken.
#[derive(Debug)]
pub(super) struct TrustedKeys {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) keys: Keys,
}

impl Inner {
    /// Who sent a request.
    pub(super) async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
    ) -> Result<Arc<Principal>, Reply> {
        let token = bearer(headers).map_err(|reason| self.challenge(reason))?;
        let digest = random::sha256(token.as_bytes());
        let judged = match self.cache.get(&digest) {
            Some(judged) => Ok(judged),
            None => Box::pin(self.judge(token, digest)).await,
        };
        match judged {
            Ok(Judged::Good(principal)) => Ok(principal),
            Ok(Judged::Bad) => Err(self.challenge("Token validation failed")),
            Err(failure) => Err(reply::failure(&failure)),
        }
    }

    /// Judges a token. Of many who come with it at once, few have to look.
    async fn judge(self: &Arc<Self>, token: &str, digest: Digest) -> Result<Judged, Failure> {
        let came = Instant::now();
        let _validating = self.locks.lock(&random::base64url(&digest)).await;
        let known = self.cache.get(&digest).or_else(|| self.cache.found_since(&digest, came));
        if let Some(judged) = known {
            return Ok(judged);
        }
        let begun = Instant::now();
        let (judged, keep) = match self.own(token).await? {
            Some(found) => found,
            None => self.foreign(token).await?,
        };
        self.cache.put(digest, judged.clone(), begun, keep);
        Ok(judged)
    }

    /// A token that we issued.
    async fn own(self: &Arc<Self>, token: &str) -> Result<Option<(Judged, Duration)>, Failure> {
        let Some(held) = self.vault.get::<Token>(&access_key(token)).await? else {
            return Ok(None);
        };
        let left = held.until.saturating_sub(self.clock.now());
        let Some(login) = self.login(&held.login).await?.filter(|_| left > 0) else {
            return Ok(Some((Judged::Bad, BAD)));
        };
        let keep = if self.vault.is_shared() { SHARED } else { ALONE };
        let keep = keep.min(Duration::from_secs(left));
        Ok(Some((Judged::Good(Arc::new(self.principal(&login))), keep)))
    }

    /// A token of the provider, or of someone else who is trusted.
    async fn foreign(self: &Arc<Self>, token: &str) -> Result<(Judged, Duration), Failure> {
        let signed = match Jwt::read(token) {
            Some(signed) => signed,
            None if is_signed(token) => return Ok((Judged::Bad, BAD)),
            None => return self.opaque(token).await,
        };
        let issuer = signed.claimed_issuer().trim_end_matches('/').to_owned();
        if issuer == self.provider.config.issuer.trim_end_matches('/') {
            // Not our own client id: that is whom ID tokens are for which servers are shown. One of those
            // would let each of these servers in here, as everybody who uses it.
            let audiences = &self.config.trusted_audiences;
            return match self.provider.claims(token, audiences, None).await {
                Ok(claims) => Ok(self.signed(&issuer, claims, Some(token))),
                Err(err) => bad_or_later(&err),
            };
        }
        let trusted = self.trusted.iter().find(|one| one.issuer.trim_end_matches('/') == issuer);
        let Some(trusted) = trusted else { return Ok((Judged::Bad, BAD)) };
        let expected = Expected {
            issuer: &trusted.issuer,
            audiences: &trusted.audiences,
            nonce: None,
            now: self.clock.now(),
        };
        match trusted.keys.verify(token, &expected).await {
            Ok(claims) => Ok(self.signed(&issuer, claims, None)),
            Err(KeysError::Token(reason)) => {
                tracing::info!("a token of `{issuer}` is not taken: {reason}");
                Ok((Judged::Bad, BAD))
            }
            Err(err @ (KeysError::Dial(_) | KeysError::Document)) => {
                tracing::warn!("{err}");
                Err(Failure::later("the issuer of the token is not available"))
            }
        }
    }

    /// An access token of the provider, which only the provider can read.
    async fn opaque(self: &Arc<Self>, token: &str) -> Result<(Judged, Duration), Failure> {
        let _place = self.asking.acquire().await;
        let identity = match self.provider.user_info(token).await {
            Ok(identity) => identity,
            Err(err) => return bad_or_later(&err),
        };
        let mut principal = foreigner(&self.provider.config.issuer, identity);
        // Their own last login here has proof that others take, now or later.
        let proof = LoginTokens::of_person(self, Arc::clone(&principal.id));
        principal.identity = Some(Arc::new(proof));
        if let Some(login) = self.vault.get::<String>(&last_key(&principal.id)).await? {
            principal.login = login.as_str().into();
        }
        Ok((Judged::Good(Arc::new(principal)), FOREIGN))
    }

    /// Someone with a token that was signed; one of the provider is proof for others as well.
    fn signed(&self, issuer: &str, claims: Claims, proof: Option<&str>) -> (Judged, Duration) {
        let left = Duration::from_secs(claims.end().saturating_sub(self.clock.now()));
        let mut principal = foreigner(issuer, claims.into());
        principal.identity =
            proof.map(|token| Arc::new(Shown(BearerToken::new(token))) as Arc<dyn IdTokenSource>);
        (Judged::Good(Arc::new(principal)), left.min(ALONE))
    }

    /// Tells a client how to become someone.
    fn challenge(&self, reason: &str) -> Reply {
        let failure = Failure::new(StatusCode::UNAUTHORIZED, "invalid_token", reason);
        let mut reply = reply::failure(&failure);
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

/// Someone who has no login here.
fn foreigner(issuer: &str, identity: Identity) -> Principal {
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
    }
}

/// A token that was shown to us and may be shown on.
#[derive(Debug)]
struct Shown(BearerToken);

impl IdTokenSource for Shown {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(std::future::ready(Ok(Some(self.0.clone()))))
    }
}

/// Whether a token is in parts of which the first is an object, so that it is for us to read. The provider
/// may be more lenient about how it is written, and does not know whom we take it from.
fn is_signed(token: &str) -> bool {
    let begins = token.get(..2).and_then(|two| random::from_base64url(&format!("{two}A")));
    token.matches('.').count() >= 2 && begins.is_some_and(|bytes| bytes.first() == Some(&b'{'))
}

/// The token that a request carries, of letters that tokens are made of (RFC 6750).
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
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let body = token.trim_end_matches('=');
    let fine = body.bytes().all(is_part) && !body.is_empty();
    if scheme.eq_ignore_ascii_case("bearer") && fine { Ok(token) } else { Err(malformed) }
}

/// A provider that is away says nothing about a token: the client must not throw it away.
fn bad_or_later(err: &ProviderError) -> Result<(Judged, Duration), Failure> {
    match err {
        ProviderError::Away(_) => {
            tracing::warn!("{err}");
            Err(Failure::later("the identity provider is not available"))
        }
        ProviderError::Refused(_) | ProviderError::Wrong(_) => {
            tracing::info!("a token is not taken: {err}");
            Ok((Judged::Bad, BAD))
        }
    }
}
