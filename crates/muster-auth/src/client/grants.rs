//! Asking an issuer for tokens.

use http::StatusCode;
use muster_core::logins::LoginError;
use muster_net::{HttpRequest, HttpResponse};
use serde::Deserialize;

use super::{
    Client,
    discovery::{clean, worded},
    identity::{self, Identity},
};
use crate::secret::Secret;

/// Tokens without an end of their own are asked for anew after this many seconds.
const USUAL_LIFETIME: u64 = 3600;

/// Where and as whom tokens are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter<'a> {
    pub(super) endpoint: &'a str,
    pub(super) identity: &'a Identity,
}

/// What an issuer gives.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) id: Option<Secret>,
    pub(super) scope: Option<String>,
    /// In seconds.
    pub(super) lifetime: u64,
}

/// Why an issuer gives nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    /// What was shown to it is of no use any more.
    Grant(String),
    /// It does not know us.
    Client(String),
    /// Something else that will not change by itself.
    Other(String),
    /// It may work later.
    Later(String),
}

impl From<Denied> for LoginError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Grant(reason) | Denied::Client(reason) | Denied::Other(reason) => {
                Self::Refused(reason)
            }
            Denied::Later(reason) => Self::Unavailable(reason),
        }
    }
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize, Default)]
struct Error {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Client {
    /// Asks for tokens. `secrets` are what an answer must not repeat into a message of ours.
    pub(super) async fn grant(
        &self,
        counter: Counter<'_>,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<Tokens, Denied> {
        let mut fields = fields.to_vec();
        let proof = identity::prove(counter.identity, &mut fields);
        let mut outgoing = HttpRequest::form(counter.endpoint, self.options.reach, &fields);
        let mut shown = String::new();
        if let Some((name, value)) = proof {
            outgoing = outgoing.header(name, &value);
            value.trim_start_matches("Basic ").clone_into(&mut shown);
        }
        let answer = self.dialer.send(outgoing).await;
        let answer = answer.map_err(|error| Denied::Later(worded(&error)))?;
        let own = counter.identity.secret.as_ref().map(|secret| secret.reveal().as_str());
        let secrets: Vec<&str> = secrets.iter().copied().chain(own).chain([&*shown]).collect();
        read(&answer, &secrets)
    }
}

fn read(answer: &HttpResponse, secrets: &[&str]) -> Result<Tokens, Denied> {
    let status = answer.status;
    if status != StatusCode::OK {
        let reason = format!("token request failed: {}", refusal(answer, secrets));
        return Err(match code(answer).as_str() {
            "temporarily_unavailable" | "server_error" | "slow_down" => Denied::Later(reason),
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Denied::Later(reason)
            }
            "invalid_grant" | "invalid_target" | "invalid_scope" => Denied::Grant(reason),
            "invalid_client" | "unauthorized_client" => Denied::Client(reason),
            _ => Denied::Other(reason),
        });
    }
    let broken = |what: &str| Denied::Other(format!("the issuer's answer {what}"));
    let given: Given =
        serde_json::from_slice(&answer.body).map_err(|_| broken("holds no token"))?;
    if given.access_token.is_empty() {
        return Err(broken("holds no token"));
    }
    let kind = given.token_type.as_deref().unwrap_or("bearer");
    // What is exchanged may be an identity, which has no type of its own.
    if !kind.eq_ignore_ascii_case("bearer") && !kind.eq_ignore_ascii_case("n_a") {
        return Err(broken("holds a token of a kind that is not known here"));
    }
    if !sendable(&given.access_token) {
        return Err(broken("holds a token that cannot be sent"));
    }
    let lifetime = given.expires_in.as_ref().and_then(seconds).unwrap_or(USUAL_LIFETIME);
    let kept = |token: Option<String>| token.filter(|token| !token.is_empty()).map(Secret::new);
    Ok(Tokens {
        access: Secret::new(given.access_token),
        refresh: kept(given.refresh_token),
        id: kept(given.id_token),
        scope: given.scope,
        lifetime,
    })
}

fn sendable(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Some issuers write numbers as text.
fn seconds(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a fraction of a second does not matter, and it is not negative"
            )]
            let whole = number.as_f64().filter(|seconds| *seconds >= 0.0).map(|float| float as u64);
            number.as_u64().or(whole)
        }
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn code(answer: &HttpResponse) -> String {
    serde_json::from_slice::<Error>(&answer.body).unwrap_or_default().error
}

/// What an issuer says when it refuses something, without what was shown to it.
pub(super) fn refusal(answer: &HttpResponse, secrets: &[&str]) -> String {
    let Error { error, error_description } =
        serde_json::from_slice(&answer.body).unwrap_or_default();
    let hidden = |text: &str| {
        let hide = |text: String, secret: &&str| match secret.is_empty() {
            true => text,
            false => text.replace(*secret, "[REDACTED]"),
        };
        clean(&secrets.iter().fold(text.to_owned(), hide))
    };
    match (hidden(&error), hidden(&error_description)) {
        (error, _) if error.is_empty() => format!("status {}", answer.status.as_u16()),
        (error, said) if said.is_empty() => error,
        (error, said) => format!("{error} - {said}"),
    }
}
