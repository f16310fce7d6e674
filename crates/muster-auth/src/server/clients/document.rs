//! Clients whose id is the address of a document that describes them.

use std::time::Duration;

use http::header;
use serde::Deserialize;

use super::{Client, register::shown};
use crate::{
    dialer::{Answer, DialError, Outgoing, Reach},
    random,
    server::{Inner, redirect_uri::RedirectUri, reply::Failure},
};

/// How long a document is kept if it does not say.
const USUAL: u64 = 300;
/// And the bounds of what it may say.
const SHORTEST: u64 = 60;
const LONGEST: u64 = 24 * 3600;

#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
}

impl Inner {
    /// The client that a document describes.
    pub(super) async fn described(&self, id: &str, reach: Reach) -> Result<Client, Failure> {
        let bad = |text: &str| Failure::client(format!("the client's metadata document {text}"));
        if id.contains(['?', '#', '@']) || id.len() > 2000 || !has_path(id) {
            return Err(bad("must have a plain https address with a path"));
        }
        let key = format!("document:{}", random::digest_of(id));
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let _turn = self.turns.wait(&key).await;
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let answer = self.dialer.send(Outgoing::get(id, reach)).await.map_err(|err| match err {
            DialError::Refused(reason) => bad(&format!("cannot be fetched: {reason}")),
            err => bad(&format!("cannot be fetched: {err}")),
        })?;
        let client = read(id, &answer, self.config.localhost_redirects).map_err(bad)?;
        self.vault.put(&key, &client, Duration::from_secs(life(&answer))).await?;
        Ok(client)
    }
}

fn has_path(id: &str) -> bool {
    let after = id.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
    after.is_some_and(|(_, path)| {
        !path.is_empty() && !path.split('/').any(|part| part == "." || part == "..")
    })
}

fn read(id: &str, answer: &Answer, localhost: bool) -> Result<Client, &'static str> {
    if answer.status != 200 {
        return Err("is not there");
    }
    if !answer.is_json() {
        return Err("is not JSON");
    }
    let document: Document =
        serde_json::from_slice(&answer.body).map_err(|_| "does not describe a client")?;
    if document.client_id != id {
        return Err("describes another client");
    }
    if document.token_endpoint_auth_method.is_some_and(|method| method != "none") {
        return Err("asks for a way to prove itself that is not supported; use `none`");
    }
    let fine =
        |uri: &String| RedirectUri::parse(uri).is_some_and(|uri| uri.problem(localhost).is_none());
    if document.redirect_uris.is_empty() || !document.redirect_uris.iter().all(fine) {
        return Err("names redirect addresses that are not allowed");
    }
    Ok(Client {
        id: id.to_owned(),
        name: shown(document.client_name.as_deref().unwrap_or_default()),
        redirect_uris: document.redirect_uris,
        secret: None,
        vouched: false,
    })
}

fn life(answer: &Answer) -> u64 {
    let said = answer.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let said = said.and_then(|said| {
        said.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok())
    });
    said.map_or(USUAL, |said: u64| said.clamp(SHORTEST, LONGEST))
}
