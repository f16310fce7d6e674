//! The documents that issuers and resources describe themselves with.

use serde::{Deserialize, Serialize};

/// A protected resource (RFC 9728).
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Resource {
    #[serde(default)]
    pub(super) resource: Option<String>,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// An authorization server (RFC 8414, or `OpenID` Connect discovery).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The document that describes the gateway as a client.
#[derive(Debug, Serialize)]
pub(super) struct Ourselves<'a> {
    pub(super) client_id: &'a str,
    pub(super) client_name: &'static str,
    pub(super) client_uri: &'static str,
    pub(super) redirect_uris: [&'a str; 1],
    pub(super) grant_types: [&'static str; 2],
    pub(super) response_types: [&'static str; 1],
    pub(super) token_endpoint_auth_method: &'static str,
    pub(super) scope: &'a str,
    pub(super) software_id: &'static str,
    pub(super) software_version: &'static str,
}

/// What the gateway says when it registers itself (RFC 7591).
#[derive(Debug, Serialize)]
pub(super) struct Registration<'a> {
    pub(super) client_name: &'static str,
    pub(super) redirect_uris: [&'a str; 1],
    pub(super) grant_types: [&'static str; 2],
    pub(super) response_types: [&'static str; 1],
    pub(super) token_endpoint_auth_method: &'static str,
    pub(super) application_type: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) scope: &'a str,
}

/// What it is then known by.
#[derive(Debug, Deserialize)]
pub(super) struct Registered {
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_method: Option<String>,
    #[serde(default)]
    pub(super) client_secret_expires_at: Option<u64>,
}
