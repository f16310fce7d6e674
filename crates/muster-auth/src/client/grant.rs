//! A grant: the tokens that one issuer gave one owner.

use std::collections::BTreeMap;

use muster_core::credentials::BearerToken;
use serde::{Deserialize, Serialize};

use crate::{
    oauth::{ClientIdentity, TokenResponse},
    secret::Secret,
};

/// A token is refreshed 5 minutes before it expires, or at half of its lifetime, whichever is later.
const REFRESH_BEFORE: u64 = 5 * 60;
/// A token is no longer sent 30 seconds before it expires, or in the last tenth of its lifetime, whichever is later.
const MARGIN: u64 = 30;
/// The lifetime in seconds that is assumed if the issuer names none.
const DEFAULT_LIFETIME: u64 = 3600;
/// How many refresh tokens of earlier logins are remembered for revocation.
const MAX_SUPERSEDED: usize = 8;

/// The tokens that one issuer gave one owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) identity: ClientIdentity,
    pub(super) scope: String,
    /// The refresh token of the last login.
    pub(super) refresh: Option<Secret>,
    /// Refresh tokens of earlier logins that are unused and not yet revoked.
    #[serde(default, rename = "past")]
    pub(super) superseded: Vec<Secret>,
    pub(super) id: Option<Secret>,
    /// Access tokens by resource. They stay after they expire, as a record of where the owner logged in.
    pub(super) access: BTreeMap<String, AccessToken>,
}

/// An access token for one resource.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AccessToken {
    pub(super) token: Secret,
    /// In seconds since 1970.
    #[serde(rename = "ends")]
    expires: u64,
    lifetime: u64,
    /// The refresh token, if it did not come with the last login.
    #[serde(default)]
    pub(super) refresh: Option<Secret>,
    /// The server that the owner logged in to; none if another server's login was shared.
    #[serde(default)]
    pub(super) server: Option<String>,
}

impl AccessToken {
    /// Whether the token does not need a refresh yet.
    pub(super) fn is_fresh(&self, now: u64) -> bool {
        now + REFRESH_BEFORE.min(self.lifetime / 2) < self.expires
    }

    /// Whether the token may still be sent.
    pub(super) fn is_valid(&self, now: u64) -> bool {
        now + MARGIN.min(self.lifetime / 10) < self.expires
    }

    pub(super) fn bearer(&self) -> BearerToken {
        BearerToken::new(self.token.reveal().as_str())
    }
}

impl Grant {
    /// Adds the tokens of a response. Those that the issuer left out stay as they are.
    pub(super) fn update(&mut self, resource: &str, response: TokenResponse, now: u64) {
        let TokenResponse { access_token, refresh_token, id_token, scope, expires_in } = response;
        let lifetime = expires_in.unwrap_or(DEFAULT_LIFETIME);
        let expires = now.saturating_add(lifetime);
        let before = self.access.remove(resource);
        let server = before.as_ref().and_then(|before| before.server.clone());
        let mut token =
            AccessToken { token: access_token, expires, lifetime, refresh: None, server };
        match before.and_then(|before| before.refresh) {
            Some(used) => {
                let next = refresh_token.unwrap_or_else(|| used.clone());
                // A refresh token can be used only once: replace it for all resources that share it.
                let sharing =
                    self.access.values_mut().filter(|other| other.refresh.as_ref() == Some(&used));
                sharing.for_each(|other| other.refresh = Some(next.clone()));
                token.refresh = Some(next);
            }
            None => self.refresh = refresh_token.or_else(|| self.refresh.take()),
        }
        self.access.insert(resource.to_owned(), token);
        self.id = id_token.or_else(|| self.id.take());
        if let Some(scope) = scope.filter(|scope| !scope.is_empty()) {
            self.scope = scope;
        }
    }

    /// The resources of logins to a server from before its address changed.
    pub(super) fn former_resources(&self, server: &str, resource: &str) -> Vec<String> {
        let is_former = |(known, token): &(&String, &AccessToken)| {
            *known != resource && token.server.as_deref() == Some(server)
        };
        self.access.iter().filter(is_former).map(|(known, _)| known.clone()).collect()
    }

    /// The refresh token for a resource.
    pub(super) fn refresh_for(&self, resource: &str) -> Option<&Secret> {
        let own = self.access.get(resource).and_then(|token| token.refresh.as_ref());
        own.or(self.refresh.as_ref())
    }

    /// Adopts the tokens that an earlier login has for other resources, so that logins at two servers of one
    /// issuer do not end each other.
    pub(super) fn merge_earlier(&mut self, earlier: Self) {
        let Self { refresh, superseded, access, .. } = earlier;
        self.superseded = superseded;
        let mut used = false;
        for (resource, mut token) in access {
            if self.access.contains_key(&resource) {
                self.superseded.extend(token.refresh);
                continue;
            }
            used |= token.refresh.is_none();
            token.refresh = token.refresh.or_else(|| refresh.clone());
            self.access.insert(resource, token);
        }
        self.superseded.extend(refresh.filter(|_| !used));
        let mut distinct = Vec::new();
        for secret in std::mem::take(&mut self.superseded) {
            if Some(&secret) != self.refresh.as_ref() && !distinct.contains(&secret) {
                distinct.push(secret);
            }
        }
        distinct.drain(..distinct.len().saturating_sub(MAX_SUPERSEDED));
        self.superseded = distinct;
    }

    /// All refresh tokens, each once, for revocation.
    pub(super) fn refresh_tokens(&self) -> Vec<&Secret> {
        let own = self.access.values().filter_map(|token| token.refresh.as_ref());
        let mut all: Vec<&Secret> = Vec::new();
        for secret in self.refresh.iter().chain(own).chain(&self.superseded) {
            if !all.contains(&secret) {
                all.push(secret);
            }
        }
        all
    }
}
