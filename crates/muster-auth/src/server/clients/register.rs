//! Registering a client.

use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::{Client, KEEP, client_key};
use crate::{
    random,
    server::{
        Inner,
        redirect_uri::RedirectUri,
        reply::{self, Failure, Reply},
    },
};

const MOST_REDIRECTS: usize = 20;

#[derive(Deserialize)]
struct Wish {
    #[serde(default)]
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    client_type: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Serialize)]
struct Registered<'a> {
    client_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_expires_at: Option<u64>,
    client_id_issued_at: u64,
    client_name: &'a str,
    client_type: &'static str,
    redirect_uris: &'a [String],
    token_endpoint_auth_method: &'a str,
    grant_types: [&'static str; 2],
    response_types: [&'static str; 1],
}

/// Why someone may register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Right {
    Public,
    Token,
    Trusted,
}

impl Inner {
    /// Whether anybody can register at all.
    pub(in crate::server) fn registers(&self) -> bool {
        self.config.public_registration
            || self.config.registration_token.is_some()
            || !self.config.trusted_schemes.is_empty()
            || !self.config.trusted_uris.is_empty()
    }

    /// `POST /oauth/register`.
    pub(in crate::server) async fn register(
        &self,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply, Failure> {
        let bad =
            |text: String| Failure { code: "invalid_client_metadata", ..Failure::request(text) };
        let wish: Wish = serde_json::from_slice(body).map_err(|_| {
            bad("the body must be a JSON object that describes the client".to_owned())
        })?;
        self.judge_redirects(&wish.redirect_uris)?;
        let right = self.right(headers, &wish.redirect_uris)?;
        let method = wish.token_endpoint_auth_method.as_deref();
        let public = match (method, wish.client_type.as_deref()) {
            (Some("none"), _) | (None, Some("public")) => true,
            (Some("client_secret_basic" | "client_secret_post") | None, _) => false,
            (Some(other), _) => {
                return Err(bad(format!(
                    "token_endpoint_auth_method {} is not supported",
                    shown(other)
                )));
            }
        };
        if public && right == Right::Token && !self.config.public_registration {
            let message = "public clients may not be registered here; use a client secret";
            return Err(bad(message.to_owned()));
        }
        let secret = if public { None } else { Some(random::token()?) };
        let client = Client {
            id: random::token()?,
            name: shown(wish.client_name.as_deref().unwrap_or_default()),
            redirect_uris: wish.redirect_uris,
            secret: secret.as_deref().map(random::digest_of),
            vouched: right == Right::Token,
        };
        self.vault.put(&client_key(&client.id), &client, KEEP).await?;
        Ok(reply::json(
            StatusCode::CREATED,
            &Registered {
                client_id: &client.id,
                client_secret: secret.as_deref(),
                client_secret_expires_at: secret.is_some().then_some(0),
                client_id_issued_at: self.clock.now(),
                client_name: &client.name,
                client_type: if public { "public" } else { "confidential" },
                redirect_uris: &client.redirect_uris,
                token_endpoint_auth_method: if public {
                    "none"
                } else {
                    method.unwrap_or("client_secret_basic")
                },
                grant_types: ["authorization_code", "refresh_token"],
                response_types: ["code"],
            },
        ))
    }

    fn right(&self, headers: &HeaderMap, uris: &[String]) -> Result<Right, Failure> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        let shown = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let (Some(token), Some((_, shown))) = (&self.config.registration_token, shown)
            && random::same(token.reveal(), shown.trim())
        {
            return Ok(Right::Token);
        }
        if self.config.public_registration {
            return Ok(Right::Public);
        }
        let trusted = |uri: &String| {
            let scheme = RedirectUri::parse(uri).map(|uri| uri.scheme).unwrap_or_default();
            let schemes = &self.config.trusted_schemes;
            schemes.iter().any(|known| known.eq_ignore_ascii_case(&scheme))
                || self.config.trusted_uris.contains(uri)
        };
        if uris.iter().all(trusted) {
            return Ok(Right::Trusted);
        }
        let message = "registering a client needs the registration token";
        Err(Failure::new(StatusCode::UNAUTHORIZED, "invalid_token", message))
    }

    fn judge_redirects(&self, uris: &[String]) -> Result<(), Failure> {
        let bad = |text: String| Failure { code: "invalid_redirect_uri", ..Failure::request(text) };
        if uris.is_empty() || uris.len() > MOST_REDIRECTS {
            return Err(bad(format!("redirect_uris must name 1 to {MOST_REDIRECTS} addresses")));
        }
        for uri in uris {
            let problem = match RedirectUri::parse(uri) {
                None => Some("it cannot be read"),
                Some(uri) => uri.problem(self.config.localhost_redirects),
            };
            if let Some(problem) = problem {
                return Err(bad(format!("redirect URI {}: {problem}", shown(uri))));
            }
        }
        Ok(())
    }
}

/// A stranger's text, short enough to be repeated.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}
