//! The door of a protected MCP server: who may come in, and what the others are told.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    book::{Bearer, Kind},
    config::{Feature, GuardConfig, Pointer},
    core::Core,
};

/// Where such a document is, at the root of a server.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The door.
#[derive(Debug, Clone)]
pub struct Door {
    core: Arc<Core>,
    rule: GuardConfig,
}

/// What somebody is told who may not come in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) status: u16,
    /// The `WWW-Authenticate` header.
    pub(crate) header: String,
}

impl Door {
    /// A door that takes the tokens of one provider.
    pub const fn new(core: Arc<Core>, rule: GuardConfig) -> Self {
        Self { core, rule }
    }

    /// Looks at the `Authorization` header of a request to the server at `url`.
    pub(crate) fn check(&self, authorization: Option<&str>, url: &str) -> Result<(), Challenge> {
        let token = authorization.and_then(bearer);
        let refused = match token {
            None => Refused::NoToken,
            Some(token) => match self.judge(token, url) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            },
        };
        Err(self.challenge(&refused, url))
    }

    fn judge(&self, token: &str, url: &str) -> Result<(), Refused> {
        let bearer = self.core.bearer(token).ok_or(Refused::Unknown)?;
        if let Some(wanted) = &self.rule.expected_audience
            && !bearer.audience.contains(wanted)
        {
            return Err(Refused::Audience);
        }
        // An ID token says who somebody is, not what for; it has no scopes and no resource.
        let Bearer { kind: Kind::Access, grant, audience, .. } = bearer else { return Ok(()) };
        let bound = self.core.config().has(Feature::BindResources);
        if bound && !audience.iter().any(|resource| resource == url) {
            return Err(Refused::Audience);
        }
        let wanted = self.rule.scope.as_deref().unwrap_or_default();
        match wanted.split_whitespace().all(|wanted| grant.scope.iter().any(|has| has == wanted)) {
            true => Ok(()),
            false => Err(Refused::Scope),
        }
    }

    fn challenge(&self, refused: &Refused, url: &str) -> Challenge {
        let pointer = match self.rule.pointer {
            Pointer::Issuer => Some(format!("{}{WELL_KNOWN}", self.core.issuer())),
            Pointer::Own => split(url).map(|(origin, path)| format!("{origin}{WELL_KNOWN}{path}")),
            Pointer::Absent => None,
        };
        let mut parts: Vec<String> =
            pointer.iter().map(|at| format!("resource_metadata=\"{at}\"")).collect();
        let (status, error) = match refused {
            Refused::NoToken => (401, None),
            Refused::Unknown => (401, Some(("invalid_token", "unknown, revoked or expired"))),
            Refused::Audience => (401, Some(("invalid_token", "meant for somebody else"))),
            Refused::Scope => (403, Some(("insufficient_scope", "a scope is missing"))),
        };
        if let Some((error, description)) = error {
            parts.push(format!("error=\"{error}\""));
            parts.push(format!("error_description=\"{description}\""));
        }
        if let (Refused::Scope, Some(scope)) = (refused, &self.rule.scope) {
            parts.push(format!("scope=\"{scope}\""));
        }
        let header = format!("Bearer {}", parts.join(", ")).trim_end().to_owned();
        Challenge { status, header }
    }

    /// The document about the server at `url`, if it is found at `path`.
    pub(crate) fn document(&self, path: &str, url: &str) -> Option<Value> {
        let place = match (self.rule.pointer, split(url)) {
            (Pointer::Own, Some((_, below))) => format!("{WELL_KNOWN}{below}"),
            (_, _) => WELL_KNOWN.to_owned(),
        };
        if path != place {
            return None;
        }
        let mut document = json!({
            "resource": url,
            "authorization_servers": [self.core.issuer()],
            "bearer_methods_supported": ["header"],
        });
        if let (Some(document), Some(scope)) = (document.as_object_mut(), &self.rule.scope) {
            let scopes: Vec<&str> = scope.split_whitespace().collect();
            document.insert("scopes_supported".to_owned(), json!(scopes));
        }
        Some(document)
    }
}

enum Refused {
    NoToken,
    Unknown,
    Audience,
    Scope,
}

/// The token out of an `Authorization` header.
pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Origin and path of an address.
fn split(url: &str) -> Option<(&str, &str)> {
    let after = url.find("://")? + 3;
    let slash = url.get(after..)?.find('/')? + after;
    url.split_at_checked(slash)
}
