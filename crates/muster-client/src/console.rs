//! Logging the user's browser in to the console of a gateway.

use http::{HeaderName, StatusCode};
use muster_auth::access::operator_file::OPERATOR_HEADER;
use muster_net::{AddressPolicy, HttpRequest};
use serde::Deserialize;

use crate::{
    login::{flow, stored_auth},
    remote::{Credentials, error::RemoteError, target::Target},
};

const LOGIN: &str = "/console/login";

/// The reply of the gateway to a login.
#[derive(Deserialize)]
struct Begun {
    /// The path with a single-use code.
    path: String,
}

/// Requests an address of the console that logs in one browser, within a minute.
pub async fn login_url(target: &Target) -> Result<String, RemoteError> {
    let target = target.as_operator();
    let url = target.connect_url();
    let origin = origin(&url);
    // Any network is allowed: the user named or configured this gateway.
    let policy = AddressPolicy::Unrestricted;
    let mut request = HttpRequest::post(format!("{origin}{LOGIN}"), policy, "application/json", "");
    if let Credentials::Bearer(token) = stored_auth(&target).await {
        request = request.bearer(&token);
    }
    if let Some(operator) = &target.operator {
        let name = HeaderName::from_static(OPERATOR_HEADER);
        request = request.header(name, operator.token.reveal());
    }
    let failed = RemoteError::Request;
    let response =
        flow::http_client().send(request).await.map_err(|err| failed(err.to_string()))?;
    match response.status {
        StatusCode::OK => {
            let begun: Begun = serde_json::from_slice(&response.body).map_err(|err| {
                failed(format!("the reply of {origin}{LOGIN} cannot be read: {err}"))
            })?;
            Ok(format!("{origin}{}", begun.path))
        }
        StatusCode::NOT_FOUND => Err(RemoteError::NoConsole { origin: origin.to_owned() }),
        _ => Err(failed(String::from_utf8_lossy(&response.body).into_owned())),
    }
}

/// The scheme and authority of a URL.
fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(authority..).and_then(|rest| rest.find('/')).map(|at| authority + at);
    end.and_then(|end| url.get(..end)).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn origins_of_endpoints() {
        for (url, expected) in [
            ("http://localhost:8090/mcp", "http://localhost:8090"),
            ("https://gate.example", "https://gate.example"),
            ("http://[::1]:1/a/b", "http://[::1]:1"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }
}
