//! Finding out who issues tokens for a server.

use http::StatusCode;
use muster_core::logins::{LoginError, ProtectedServer};
use muster_net::{HttpError, HttpRequest};
use serde::de::DeserializeOwned;

use super::{
    Client,
    challenge::Challenge,
    documents,
    places::{self, Place},
};

/// Documents may move, but not around the world.
const REDIRECTS: u8 = 3;

/// Who issues tokens for a server, and what is to be asked for.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) issuer: documents::Server,
    /// Nothing where nobody says what is wanted.
    pub(super) scope: String,
    /// What tokens are to be made for.
    pub(super) resource: String,
}

/// What came of asking for a document.
enum Asked<T> {
    Found(T),
    Missing(String),
}

impl Client {
    /// Asks the server and its issuer.
    pub(super) async fn discover(&self, site: &ProtectedServer) -> Result<Found, LoginError> {
        let none = |what: &str| LoginError::UnknownIssuer(what.to_owned());
        let server = Place::parse(&site.url).ok_or_else(|| none("its address cannot be read"))?;
        let challenge = Challenge::parse(site.challenge.as_deref().unwrap_or_default());
        // Whoever runs the gateway knows better than the server.
        let pin = site.auth.authorization_server.as_ref().filter(|pin| !pin.issuer.is_empty());
        let (resource, reasons) = match pin {
            Some(_) => (None, Vec::new()),
            None => self.resource(&challenge, &server, &site.url).await?,
        };
        let resource = resource.unwrap_or_default();
        let pinned = pin.map(|pin| pin.issuer.as_str());
        let named = pinned.or(resource.authorization_servers.first().map(String::as_str));
        let realm = challenge.realm.as_deref().filter(|realm| Place::parse(realm).is_some());
        // Servers of 2025-03-26 are their own issuers.
        let name = named.or(realm).unwrap_or(&server.origin);
        let issuer = match (self.issuer_document(name).await, named) {
            (Err(LoginError::UnknownIssuer(reason)), None) => {
                let reasons = [reasons, vec![reason]].concat().join("; ");
                return Err(LoginError::UnknownIssuer(reasons));
            }
            (issuer, _) => issuer?,
        };
        check(&issuer, name)?;
        let scope = match pin.map(|pin| pin.scopes.trim()).filter(|scopes| !scopes.is_empty()) {
            Some(scopes) => scopes.to_owned(),
            None => challenge.scope.unwrap_or_else(|| resource.scopes_supported.join(" ")),
        };
        let resource = resource.resource.unwrap_or_else(|| site.url.clone());
        Ok(Found { issuer, scope, resource })
    }

    /// What the server says about itself as a resource, or why nothing was found.
    async fn resource(
        &self,
        challenge: &Challenge,
        server: &Place,
        url: &str,
    ) -> Result<(Option<documents::Resource>, Vec<String>), LoginError> {
        let named = challenge.resource_metadata.as_deref();
        let mut reasons = Vec::new();
        for place in places::resource_documents(named, server) {
            let document: documents::Resource = match self.document(&place).await {
                Asked::Found(document) => document,
                Asked::Missing(reason) => {
                    reasons.push(reason);
                    continue;
                }
            };
            let resource = document.resource.as_deref();
            if let Some(resource) = resource.filter(|own| !places::speaks_for(own, url)) {
                return Err(LoginError::Refused(format!(
                    "the server describes itself as `{}`, which is another resource: a token for it \
                     would be good for somebody else",
                    clean(resource)
                )));
            }
            if document.authorization_servers.is_empty() {
                reasons.push("the description of the resource names no issuer".to_owned());
                continue;
            }
            return Ok((Some(document), reasons));
        }
        Ok((None, reasons))
    }

    async fn issuer_document(&self, name: &str) -> Result<documents::Server, LoginError> {
        let place = Place::parse(name)
            .ok_or_else(|| LoginError::UnknownIssuer(format!("`{}` is no issuer", clean(name))))?;
        let mut reasons = Vec::new();
        for place in places::issuer_documents(&place) {
            match self.document(&place).await {
                Asked::Found(document) => return Ok(document),
                Asked::Missing(reason) => reasons.push(reason),
            }
        }
        reasons.dedup();
        Err(LoginError::UnknownIssuer(reasons.join("; ")))
    }

    async fn document<T: DeserializeOwned>(&self, place: &str) -> Asked<T> {
        let outgoing = HttpRequest::get(place, self.options.reach).redirects(REDIRECTS);
        let answer = match self.dialer.send(outgoing).await {
            Ok(answer) => answer,
            Err(error) => return Asked::Missing(worded(&error)),
        };
        let host = Place::parse(place).map(|place| place.origin).unwrap_or_default();
        if answer.status != StatusCode::OK {
            let status = answer.status.as_u16();
            return Asked::Missing(format!("`{host}` has no description (status {status})"));
        }
        match serde_json::from_slice(&answer.body) {
            Ok(document) => Asked::Found(document),
            Err(_) => Asked::Missing(format!("the description at `{host}` cannot be read")),
        }
    }
}

/// Whether an issuer that calls itself so may be logged in at.
fn check(issuer: &documents::Server, name: &str) -> Result<(), LoginError> {
    let refuse = |what: String| Err(LoginError::Refused(what));
    if !places::same_issuer(&issuer.issuer, name) {
        return refuse(format!(
            "the issuer `{}` describes itself as `{}`: someone may pretend to be it",
            clean(name),
            clean(&issuer.issuer)
        ));
    }
    if !issuer.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return refuse(format!(
            "the issuer `{}` does not support PKCE with S256, without which a login could be stolen",
            clean(name)
        ));
    }
    for endpoint in [&issuer.authorization_endpoint, &issuer.token_endpoint] {
        let fine = Place::parse(endpoint)
            .is_some_and(|place| place.origin.starts_with("https://") || place.is_here());
        if !fine {
            return refuse(format!("an endpoint of the issuer `{}` is not safe", clean(name)));
        }
    }
    Ok(())
}

pub(super) fn worded(error: &HttpError) -> String {
    error.to_string()
}

/// Text of a stranger in a message of ours: short, and on one line.
pub(super) fn clean(text: &str) -> String {
    const LONGEST: usize = 200;
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let plain: String = plain.take(LONGEST).collect();
    plain.trim().to_owned()
}
