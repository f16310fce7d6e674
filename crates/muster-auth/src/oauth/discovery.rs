//! Discovery: which issuer issues the tokens for a server, and what it supports.

use http::StatusCode;
use muster_net::{AddressPolicy, HttpClient, HttpRequest, Url};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{BearerChallenge, IssuerMetadata, ResourceMetadata, well_known};
use crate::text::printable;

/// The maximum number of redirects to follow: metadata documents may have moved.
const MAX_REDIRECTS: u8 = 3;

/// Why no issuer can be used for a server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DiscoveryError {
    /// No issuer was found.
    #[error("{0}")]
    NoIssuer(String),
    /// The metadata that was found must not be trusted.
    #[error("{0}")]
    Untrusted(String),
}

/// The issuer for a server, and what to request there.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// The issuer's metadata.
    pub issuer: IssuerMetadata,
    /// The scopes that the server asks for; empty if it names none.
    pub scope: String,
    /// The resource to request tokens for (RFC 8707).
    pub resource: String,
}

/// Fetches and checks metadata documents.
#[derive(Debug, Clone, Copy)]
pub struct MetadataFetcher<'a> {
    /// Sends the requests.
    pub http: &'a HttpClient,
    /// Which networks the documents may be in.
    pub policy: AddressPolicy,
}

impl MetadataFetcher<'_> {
    /// Finds the issuer for the server at `url`, which sent `challenge`. A `pinned` issuer is configured by the
    /// operator and takes precedence over the one that the server names.
    pub async fn discover(
        &self,
        url: &str,
        challenge: &BearerChallenge,
        pinned: Option<&str>,
    ) -> Result<Discovered, DiscoveryError> {
        let server = Url::parse(url).map_err(|err| DiscoveryError::NoIssuer(err.to_string()))?;
        let (resource, mut reasons) = match pinned {
            Some(_) => (None, Vec::new()),
            None => self.resource(challenge, &server).await?,
        };
        let resource = resource.unwrap_or_default();
        let named = pinned.or(resource.authorization_servers.first().map(String::as_str));
        // A server of protocol version 2025-03-26 is its own issuer.
        let origin = server.origin();
        let name = named.or(challenge.issuer_hint()).unwrap_or(&origin);
        let issuer = match (self.issuer(name).await, named) {
            (Err(DiscoveryError::NoIssuer(reason)), None) => {
                reasons.push(reason);
                return Err(DiscoveryError::NoIssuer(reasons.join("; ")));
            }
            (issuer, _) => issuer?,
        };
        let scope = challenge.scope.clone();
        Ok(Discovered {
            issuer,
            scope: scope.unwrap_or_else(|| resource.scopes_supported.join(" ")),
            resource: resource.resource.unwrap_or_else(|| url.to_owned()),
        })
    }

    /// Fetches the metadata of an issuer, and checks that it may be used.
    pub async fn issuer(&self, issuer: &str) -> Result<IssuerMetadata, DiscoveryError> {
        let url = Url::parse(issuer).map_err(|_| {
            DiscoveryError::NoIssuer(format!("`{}` is not an issuer URL", printable(issuer)))
        })?;
        let mut reasons = Vec::new();
        for candidate in well_known::issuer_metadata_urls(&url) {
            match self.document(&candidate).await {
                Ok(metadata) => return check(metadata, issuer),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.dedup();
        Err(DiscoveryError::NoIssuer(reasons.join("; ")))
    }

    /// Fetches the protected resource metadata of a server. Also returns why other candidate URLs were skipped.
    async fn resource(
        &self,
        challenge: &BearerChallenge,
        server: &Url,
    ) -> Result<(Option<ResourceMetadata>, Vec<String>), DiscoveryError> {
        let named = challenge.resource_metadata.as_deref();
        let mut reasons = Vec::new();
        for candidate in well_known::resource_metadata_urls(named, server) {
            let metadata: ResourceMetadata = match self.document(&candidate).await {
                Ok(metadata) => metadata,
                Err(reason) => {
                    reasons.push(reason);
                    continue;
                }
            };
            let other = metadata.resource.as_deref();
            let other = other.filter(|own| !well_known::covers_server(own, server.as_str()));
            if let Some(other) = other {
                return Err(DiscoveryError::Untrusted(format!(
                    "the server describes itself as `{}`, which is another resource: a token for it \
                     could be used elsewhere",
                    printable(other)
                )));
            }
            if metadata.authorization_servers.is_empty() {
                reasons.push("the metadata of the resource names no issuer".to_owned());
                continue;
            }
            return Ok((Some(metadata), reasons));
        }
        Ok((None, reasons))
    }

    async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        let request = HttpRequest::get(url, self.policy).redirects(MAX_REDIRECTS);
        let response = self.http.send(request).await.map_err(|err| err.to_string())?;
        let origin = Url::parse(url).map(|url| url.origin()).unwrap_or_default();
        if response.status != StatusCode::OK {
            let status = response.status.as_u16();
            return Err(format!("`{origin}` has no metadata (status {status})"));
        }
        serde_json::from_slice(&response.body)
            .map_err(|_| format!("the metadata at `{origin}` cannot be read"))
    }
}

/// Checks that the metadata belongs to the issuer, and that logins at the issuer are safe.
fn check(metadata: IssuerMetadata, issuer: &str) -> Result<IssuerMetadata, DiscoveryError> {
    let untrusted = |reason: String| Err(DiscoveryError::Untrusted(reason));
    let name = printable(issuer);
    if !well_known::same_issuer(&metadata.issuer, issuer) {
        return untrusted(format!(
            "the issuer `{name}` describes itself as `{}`: it may be an impostor",
            printable(&metadata.issuer)
        ));
    }
    if !metadata.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return untrusted(format!(
            "the issuer `{name}` does not support PKCE with S256, without which a login could be stolen"
        ));
    }
    for endpoint in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
        if !Url::parse(endpoint).is_ok_and(|url| url.is_secure() || url.is_loopback()) {
            return untrusted(format!("an endpoint of the issuer `{name}` does not use TLS"));
        }
    }
    Ok(metadata)
}
