//! The guard of a protected MCP server: checks bearer tokens and challenges clients.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    config::{Feature, GuardConfig, MetadataPointer},
    provider_state::ProviderState,
    records::{IssuedToken, TokenKind},
};

/// The path of protected resource metadata.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// A guard that accepts the tokens of one provider.
#[derive(Debug, Clone)]
pub struct ResourceGuard {
    state: Arc<ProviderState>,
    config: GuardConfig,
}

/// The response to a rejected request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AuthChallenge {
    pub(crate) status: u16,
    /// The `WWW-Authenticate` header.
    pub(crate) header: String,
}

impl ResourceGuard {
    /// Creates a guard for one provider.
    pub const fn new(state: Arc<ProviderState>, config: GuardConfig) -> Self {
        Self { state, config }
    }

    /// Checks the `Authorization` header of a request to the server at `url`.
    pub(crate) fn check(
        &self,
        authorization: Option<&str>,
        url: &str,
    ) -> Result<(), AuthChallenge> {
        let token = authorization.and_then(bearer);
        let rejection = match token {
            None => TokenRejection::NoToken,
            Some(token) => match self.check_token(token, url) {
                Ok(()) => return Ok(()),
                Err(rejection) => rejection,
            },
        };
        Err(self.challenge(&rejection, url))
    }

    fn check_token(&self, token: &str, url: &str) -> Result<(), TokenRejection> {
        let bearer = self.state.bearer(token).ok_or(TokenRejection::Unknown)?;
        if let Some(wanted) = &self.config.expected_audience
            && !bearer.audience.contains(wanted)
        {
            return Err(TokenRejection::Audience);
        }
        // An ID token has no scopes and no resource.
        let IssuedToken { kind: TokenKind::Access, grant, audience, .. } = bearer else {
            return Ok(());
        };
        let bound = self.state.config().has(Feature::BindResources);
        if bound && !audience.iter().any(|resource| resource == url) {
            return Err(TokenRejection::Audience);
        }
        let wanted = self.config.scope.as_deref().unwrap_or_default();
        match wanted.split_whitespace().all(|wanted| grant.scope.iter().any(|has| has == wanted)) {
            true => Ok(()),
            false => Err(TokenRejection::Scope),
        }
    }

    fn challenge(&self, rejection: &TokenRejection, url: &str) -> AuthChallenge {
        let pointer = match self.config.pointer {
            MetadataPointer::Issuer => Some(format!("{}{WELL_KNOWN}", self.state.issuer())),
            MetadataPointer::Own => {
                split(url).map(|(origin, path)| format!("{origin}{WELL_KNOWN}{path}"))
            }
            MetadataPointer::Absent => None,
        };
        let mut parts: Vec<String> =
            pointer.iter().map(|at| format!("resource_metadata=\"{at}\"")).collect();
        let (status, error) = match rejection {
            TokenRejection::NoToken => (401, None),
            TokenRejection::Unknown => {
                (401, Some(("invalid_token", "unknown, revoked or expired")))
            }
            TokenRejection::Audience => {
                (401, Some(("invalid_token", "issued for another audience")))
            }
            TokenRejection::Scope => (403, Some(("insufficient_scope", "a scope is missing"))),
        };
        if let Some((error, description)) = error {
            parts.push(format!("error=\"{error}\""));
            parts.push(format!("error_description=\"{description}\""));
        }
        if let (TokenRejection::Scope, Some(scope)) = (rejection, &self.config.scope) {
            parts.push(format!("scope=\"{scope}\""));
        }
        let header = format!("Bearer {}", parts.join(", ")).trim_end().to_owned();
        AuthChallenge { status, header }
    }

    /// The metadata document of the server at `url`, if it is served at `path`.
    pub(crate) fn document(&self, path: &str, url: &str) -> Option<Value> {
        let place = match (self.config.pointer, split(url)) {
            (MetadataPointer::Own, Some((_, below))) => format!("{WELL_KNOWN}{below}"),
            (_, _) => WELL_KNOWN.to_owned(),
        };
        if path != place {
            return None;
        }
        let mut document = json!({
            "resource": url,
            "authorization_servers": [self.state.issuer()],
            "bearer_methods_supported": ["header"],
        });
        if let (Some(document), Some(scope)) = (document.as_object_mut(), &self.config.scope) {
            let scopes: Vec<&str> = scope.split_whitespace().collect();
            document.insert("scopes_supported".to_owned(), json!(scopes));
        }
        Some(document)
    }
}

enum TokenRejection {
    NoToken,
    Unknown,
    Audience,
    Scope,
}

/// The bearer token in an `Authorization` header.
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Splits a URL into origin and path.
fn split(url: &str) -> Option<(&str, &str)> {
    let after = url.find("://")? + 3;
    let slash = url.get(after..)?.find('/')? + after;
    url.split_at_checked(slash)
}
