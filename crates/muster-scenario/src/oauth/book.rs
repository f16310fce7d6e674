//! What a mock provider has given out, and to whom.

use std::{collections::BTreeMap, time::Duration};

use crate::mock::fault::{Fault, FaultKind};

/// Somebody who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// What providers know them by.
    pub subject: String,
    /// Their address.
    pub email: String,
    /// What people call them.
    pub name: String,
    /// What they belong to.
    pub groups: Vec<String>,
}

impl Default for Person {
    fn default() -> Self {
        Self {
            subject: "test-user-123".to_owned(),
            email: "test@example.com".to_owned(),
            name: "Test User".to_owned(),
            groups: vec!["test-group".to_owned()],
        }
    }
}

impl Person {
    /// Somebody else than the default user.
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

/// What somebody allowed a client.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) person: Person,
    pub(super) scope: Vec<String>,
    /// The resources that it is for; none means any.
    pub(super) resources: Vec<String>,
    /// All that comes of one login belongs together.
    pub(super) family: u64,
}

/// An authorization code.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) grant: Grant,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    pub(super) nonce: Option<String>,
    pub(super) expires: Duration,
}

/// A value that servers take as a bearer token.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    pub(super) grant: Grant,
    pub(super) kind: Kind,
    pub(super) audience: Vec<String>,
    pub(super) expires: Duration,
}

/// What kind of token it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Access,
    Id,
}

/// A place where a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Its metadata, in every form.
    Metadata,
    /// Where people agree.
    Authorize,
    /// Where tokens come from.
    Token,
    /// Who a token belongs to.
    Userinfo,
    /// Its keys.
    Jwks,
    /// Where clients register.
    Register,
}

impl Endpoint {
    const ALL: [(&str, Self); 6] = [
        ("metadata", Self::Metadata),
        ("authorize", Self::Authorize),
        ("token", Self::Token),
        ("userinfo", Self::Userinfo),
        ("jwks", Self::Jwks),
        ("register", Self::Register),
    ];

    /// The endpoint of a name such as `token`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, endpoint)| endpoint)
    }
}

/// A client that has registered.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) redirect_uris: Vec<String>,
    pub(super) secret: Option<String>,
}

/// Everything that a provider remembers.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) codes: BTreeMap<String, Code>,
    pub(super) bearers: BTreeMap<String, Bearer>,
    /// Every ID token, also those that servers do not take.
    pub(super) ids: BTreeMap<String, Bearer>,
    pub(super) refreshes: BTreeMap<String, Grant>,
    /// Refresh tokens that were used, and the family that each was of.
    pub(super) spent: BTreeMap<String, u64>,
    pub(super) clients: BTreeMap<String, Registered>,
    pub(super) families: u64,
    /// The error that the token endpoint answers with.
    pub(super) error: Option<String>,
    /// How the answers of an endpoint go wrong.
    pub(super) faults: BTreeMap<Endpoint, Fault>,
    /// How often each thing was asked for.
    pub(super) asked: BTreeMap<&'static str, u64>,
    /// What was refused, in words.
    pub(super) refused: Vec<String>,
}

impl Book {
    /// Takes a refresh token out. A used one ends all that came of its login.
    pub(super) fn spend(&mut self, token: &str) -> Option<Grant> {
        if let Some(family) = self.spent.get(token).copied() {
            self.end_family(family);
            return None;
        }
        let grant = self.refreshes.remove(token)?;
        self.spent.insert(token.to_owned(), grant.family);
        Some(grant)
    }

    fn end_family(&mut self, family: u64) {
        self.bearers.retain(|_, bearer| bearer.grant.family != family);
        self.ids.retain(|_, bearer| bearer.grant.family != family);
        self.refreshes.retain(|_, grant| grant.family != family);
    }

    /// How this answer of an endpoint goes wrong, counted.
    pub(super) fn strike(&mut self, endpoint: Endpoint) -> Option<FaultKind> {
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

    /// Forgets one token, whatever it is.
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
