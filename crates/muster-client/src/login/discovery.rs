//! Who lets users in at a gateway, and where.

use muster_auth::oauth::covers_server;
use muster_net::{AddressPolicy, HttpClient, HttpRequest};
use serde::Deserialize;

use super::token_store::base_url;

/// What is asked for where the gateway names nothing.
const SCOPES: &str = "openid profile email groups offline_access";
/// Documents about logins may have moved.
const REDIRECTS: u8 = 3;

/// Where and how a user logs in.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) issuer: Issuer,
    /// What the token is for.
    pub(super) resource: String,
    /// What is asked for.
    pub(super) scope: String,
}

/// The document in which an issuer describes itself.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The document in which a gateway says who lets users in.
#[derive(Debug, Default, Deserialize)]
struct Resource {
    #[serde(default)]
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Finds out where a user logs in at a gateway. `challenge` is what the gateway sent with its refusal.
pub(super) async fn find(
    dialer: &HttpClient,
    endpoint: &str,
    challenge: Option<&str>,
) -> Result<Place, String> {
    let challenge = challenge.unwrap_or_default();
    let resource = described(dialer, endpoint, challenge).await?;
    let told = ["issuer", "realm"].iter().find_map(|name| parameter(challenge, name));
    let told = told.filter(|told| told.starts_with("https://") || told.starts_with("http://"));
    let issuer = match resource.authorization_servers.first() {
        Some(issuer) => issuer.clone(),
        None => told.ok_or(
            "server requires authentication but OAuth metadata could not be discovered: \
             the gateway names no issuer",
        )?,
    };
    let scope =
        parameter(challenge, "scope").unwrap_or_else(|| match &*resource.scopes_supported {
            [] => SCOPES.to_owned(),
            named => named.join(" "),
        });
    Ok(Place {
        issuer: issuer_at(dialer, &issuer).await?,
        resource: resource.resource.unwrap_or_else(|| endpoint.to_owned()),
        scope,
    })
}

/// What the gateway says about itself, at the place that it names, or at the usual ones.
/// Whatever the place, what it says must be about this gateway (RFC 9728, 3.3).
async fn described(
    dialer: &HttpClient,
    endpoint: &str,
    challenge: &str,
) -> Result<Resource, String> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let base = base_url(endpoint);
    let path = endpoint.strip_prefix(base).unwrap_or_default().trim_end_matches('/');
    let usual = [format!("{base}{WELL_KNOWN}{path}"), format!("{base}{WELL_KNOWN}")];
    for url in parameter(challenge, "resource_metadata").into_iter().chain(usual) {
        let Ok(found) = document::<Resource>(dialer, &url).await else { continue };
        if let Some(other) = found.resource.as_deref().filter(|own| !covers_server(own, endpoint)) {
            let other: String = other.chars().filter(|letter| !letter.is_control()).collect();
            return Err(format!(
                "the gateway describes itself as `{other}`, which is another resource: a token for it \
                 would be good for somebody else. If that is the gateway you mean, use it as the endpoint"
            ));
        }
        if !found.authorization_servers.is_empty() {
            return Ok(found);
        }
    }
    Ok(Resource::default())
}

/// The document of an issuer, which must speak of itself.
pub(super) async fn issuer_at(dialer: &HttpClient, issuer: &str) -> Result<Issuer, String> {
    let issuer = issuer.trim_end_matches('/');
    let mut why = String::new();
    for url in places(issuer) {
        match document::<Issuer>(dialer, &url).await {
            Ok(found) if found.issuer.trim_end_matches('/') == issuer => {
                if found.code_challenge_methods_supported.iter().any(|method| method == "S256") {
                    return Ok(found);
                }
                return Err(format!("`{issuer}` does not protect codes with PKCE (S256)"));
            }
            Ok(found) => {
                why = format!("the document of `{issuer}` speaks of `{}`", found.issuer);
            }
            Err(reason) if why.is_empty() => why = reason,
            Err(_) => (),
        }
    }
    Err(format!("failed to discover OAuth metadata: {why}"))
}

/// Where an issuer's document may be: an issuer with a path has it in front of the path, or behind.
fn places(issuer: &str) -> Vec<String> {
    const NAMES: [&str; 2] = ["oauth-authorization-server", "openid-configuration"];
    let after = issuer.find("://").map_or(0, |at| at + 3);
    let slash = issuer.get(after..).and_then(|rest| rest.find('/')).map(|at| after + at);
    let mut places = Vec::new();
    if let Some((host, path)) = slash.and_then(|at| issuer.split_at_checked(at)) {
        places.extend(NAMES.map(|name| format!("{host}/.well-known/{name}{path}")));
    }
    places.extend(NAMES.map(|name| format!("{issuer}/.well-known/{name}")));
    places
}

async fn document<T: serde::de::DeserializeOwned>(
    dialer: &HttpClient,
    url: &str,
) -> Result<T, String> {
    let ask = HttpRequest::get(url, AddressPolicy::Private).redirects(REDIRECTS);
    let answer = dialer.send(ask).await.map_err(|err| err.to_string())?;
    if !answer.status.is_success() {
        return Err(format!("status {} for {url}", answer.status.as_u16()));
    }
    serde_json::from_slice(&answer.body).map_err(|err| format!("{url} cannot be read: {err}"))
}

/// A parameter of a challenge: `Bearer realm="x", scope="a b"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let at = rest.find(name)?;
        let (before, found) = rest.split_at_checked(at)?;
        rest = found.get(name.len()..)?;
        let begins = before.is_empty() || before.ends_with([' ', ',']);
        let Some(value) = rest.trim_start().strip_prefix('=').filter(|_| begins) else { continue };
        let value = value.trim_start();
        let text = match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => value.split([',', ' ']).next()?,
        };
        return Some(text.to_owned()).filter(|text| !text.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::{parameter, places};

    #[test]
    fn parameters_of_a_challenge() {
        let challenge =
            r#"Bearer resource_metadata="https://g/.well-known/x", realm=g, scope="a b""#;
        let get = |name| parameter(challenge, name);
        assert_eq!(get("resource_metadata").as_deref(), Some("https://g/.well-known/x"));
        assert_eq!(get("realm").as_deref(), Some("g"));
        assert_eq!(get("scope").as_deref(), Some("a b"));
        assert_eq!(get("metadata"), None);
        assert_eq!(parameter("Bearer", "realm"), None);
    }

    #[test]
    fn where_issuers_describe_themselves() {
        assert_eq!(
            places("https://i"),
            [
                "https://i/.well-known/oauth-authorization-server",
                "https://i/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            places("https://i/dex"),
            [
                "https://i/.well-known/oauth-authorization-server/dex",
                "https://i/.well-known/openid-configuration/dex",
                "https://i/dex/.well-known/oauth-authorization-server",
                "https://i/dex/.well-known/openid-configuration"
            ]
        );
    }
}
