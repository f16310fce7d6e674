//! Who the gateway is at an issuer: registered beforehand, described by its own document, registered by
//! itself, or just named.

use std::time::Duration;

use http::{StatusCode, header};
use muster_core::logins::LoginError;
use muster_net::HttpRequest;
use serde::{Deserialize, Serialize};

use super::{
    Client,
    discovery::{clean, worded},
    documents::{self, Registered, Registration},
    places::{Place, same_issuer},
};
use crate::{random::digest_of, secret::Secret};

/// How long a registration is used before the gateway registers anew.
const KEEP: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The gateway as an issuer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) proof: Proof,
}

/// How it shows that it is that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proof {
    /// By PKCE alone.
    None,
    /// By its secret, in a header.
    Basic,
    /// By its secret, in the form.
    Post,
}

impl Proof {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|proof| proof.name() == name)
    }

    /// The best way that an issuer takes, for a client that has a secret or may get one.
    fn best(issuer: &documents::Server) -> Self {
        let Some(taken) = &issuer.token_endpoint_auth_methods_supported else { return Self::Basic };
        let ways = [Self::Basic, Self::Post, Self::None];
        let best = ways.into_iter().find(|proof| taken.iter().any(|name| name == proof.name()));
        best.unwrap_or(Self::None)
    }
}

impl Client {
    /// Who we are at an issuer.
    pub(super) async fn identity(
        &self,
        issuer: &documents::Server,
        scope: &str,
    ) -> Result<Identity, LoginError> {
        let registered_at = self.options.client_issuer.as_str();
        let elsewhere = !registered_at.is_empty() && !same_issuer(registered_at, &issuer.issuer);
        // What one issuer gave us is nothing that another should see.
        let named = if elsewhere { "" } else { self.options.client_id.as_str() };
        let by_document = named.is_empty() || Place::parse(named).is_some();
        if !by_document {
            let secret = self.options.client_secret.clone();
            let proof = if secret.is_some() { Proof::best(issuer) } else { Proof::None };
            return Ok(Identity { id: named.to_owned(), secret, proof });
        }
        let document =
            if named.is_empty() { self.options.document_url() } else { named.to_owned() };
        let plain = || Identity { id: document.clone(), secret: None, proof: Proof::None };
        if issuer.client_id_metadata_document_supported && document.starts_with("https://") {
            return Ok(plain());
        }
        match &issuer.registration_endpoint {
            Some(endpoint) => self.registered(issuer, endpoint, scope).await,
            None => Ok(plain()),
        }
    }

    /// Registers, or remembers that it did. Another issuer knows nothing of it.
    async fn registered(
        &self,
        issuer: &documents::Server,
        endpoint: &str,
        scope: &str,
    ) -> Result<Identity, LoginError> {
        let redirect = self.options.callback_url();
        let name = registration_name(&issuer.issuer, &redirect);
        match self.vault.get(&name).await {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) => (),
            Err(error) => tracing::warn!("registrations at issuers: {error}"),
        }
        let proof = match &issuer.token_endpoint_auth_methods_supported {
            Some(_) => Proof::best(issuer),
            None => Proof::None,
        };
        let here = Place::parse(&redirect).is_some_and(|place| place.is_here());
        let registration = Registration {
            client_name: super::NAME,
            redirect_uris: [&redirect],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: proof.name(),
            application_type: if here { "native" } else { "web" },
            scope,
        };
        let body = serde_json::to_vec(&registration).unwrap_or_default();
        let outgoing = HttpRequest::post(endpoint, self.options.reach, "application/json", body);
        let answer = self.dialer.send(outgoing).await;
        let answer = answer.map_err(|error| LoginError::Unavailable(worded(&error)))?;
        if !matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
            let reason = super::grants::refusal(&answer, &[]);
            return Err(LoginError::Refused(format!("the issuer does not register us: {reason}")));
        }
        let registered: Registered = serde_json::from_slice(&answer.body).map_err(|_| {
            LoginError::Refused("the issuer's answer to a registration cannot be read".to_owned())
        })?;
        let keep = match registered.client_secret_expires_at {
            Some(end) if end > 0 => Duration::from_secs(end.saturating_sub(self.clock.now())),
            Some(_) | None => KEEP,
        };
        let identity = told(registered, proof);
        if let Err(error) = self.vault.put(&name, &identity, keep).await {
            tracing::warn!("a registration is not kept: {error}");
        }
        Ok(identity)
    }

    /// The issuer does not know us any more.
    pub(super) async fn unregistered(&self, issuer: &str) {
        let name = registration_name(issuer, &self.options.callback_url());
        if let Err(error) = self.vault.remove(&name).await {
            tracing::warn!("a registration is not forgotten: {error}");
        }
    }
}

fn registration_name(issuer: &str, redirect: &str) -> String {
    format!("backend/client/{}", digest_of(&format!("{issuer} {redirect}")))
}

fn told(registered: Registered, asked: Proof) -> Identity {
    let Registered { client_id, client_secret, token_endpoint_auth_method, .. } = registered;
    let named = token_endpoint_auth_method.as_deref().and_then(Proof::named);
    let proof = match (&client_secret, named) {
        (_, Some(named)) => named,
        (None, None) => Proof::None,
        (Some(_), None) if asked == Proof::None => Proof::Basic,
        (Some(_), None) => asked,
    };
    let proof = if client_secret.is_none() { Proof::None } else { proof };
    Identity { id: clean_id(client_id), secret: client_secret.map(Secret::new), proof }
}

/// An id may be anything but what breaks a header or a page.
fn clean_id(id: String) -> String {
    if id.chars().any(char::is_control) { clean(&id) } else { id }
}

/// Adds who we are to a request for a token.
pub(super) fn prove<'a>(
    identity: &'a Identity,
    fields: &mut Vec<(&'a str, &'a str)>,
) -> Option<(header::HeaderName, String)> {
    let secret = identity.secret.as_ref().map(Secret::reveal);
    match (identity.proof, secret) {
        (Proof::Basic, Some(secret)) => {
            use base64::{Engine as _, engine::general_purpose::STANDARD};
            let coded =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", coded(&identity.id), coded(secret)));
            Some((header::AUTHORIZATION, format!("Basic {pair}")))
        }
        (Proof::Post, Some(secret)) => {
            fields.extend([("client_id", identity.id.as_str()), ("client_secret", secret)]);
            None
        }
        (Proof::None | Proof::Basic | Proof::Post, _) => {
            fields.push(("client_id", &identity.id));
            None
        }
    }
}
