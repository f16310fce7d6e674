//! The authentication settings of an MCP server.

use serde::{Deserialize, Serialize};

/// How to authenticate at a server that is reached over the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerAuth {
    /// The kind of authentication.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: AuthType,
    /// Whether to forward the caller's own token.
    #[serde(skip_serializing_if = "is_default")]
    pub forward_token: bool,
    /// Audiences that the forwarded token must have.
    #[serde(skip_serializing_if = "is_default")]
    pub required_audiences: Vec<String>,
    /// The token issuer, overriding discovery.
    #[serde(skip_serializing_if = "is_default")]
    pub authorization_server: Option<AuthorizationServer>,
    /// The exchange of the caller's token for one of the server's issuer.
    #[serde(skip_serializing_if = "is_default")]
    pub token_exchange: Option<TokenExchange>,
    /// Access through Teleport.
    #[serde(skip_serializing_if = "is_default")]
    pub teleport: Option<TeleportAuth>,
}

/// A kind of authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// Not set.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// OAuth 2.1.
    OAuth,
    /// Teleport machine identities.
    Teleport,
    /// No authentication.
    None,
}

/// A configured token issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationServer {
    /// Its identifier, a URL.
    pub issuer: String,
    /// The scopes to request; empty for those that the server asks for.
    #[serde(skip_serializing_if = "is_default")]
    pub scopes: String,
}

/// A token exchange (RFC 8693).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenExchange {
    /// Whether the exchange is enabled.
    pub enabled: bool,
    /// The token endpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub dex_token_endpoint: String,
    /// The issuer that the exchanged token must have.
    #[serde(skip_serializing_if = "is_default")]
    pub expected_issuer: String,
    /// The connector ID at the issuer.
    #[serde(skip_serializing_if = "is_default")]
    pub connector_id: String,
    /// The scopes to request.
    #[serde(skip_serializing_if = "is_default")]
    pub scopes: String,
    /// The client credentials.
    #[serde(skip_serializing_if = "is_default")]
    pub client_credentials_secret_ref: Option<SecretRef>,
}

/// A reference to a Kubernetes secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// The key of the client ID.
    #[serde(skip_serializing_if = "is_default")]
    pub client_id_key: String,
    /// The key of the client secret.
    #[serde(skip_serializing_if = "is_default")]
    pub client_secret_key: String,
}

/// A Teleport machine identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TeleportAuth {
    /// A directory that contains it.
    #[serde(skip_serializing_if = "is_default")]
    pub identity_dir: String,
    /// A secret that contains it.
    #[serde(skip_serializing_if = "is_default")]
    pub identity_secret_name: String,
    /// The namespace of the secret.
    #[serde(skip_serializing_if = "is_default")]
    pub identity_secret_namespace: String,
    /// The application name at Teleport.
    #[serde(skip_serializing_if = "is_default")]
    pub app_name: String,
}

/// Whether a value is the default, which is not serialized.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
