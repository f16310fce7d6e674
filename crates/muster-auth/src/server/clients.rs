//! OAuth clients: registered with the gateway, or described by a client metadata document.

mod metadata_document;
mod register;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};

use super::{Inner, params::Params, redirect_uri::RedirectUri, responses::OAuthError};
use crate::random;

/// How long an unused registration is stored.
const REGISTRATION_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

/// An OAuth client of the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) redirect_uris: Vec<String>,
    /// The digest of its secret, for a confidential client.
    secret: Option<String>,
    /// Whether it was registered with the operator's token, so that users need not consent.
    #[serde(rename = "vouched")]
    pub(super) is_trusted: bool,
}

fn client_key(id: &str) -> String {
    format!("client:{id}")
}

impl RegisteredClient {
    /// A client of the token exchange broker, with the digest of its secret. It cannot log users in.
    fn of_broker(id: &str, secret: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            redirect_uris: Vec::new(),
            secret: Some(secret.to_owned()),
            is_trusted: false,
        }
    }

    /// The requested redirect URI, if it is registered.
    pub(super) fn redirect_uri<'a>(&self, requested: &'a str) -> Option<RedirectUri<'a>> {
        let uri = RedirectUri::parse(requested)?;
        self.redirect_uris.iter().any(|registered| uri.matches(registered)).then_some(uri)
    }

    /// Whether a requested redirect URI is registered and on the user's own machine.
    pub(super) fn is_loopback_redirect(&self, requested: &str) -> bool {
        self.redirect_uri(requested).is_some_and(|uri| uri.is_loopback())
    }

    pub(super) const fn is_confidential(&self) -> bool {
        self.secret.is_some()
    }

    fn is_authenticated(&self, secret: Option<&str>) -> bool {
        match (&self.secret, secret) {
            (None, _) => true,
            (Some(digest), Some(secret)) => *digest == random::digest_of(secret),
            (Some(_), None) => false,
        }
    }
}

impl Inner {
    /// Looks up a client by its id.
    pub(super) async fn client(&self, id: &str) -> Result<RegisteredClient, OAuthError> {
        let unknown = || OAuthError::client("the client is unknown; register it again");
        // Check configured clients first: an operator may choose any id, even one that looks like a URL.
        let configured = self.config.broker.as_ref().and_then(|broker| broker.clients.get(id));
        if let Some(secret) = configured {
            return Ok(RegisteredClient::of_broker(id, secret));
        }
        if id.starts_with("https://") {
            return match self.config.client_documents {
                Some(policy) => self.fetch_client(id, policy).await,
                None => Err(unknown()),
            };
        }
        if id.len() > 200 {
            return Err(unknown());
        }
        let key = client_key(id);
        let client: RegisteredClient = self.vault.get(&key).await?.ok_or_else(unknown)?;
        self.vault.put(&key, &client, REGISTRATION_TTL).await?;
        Ok(client)
    }

    /// Authenticates the client that sent a request. A public client needs no secret.
    pub(super) async fn authenticate_client(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<RegisteredClient, OAuthError> {
        let (id, secret) = match basic_credentials(headers)? {
            Some((id, secret)) => (id, Some(secret)),
            None => {
                let secret = params.get("client_secret").map(str::to_owned);
                (params.require("client_id")?.to_owned(), secret)
            }
        };
        if params.get("client_id").is_some_and(|named| named != id) {
            return Err(OAuthError::request("the request names two clients"));
        }
        let client = self.client(&id).await?;
        if client.is_authenticated(secret.as_deref()) {
            return Ok(client);
        }
        Err(OAuthError::client("the client secret is wrong"))
    }
}

/// The client id and secret in a Basic `Authorization` header, each form-encoded (RFC 6749, 2.3.1).
fn basic_credentials(headers: &HeaderMap) -> Result<Option<(String, String)>, OAuthError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let bad = || OAuthError::client("the Authorization header cannot be read");
    let value = value.to_str().map_err(|_| bad())?;
    let (scheme, encoded) = value.split_once(' ').ok_or_else(bad)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(bad());
    }
    let text = STANDARD.decode(encoded.trim()).ok().and_then(|text| String::from_utf8(text).ok());
    let text = text.ok_or_else(bad)?;
    let (id, secret) = text.split_once(':').ok_or_else(bad)?;
    // Some clients do not encode id and secret. That makes no difference unless they contain `%` or `+`.
    let decoded = |text: &str| {
        let pair = format!("x={text}");
        let found = form_urlencoded::parse(pair.as_bytes()).next();
        found.map_or_else(String::new, |(_, value)| value.into_owned())
    };
    Ok(Some((decoded(id), decoded(secret))))
}
