//! What a mock provider has issued and counted.

use std::{collections::BTreeMap, time::Duration};

use crate::mock::fault::{Fault, FaultKind};

/// A user who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// The `sub` claim.
    pub subject: String,
    /// The `email` claim.
    pub email: String,
    /// The `name` claim.
    pub name: String,
    /// The `groups` claim.
    pub groups: Vec<String>,
}

impl Default for UserIdentity {
    fn default() -> Self {
        Self {
            subject: "test-user-123".to_owned(),
            email: "test@example.com".to_owned(),
            name: "Test User".to_owned(),
            groups: vec!["test-group".to_owned()],
        }
    }
}

impl UserIdentity {
    /// An identity derived from a name, distinct from the default.
    pub fn named(name: &str) -> Self {
        let word: String = name.chars().filter(|c| !c.is_whitespace()).collect();
        Self {
            subject: format!("test-user-{word}"),
            email: format!("{word}@example.com"),
            name: name.to_owned(),
            groups: Self::default().groups,
        }
    }
}

/// The authorization that a user granted to a client.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) identity: UserIdentity,
    pub(super) scope: Vec<String>,
    /// The resources it is bound to; empty for any.
    pub(super) resources: Vec<String>,
    /// The token family: all tokens that descend from one login.
    pub(super) family: u64,
}

/// An authorization code.
#[derive(Debug, Clone)]
pub(super) struct AuthorizationCode {
    pub(super) grant: Grant,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    pub(super) nonce: Option<String>,
    pub(super) expires: Duration,
}

/// An issued access or ID token.
#[derive(Debug, Clone)]
pub(super) struct IssuedToken {
    pub(super) grant: Grant,
    pub(super) kind: TokenKind,
    pub(super) audience: Vec<String>,
    pub(super) expires: Duration,
}

/// The kind of an issued token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Access,
    Id,
}

/// An endpoint of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderEndpoint {
    /// The metadata documents.
    Metadata,
    /// The authorization endpoint.
    Authorize,
    /// The token endpoint.
    Token,
    /// The userinfo endpoint.
    Userinfo,
    /// The JWKS endpoint.
    Jwks,
    /// The registration endpoint.
    Register,
}

impl ProviderEndpoint {
    const ALL: [(&str, Self); 6] = [
        ("metadata", Self::Metadata),
        ("authorize", Self::Authorize),
        ("token", Self::Token),
        ("userinfo", Self::Userinfo),
        ("jwks", Self::Jwks),
        ("register", Self::Register),
    ];

    /// The endpoint with a name such as `token`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, endpoint)| endpoint)
    }
}

/// A dynamically registered client.
#[derive(Debug, Clone)]
pub(super) struct RegisteredClient {
    pub(super) redirect_uris: Vec<String>,
    pub(super) secret: Option<String>,
}

/// The mutable state of a provider.
#[derive(Debug, Default)]
pub(super) struct ProviderRecords {
    pub(super) codes: BTreeMap<String, AuthorizationCode>,
    pub(super) bearers: BTreeMap<String, IssuedToken>,
    /// Every ID token, including those that servers do not accept.
    pub(super) ids: BTreeMap<String, IssuedToken>,
    pub(super) refreshes: BTreeMap<String, Grant>,
    /// Used refresh tokens and their families.
    pub(super) spent: BTreeMap<String, u64>,
    pub(super) clients: BTreeMap<String, RegisteredClient>,
    pub(super) families: u64,
    /// The simulated error of the token endpoint.
    pub(super) error: Option<String>,
    /// Faults by endpoint.
    pub(super) faults: BTreeMap<ProviderEndpoint, Fault>,
    /// Requests by kind.
    pub(super) request_counts: BTreeMap<&'static str, u64>,
    /// Descriptions of rejected requests.
    pub(super) rejections: Vec<String>,
}

impl ProviderRecords {
    /// Redeems a refresh token. Reuse revokes its whole family.
    pub(super) fn redeem_refresh_token(&mut self, token: &str) -> Option<Grant> {
        if let Some(family) = self.spent.get(token).copied() {
            self.revoke_family(family);
            return None;
        }
        let grant = self.refreshes.remove(token)?;
        self.spent.insert(token.to_owned(), grant.family);
        Some(grant)
    }

    fn revoke_family(&mut self, family: u64) {
        self.bearers.retain(|_, bearer| bearer.grant.family != family);
        self.ids.retain(|_, bearer| bearer.grant.family != family);
        self.refreshes.retain(|_, grant| grant.family != family);
    }

    /// The fault to inject into this response, counted against its limit.
    pub(super) fn next_fault(&mut self, endpoint: ProviderEndpoint) -> Option<FaultKind> {
        let fault = self.faults.get_mut(&endpoint)?;
        match &mut fault.times {
            None => Some(fault.kind),
            Some(0) => None,
            Some(times) => {
                *times -= 1;
                Some(fault.kind)
            }
        }
    }

    /// Revokes one token of any kind.
    pub(super) fn revoke(&mut self, token: &str) -> bool {
        let bearer = self.bearers.remove(token).is_some();
        let id = self.ids.remove(token).is_some();
        let refresh = self.refreshes.remove(token).is_some();
        bearer || id || refresh
    }

    /// Forgets all tokens. How many there were.
    pub(super) fn revoke_all(&mut self) -> usize {
        let count = self.bearers.len() + self.refreshes.len();
        self.bearers.clear();
        self.ids.clear();
        self.refreshes.clear();
        count
    }
}
