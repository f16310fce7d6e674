//! The identity of a client at an issuer, and dynamic registration (RFC 7591).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderName, StatusCode, header};
use muster_net::{AddressPolicy, HttpClient, HttpRequest};
use serde::{Deserialize, Serialize};

use super::{IssuerMetadata, TokenRequestError, refusal};
use crate::{secret::Secret, text::printable};

/// The identity of a client at an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientIdentity {
    /// The client id.
    pub id: String,
    /// The client secret, for confidential clients.
    pub secret: Option<Secret>,
    /// How the client authenticates.
    #[serde(rename = "proof")]
    pub auth_method: ClientAuthMethod,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuthMethod {
    /// Without credentials: PKCE protects the code.
    None,
    /// With its secret, in the `Authorization` header.
    Basic,
    /// With its secret, in the form.
    Post,
}

impl ClientAuthMethod {
    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.name() == name)
    }

    /// The best method that an issuer supports, for a client that has a secret or may get one.
    pub(crate) fn best(issuer: &IssuerMetadata) -> Self {
        let Some(supported) = &issuer.token_endpoint_auth_methods_supported else {
            return Self::Basic;
        };
        let methods = [Self::Basic, Self::Post, Self::None];
        let best = methods.into_iter().find(|method| supported.iter().any(|n| n == method.name()));
        best.unwrap_or(Self::None)
    }
}

impl ClientIdentity {
    /// A public client: an id without a secret.
    pub const fn public(id: String) -> Self {
        Self { id, secret: None, auth_method: ClientAuthMethod::None }
    }

    /// Adds the client's credentials to a form, or returns the header that carries them.
    pub(crate) fn authenticate<'a>(
        &'a self,
        fields: &mut Vec<(&'a str, &'a str)>,
    ) -> Option<(HeaderName, String)> {
        match (self.auth_method, self.secret.as_ref().map(Secret::reveal)) {
            (ClientAuthMethod::Basic, Some(secret)) => {
                Some((header::AUTHORIZATION, basic_credentials(&self.id, secret)))
            }
            (ClientAuthMethod::Post, Some(secret)) => {
                fields.extend([("client_id", self.id.as_str()), ("client_secret", secret)]);
                None
            }
            (ClientAuthMethod::None | ClientAuthMethod::Basic | ClientAuthMethod::Post, _) => {
                fields.push(("client_id", &self.id));
                None
            }
        }
    }
}

/// HTTP Basic credentials, with id and secret form-encoded first (RFC 6749, 2.3.1).
pub(crate) fn basic_credentials(id: &str, secret: &str) -> String {
    let encoded =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}

/// A client's registration request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RegistrationRequest<'a> {
    /// The name that is shown to users.
    pub client_name: &'a str,
    /// Where the issuer sends browsers back to.
    pub redirect_uris: [&'a str; 1],
    /// The grants that the client uses.
    pub grant_types: [&'a str; 2],
    /// The responses that the client understands.
    pub response_types: [&'a str; 1],
    /// How the client authenticates.
    pub token_endpoint_auth_method: &'a str,
    /// `native` or `web`.
    pub application_type: &'a str,
    /// The scopes that the client may request.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub scope: &'a str,
}

impl<'a> RegistrationRequest<'a> {
    /// A request for a client that uses codes and refresh tokens, with one redirect URI.
    pub fn new(client_name: &'a str, redirect_uri: &'a str) -> Self {
        let local = muster_net::Url::parse(redirect_uri).is_ok_and(|url| url.is_loopback());
        Self {
            client_name,
            redirect_uris: [redirect_uri],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: ClientAuthMethod::None.name(),
            application_type: if local { "native" } else { "web" },
            scope: "",
        }
    }
}

#[derive(Debug, Deserialize)]
struct RegistrationResponse {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
    #[serde(default)]
    client_secret_expires_at: Option<u64>,
}

/// Registers a client. Also returns when its secret expires, in seconds since 1970, if it does.
pub async fn register(
    http: &HttpClient,
    policy: AddressPolicy,
    endpoint: &str,
    request: &RegistrationRequest<'_>,
) -> Result<(ClientIdentity, Option<u64>), TokenRequestError> {
    let body = serde_json::to_vec(request).unwrap_or_default();
    let response = http.send(HttpRequest::post(endpoint, policy, "application/json", body)).await;
    let response = response.map_err(|err| TokenRequestError::Unavailable(err.to_string()))?;
    if !matches!(response.status, StatusCode::OK | StatusCode::CREATED) {
        let reason = refusal(&response, &[]);
        return Err(TokenRequestError::Client(format!(
            "the issuer does not register us: {reason}"
        )));
    }
    let registered: RegistrationResponse =
        serde_json::from_slice(&response.body).map_err(|_| {
            TokenRequestError::Other(
                "the issuer's response to the registration cannot be read".to_owned(),
            )
        })?;
    let expires = registered.client_secret_expires_at.filter(|expires| *expires > 0);
    Ok((identity(registered, request.token_endpoint_auth_method), expires))
}

fn identity(response: RegistrationResponse, requested: &str) -> ClientIdentity {
    let RegistrationResponse { client_id, client_secret, token_endpoint_auth_method, .. } =
        response;
    let named = token_endpoint_auth_method.as_deref().and_then(ClientAuthMethod::from_name);
    let requested = ClientAuthMethod::from_name(requested).unwrap_or(ClientAuthMethod::None);
    let auth_method = match (&client_secret, named, requested) {
        (None, _, _) => ClientAuthMethod::None,
        (Some(_), Some(named), _) => named,
        (Some(_), None, ClientAuthMethod::None) => ClientAuthMethod::Basic,
        (Some(_), None, requested) => requested,
    };
    // A client id may have any characters except control characters, which could break a header or a page.
    let unsafe_id = client_id.chars().any(char::is_control);
    let id = if unsafe_id { printable(&client_id) } else { client_id };
    ClientIdentity { id, secret: client_secret.map(Secret::new), auth_method }
}
