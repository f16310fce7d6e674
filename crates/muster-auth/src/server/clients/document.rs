//! Clients whose id is the address of a document that describes them.

use std::time::Duration;

use http::header;
use muster_net::{AddressPolicy, HttpRequest, HttpResponse};
use serde::Deserialize;

use super::{Client, register::shown};
use crate::{
    random,
    server::{Inner, redirect_uri::RedirectUri, reply::Failure},
};

/// How long a document is kept if it does not say.
const USUAL: u64 = 300;
/// And the bounds of what it may say.
const SHORTEST: u64 = 60;
const LONGEST: u64 = 24 * 3600;
/// A document is a stranger's, and what it names is kept.
const MOST_REDIRECTS: usize = 50;

#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
}

impl Inner {
    /// The client that a document describes.
    pub(super) async fn described(
        &self,
        id: &str,
        reach: AddressPolicy,
    ) -> Result<Client, Failure> {
        let bad = |text: &str| Failure::client(format!("the client's metadata document {text}"));
        if id.contains(['?', '#', '@']) || id.len() > 2000 || !has_path(id) {
            return Err(bad("must have a plain https address with a path"));
        }
        let key = format!("document:{}", random::digest_of(id));
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let _fetching = self.locks.lock(&key).await;
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let answer = self.dialer.send(HttpRequest::get(id, reach)).await;
        let answer = answer.map_err(|err| bad(&format!("cannot be fetched: {err}")))?;
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

fn read(id: &str, answer: &HttpResponse, localhost: bool) -> Result<Client, &'static str> {
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
    if document.redirect_uris.len() > MOST_REDIRECTS {
        return Err("names too many redirect addresses");
    }
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

fn life(answer: &HttpResponse) -> u64 {
    let said = answer.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let said = said.and_then(|said| {
        said.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok())
    });
    said.map_or(USUAL, |said: u64| said.clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode, header};
    use muster_net::HttpResponse;
    use serde_json::{Value, json};

    use super::{has_path, life, read};

    const ID: &str = "https://app.example/client.json";

    fn answer(status: u16, kind: &str, body: &Value) -> HttpResponse {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::from(body.to_string()),
            url: ID.to_owned(),
        }
    }

    #[test]
    fn documents() {
        let right = json!({"client_id": ID, "client_name": "App", "redirect_uris": ["http://127.0.0.1/cb"]});
        let with = |name: &str, value: Value| {
            let mut document = right.clone();
            document[name] = value;
            document
        };
        let json = "application/json; charset=utf-8";
        for (status, kind, body, expected) in [
            (200, json, right.clone(), "App"),
            (200, "application/oauth+json", right.clone(), "App"),
            (404, json, right.clone(), "is not there"),
            (302, json, right.clone(), "is not there"),
            (200, "text/html", right.clone(), "is not JSON"),
            (200, json, json!([]), "does not describe a client"),
            (
                200,
                json,
                with("client_id", json!("https://evil.example/client.json")),
                "describes another client",
            ),
            (200, json, with("client_id", json!(format!("{ID}/"))), "describes another client"),
            (200, json, with("token_endpoint_auth_method", json!("none")), "App"),
            (
                200,
                json,
                with("token_endpoint_auth_method", json!("client_secret_post")),
                "asks for a way",
            ),
            (200, json, with("redirect_uris", json!([])), "names redirect addresses"),
            (
                200,
                json,
                with("redirect_uris", json!(vec!["https://a.example/"; 51])),
                "names too many redirect addresses",
            ),
            (
                200,
                json,
                with("redirect_uris", json!(["http://evil.example/cb"])),
                "names redirect addresses",
            ),
            (
                200,
                json,
                with("redirect_uris", json!(["https://a.example/", "javascript:x"])),
                "names redirect",
            ),
        ] {
            let found = match read(ID, &answer(status, kind, &body), true) {
                Ok(client) => client.name,
                Err(reason) => reason.to_owned(),
            };
            assert!(found.starts_with(expected), "{body}: {found}");
        }
        assert!(read(ID, &answer(200, json, &right), false).is_err());
    }

    #[test]
    fn addresses_of_documents() {
        for (id, fine) in [
            (ID, true),
            ("https://app.example", false),
            ("https://app.example/", false),
            ("https://app.example/a/../b", false),
            ("http://app.example/client.json", false),
        ] {
            assert_eq!(has_path(id), fine, "{id}");
        }
    }

    #[test]
    fn how_long_documents_are_kept() {
        for (said, expected) in [
            ("no-cache", 300),
            ("max-age=600", 600),
            ("public, max-age=1", 60),
            ("max-age=99999999", 86400),
            ("max-age=x", 300),
        ] {
            let mut answer = answer(200, "application/json", &json!({}));
            answer.headers.insert(header::CACHE_CONTROL, said.parse().unwrap());
            assert_eq!(life(&answer), expected, "{said}");
        }
    }
}
