//! How an MCP server wants to be logged in to.

use serde::{Deserialize, Serialize};

/// How a login goes. Only servers that are reached over the network have one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerAuth {
    /// Which kind.
    #[serde(rename = "type", skip_serializing_if = "nothing")]
    pub kind: AuthType,
    /// Whether the caller's own token is passed on.
    #[serde(skip_serializing_if = "nothing")]
    pub forward_token: bool,
    /// Audiences that the token must name.
    #[serde(skip_serializing_if = "nothing")]
    pub required_audiences: Vec<String>,
    /// Who issues tokens for it, whatever it says itself.
    #[serde(skip_serializing_if = "nothing")]
    pub authorization_server: Option<AuthorizationServer>,
    /// The caller's token is exchanged for one of the server's own issuer.
    #[serde(skip_serializing_if = "nothing")]
    pub token_exchange: Option<TokenExchange>,
    /// The way through Teleport.
    #[serde(skip_serializing_if = "nothing")]
    pub teleport: Option<TeleportAuth>,
}

/// Which kind of login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// Nothing was said.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// OAuth 2.1.
    OAuth,
    /// Teleport machine identities.
    Teleport,
    /// None, explicitly.
    None,
}

/// Who issues tokens for a server that does not say so itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationServer {
    /// Its name, an address.
    pub issuer: String,
    /// What is asked for there; empty for what the server wants.
    #[serde(skip_serializing_if = "nothing")]
    pub scopes: String,
}

/// An exchange of tokens by RFC 8693.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenExchange {
    /// Whether it is done.
    pub enabled: bool,
    /// Where.
    #[serde(skip_serializing_if = "nothing")]
    pub dex_token_endpoint: String,
    /// Who must have issued what comes back.
    #[serde(skip_serializing_if = "nothing")]
    pub expected_issuer: String,
    /// The connector at the issuer.
    #[serde(skip_serializing_if = "nothing")]
    pub connector_id: String,
    /// What is asked for.
    #[serde(skip_serializing_if = "nothing")]
    pub scopes: String,
    /// Where our own credentials are.
    #[serde(skip_serializing_if = "nothing")]
    pub client_credentials_secret_ref: Option<SecretRef>,
}

/// A secret in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "nothing")]
    pub namespace: String,
    /// The key of the client's id.
    #[serde(skip_serializing_if = "nothing")]
    pub client_id_key: String,
    /// The key of the client's secret.
    #[serde(skip_serializing_if = "nothing")]
    pub client_secret_key: String,
}

/// A machine identity that opens Teleport.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TeleportAuth {
    /// A directory that holds it.
    #[serde(skip_serializing_if = "nothing")]
    pub identity_dir: String,
    /// A secret that holds it.
    #[serde(skip_serializing_if = "nothing")]
    pub identity_secret_name: String,
    /// The namespace of the secret.
    #[serde(skip_serializing_if = "nothing")]
    pub identity_secret_namespace: String,
    /// The application behind Teleport.
    #[serde(skip_serializing_if = "nothing")]
    pub app_name: String,
}

/// Whether a value is the one that is not written.
fn nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
