//! Client metadata documents: a client's id can be the URL of a document that describes the client.

use std::time::Duration;

use http::header;
use muster_net::{AddressPolicy, HttpRequest, HttpResponse};
use serde::Deserialize;

use super::{RegisteredClient, register::printable_name};
use crate::{
    random,
    server::{Inner, responses::OAuthError},
};

/// How long a document without a `max-age` is cached, in seconds.
const DEFAULT_TTL: u64 = 300;
/// The bounds of its `max-age`, in seconds.
const MIN_TTL: u64 = 60;
const MAX_TTL: u64 = 24 * 3600;
/// How many redirect URIs of an untrusted document are stored.
const MAX_REDIRECT_URIS: usize = 50;

#[derive(Deserialize)]
struct ClientDocument {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
}

impl Inner {
    /// Fetches the document of a client, or returns the cached one.
    pub(super) async fn fetch_client(
        &self,
        id: &str,
        policy: AddressPolicy,
    ) -> Result<RegisteredClient, OAuthError> {
        let bad = |text: &str| OAuthError::client(format!("the client's metadata document {text}"));
        if id.contains(['?', '#', '@']) || id.len() > 2000 || !has_path(id) {
            return Err(bad("must have a plain https URL with a path"));
        }
        let key = format!("document:{}", random::digest_of(id));
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let _fetching = self.locks.lock(&key).await;
        if let Some(client) = self.vault.get(&key).await? {
            return Ok(client);
        }
        let response = self.http.send(HttpRequest::get(id, policy)).await;
        let response = response.map_err(|err| bad(&format!("cannot be fetched: {err}")))?;
        let uris = |uri: &str| self.check_redirect_uri(uri).is_none();
        let client = parse(id, &response, uris).map_err(bad)?;
        self.vault.put(&key, &client, Duration::from_secs(ttl(&response))).await?;
        Ok(client)
    }
}

fn has_path(id: &str) -> bool {
    let after = id.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
    after.is_some_and(|(_, path)| {
        !path.is_empty() && !path.split('/').any(|part| part == "." || part == "..")
    })
}

fn parse(
    id: &str,
    response: &HttpResponse,
    is_allowed: impl Fn(&str) -> bool,
) -> Result<RegisteredClient, &'static str> {
    if response.status != 200 {
        return Err("is not there");
    }
    if !response.is_json() {
        return Err("is not JSON");
    }
    let document: ClientDocument =
        serde_json::from_slice(&response.body).map_err(|_| "does not describe a client")?;
    if document.client_id != id {
        return Err("describes another client");
    }
    if document.token_endpoint_auth_method.is_some_and(|method| method != "none") {
        return Err("has an unsupported token_endpoint_auth_method; use `none`");
    }
    if document.redirect_uris.len() > MAX_REDIRECT_URIS {
        return Err("has too many redirect URIs");
    }
    if document.redirect_uris.is_empty()
        || !document.redirect_uris.iter().all(|uri| is_allowed(uri))
    {
        return Err("has redirect URIs that are not allowed");
    }
    Ok(RegisteredClient {
        id: id.to_owned(),
        name: printable_name(document.client_name.as_deref().unwrap_or_default()),
        redirect_uris: document.redirect_uris,
        secret: None,
        is_trusted: false,
    })
}

fn ttl(response: &HttpResponse) -> u64 {
    let cache_control =
        response.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let max_age = cache_control.and_then(|value| {
        value.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok())
    });
    max_age.map_or(DEFAULT_TTL, |max_age: u64| max_age.clamp(MIN_TTL, MAX_TTL))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode, header};
    use muster_net::HttpResponse;
    use serde_json::{Value, json};

    use super::{has_path, parse, ttl};
    use crate::server::redirect_uri::RedirectUri;

    const ID: &str = "https://app.example/client.json";

    fn response(status: u16, content_type: &str, body: &Value) -> HttpResponse {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::from(body.to_string()),
            url: ID.to_owned(),
        }
    }

    #[test]
    fn documents() {
        let valid = json!({"client_id": ID, "client_name": "App", "redirect_uris": ["http://127.0.0.1/cb"]});
        let with = |name: &str, value: Value| {
            let mut document = valid.clone();
            document[name] = value;
            document
        };
        let json = "application/json; charset=utf-8";
        let allowed =
            |uri: &str| RedirectUri::parse(uri).is_some_and(|uri| uri.problem(true, &[]).is_none());
        for (status, content_type, body, expected) in [
            (200, json, valid.clone(), "App"),
            (200, "application/oauth+json", valid.clone(), "App"),
            (404, json, valid.clone(), "is not there"),
            (302, json, valid.clone(), "is not there"),
            (200, "text/html", valid.clone(), "is not JSON"),
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
                "has an unsupported",
            ),
            (200, json, with("redirect_uris", json!([])), "has redirect URIs"),
            (
                200,
                json,
                with("redirect_uris", json!(vec!["https://a.example/"; 51])),
                "has too many redirect URIs",
            ),
            (
                200,
                json,
                with("redirect_uris", json!(["http://evil.example/cb"])),
                "has redirect URIs",
            ),
            (
                200,
                json,
                with("redirect_uris", json!(["https://a.example/", "javascript:x"])),
                "has redirect",
            ),
        ] {
            let found = match parse(ID, &response(status, content_type, &body), allowed) {
                Ok(client) => client.name,
                Err(reason) => reason.to_owned(),
            };
            assert!(found.starts_with(expected), "{body}: {found}");
        }
        assert!(parse(ID, &response(200, json, &valid), |_| false).is_err());
    }

    #[test]
    fn document_urls() {
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
    fn documents_are_cached_for_their_max_age() {
        for (cache_control, expected) in [
            ("no-cache", 300),
            ("max-age=600", 600),
            ("public, max-age=1", 60),
            ("max-age=99999999", 86400),
            ("max-age=x", 300),
        ] {
            let mut response = response(200, "application/json", &json!({}));
            response.headers.insert(header::CACHE_CONTROL, cache_control.parse().unwrap());
            assert_eq!(ttl(&response), expected, "{cache_control}");
        }
    }
}
