//! The documents in which resources and issuers describe themselves.

use serde::{Deserialize, Serialize};

/// The metadata of a protected resource (RFC 9728).
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ResourceMetadata {
    /// The resource identifier.
    #[serde(default)]
    pub resource: Option<String>,
    /// The issuers whose tokens it accepts.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// The scopes that it supports.
    #[serde(default)]
    pub scopes_supported: Vec<String>,
}

/// The metadata of an authorization server (RFC 8414, or OpenID Connect discovery).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct IssuerMetadata {
    /// The issuer identifier.
    pub issuer: String,
    /// Where browsers are sent to log in.
    pub authorization_endpoint: String,
    /// Where codes and refresh tokens are redeemed.
    pub token_endpoint: String,
    /// Where clients register.
    #[serde(default)]
    pub registration_endpoint: Option<String>,
    /// Where tokens are revoked.
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
    /// The scopes that it supports.
    #[serde(default)]
    pub scopes_supported: Vec<String>,
    /// The PKCE methods that it supports.
    #[serde(default)]
    pub code_challenge_methods_supported: Vec<String>,
    /// How clients may authenticate.
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether a client id may be the URL of a client metadata document.
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    /// Whether its authorization responses name it (RFC 9207).
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}
