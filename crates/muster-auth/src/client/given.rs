//! What someone was given by one issuer: tokens for servers, and what they are renewed with.

use std::collections::BTreeMap;

use muster_core::credentials::BearerToken;
use serde::{Deserialize, Serialize};

use super::{grants::Tokens, identity::Identity};
use crate::secret::Secret;

/// A token is renewed when less than this is left of it, or half of a shorter life.
const RENEW: u64 = 5 * 60;
/// A token is not sent any more when less than this is left of it, or a tenth of a shorter life.
const MARGIN: u64 = 30;
/// No more tokens of past logins than this are remembered.
const PAST: usize = 8;

/// What someone was given by one issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) identity: Identity,
    pub(super) scope: String,
    /// Of the last login.
    pub(super) refresh: Option<Secret>,
    /// Of logins before, which nobody uses any more and the issuer has not been told of.
    #[serde(default)]
    pub(super) past: Vec<Secret>,
    pub(super) id: Option<Secret>,
    /// By what they are made for; kept beyond their end, as word of where the person has been.
    pub(super) access: BTreeMap<String, Token>,
}

/// A token for one resource.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) token: Secret,
    /// In seconds since 1970.
    ends: u64,
    lifetime: u64,
    /// What it is renewed with, if that came of another login than the last one.
    #[serde(default)]
    pub(super) refresh: Option<Secret>,
}

impl Token {
    pub(super) fn is_fresh(&self, now: u64) -> bool {
        now + RENEW.min(self.lifetime / 2) < self.ends
    }

    pub(super) fn is_good(&self, now: u64) -> bool {
        now + MARGIN.min(self.lifetime / 10) < self.ends
    }

    pub(super) fn bearer(&self) -> BearerToken {
        BearerToken::new(self.token.reveal().as_str())
    }
}

impl Grant {
    /// Takes in what the issuer gave. What it did not give again stays.
    pub(super) fn take(&mut self, resource: &str, tokens: Tokens, now: u64) {
        let Tokens { access, refresh, id, scope, lifetime } = tokens;
        let mut token =
            Token { token: access, ends: now.saturating_add(lifetime), lifetime, refresh: None };
        match self.access.remove(resource).and_then(|before| before.refresh) {
            Some(before) => {
                let next = refresh.unwrap_or_else(|| before.clone());
                // It is good for one use, whoever has it.
                let sharing = self
                    .access
                    .values_mut()
                    .filter(|other| other.refresh.as_ref() == Some(&before));
                sharing.for_each(|other| other.refresh = Some(next.clone()));
                token.refresh = Some(next);
            }
            None => self.refresh = refresh.or_else(|| self.refresh.take()),
        }
        self.access.insert(resource.to_owned(), token);
        self.id = id.or_else(|| self.id.take());
        if let Some(scope) = scope.filter(|scope| !scope.is_empty()) {
            self.scope = scope;
        }
    }

    /// What a token for a resource is renewed with.
    pub(super) fn refresh_for(&self, resource: &str) -> Option<&Secret> {
        let own = self.access.get(resource).and_then(|token| token.refresh.as_ref());
        own.or(self.refresh.as_ref())
    }

    /// Takes over what a login before gave for other resources: servers of one issuer do not end each
    /// other's logins.
    pub(super) fn follow(&mut self, before: Self) {
        let Self { refresh, past, access, .. } = before;
        self.past = past;
        let mut used = false;
        for (resource, mut token) in access {
            let again = self.access.contains_key(&resource);
            used |= !again && token.refresh.is_none();
            if again {
                self.past.extend(token.refresh);
                continue;
            }
            token.refresh = token.refresh.or_else(|| refresh.clone());
            self.access.insert(resource, token);
        }
        self.past.extend(refresh.filter(|_| !used));
        let mut kept = Vec::new();
        for secret in std::mem::take(&mut self.past) {
            if Some(&secret) != self.refresh.as_ref() && !kept.contains(&secret) {
                kept.push(secret);
            }
        }
        kept.drain(..kept.len().saturating_sub(PAST));
        self.past = kept;
    }

    /// Everything that an issuer can be asked to take back, each once.
    pub(super) fn refreshes(&self) -> Vec<&Secret> {
        let own = self.access.values().filter_map(|token| token.refresh.as_ref());
        let mut all: Vec<&Secret> = Vec::new();
        for secret in self.refresh.iter().chain(own).chain(&self.past) {
            if !all.contains(&secret) {
                all.push(secret);
            }
        }
        all
    }
}
