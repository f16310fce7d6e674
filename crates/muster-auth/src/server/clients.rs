//! The programs that users let in: registered with us, or described by a document of their own.

mod document;
mod register;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};

use super::{Inner, fields::Fields, redirect_uri::RedirectUri, reply::Failure};
use crate::random;

/// How long a registration is kept that nobody uses.
const KEEP: Duration = Duration::from_secs(90 * 24 * 3600);

/// A program that users may let in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) redirect_uris: Vec<String>,
    /// The digest of its secret, if it has one.
    secret: Option<String>,
    /// Whether whoever runs the gateway vouches for it.
    pub(super) vouched: bool,
}

fn client_key(id: &str) -> String {
    format!("client:{id}")
}

impl Client {
    /// The registered redirect address that was asked for.
    pub(super) fn redirect<'a>(&self, asked: &'a str) -> Option<RedirectUri<'a>> {
        let uri = RedirectUri::parse(asked)?;
        self.redirect_uris.iter().any(|known| uri.is(known)).then_some(uri)
    }

    /// Whether a redirect address leads to the user's own machine.
    pub(super) fn is_here(&self, asked: &str) -> bool {
        self.redirect(asked).is_some_and(|uri| uri.is_loopback())
    }

    pub(super) const fn is_confidential(&self) -> bool {
        self.secret.is_some()
    }

    fn is_proven(&self, secret: Option<&str>) -> bool {
        match (&self.secret, secret) {
            (None, _) => true,
            (Some(digest), Some(secret)) => *digest == random::digest_of(secret),
            (Some(_), None) => false,
        }
    }
}

impl Inner {
    /// A client by its id.
    pub(super) async fn client(&self, id: &str) -> Result<Client, Failure> {
        let unknown = || Failure::client("the client is not known; register it again");
        if id.starts_with("https://") {
            return match self.config.cimd {
                Some(reach) => self.described(id, reach).await,
                None => Err(unknown()),
            };
        }
        if id.len() > 200 {
            return Err(unknown());
        }
        let key = client_key(id);
        let client: Client = self.vault.get(&key).await?.ok_or_else(unknown)?;
        self.vault.put(&key, &client, KEEP).await?;
        Ok(client)
    }

    /// The client that sent a request, proven by its secret if it has one.
    pub(super) async fn proven(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Client, Failure> {
        let (id, secret) = match basic(headers)? {
            Some((id, secret)) => (id, Some(secret)),
            None => {
                let secret = fields.get("client_secret").map(str::to_owned);
                (fields.need("client_id")?.to_owned(), secret)
            }
        };
        if fields.get("client_id").is_some_and(|named| named != id) {
            return Err(Failure::request("two clients are named"));
        }
        let client = self.client(&id).await?;
        if client.is_proven(secret.as_deref()) {
            return Ok(client);
        }
        Err(Failure::client("the client is not who it says"))
    }
}

/// The name and password that a request carries, each encoded as OAuth has it.
fn basic(headers: &HeaderMap) -> Result<Option<(String, String)>, Failure> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let bad = || Failure::client("the header Authorization cannot be read");
    let value = value.to_str().map_err(|_| bad())?;
    let (scheme, encoded) = value.split_once(' ').ok_or_else(bad)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(bad());
    }
    let text = STANDARD.decode(encoded.trim()).ok().and_then(|text| String::from_utf8(text).ok());
    let text = text.ok_or_else(bad)?;
    let (id, secret) = text.split_once(':').ok_or_else(bad)?;
    // Some clients send both as they are; what has no `%` and no `+` is the same in both ways.
    let decoded = |text: &str| {
        let pair = format!("x={text}");
        let found = form_urlencoded::parse(pair.as_bytes()).next();
        found.map_or_else(String::new, |(_, value)| value.into_owned())
    };
    Ok(Some((decoded(id), decoded(secret))))
}
