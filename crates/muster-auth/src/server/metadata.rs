//! The gateway's metadata documents: as a protected resource, and as an authorization server.

use serde::Serialize;

use super::Inner;
use crate::oauth::TOKEN_EXCHANGE;

#[derive(Serialize)]
pub(super) struct ResourceDocument {
    resource: String,
    authorization_servers: [String; 1],
    bearer_methods_supported: [&'static str; 1],
    scopes_supported: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ServerDocument {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    revocation_endpoint: String,
    introspection_endpoint: String,
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: Vec<&'static str>,
    code_challenge_methods_supported: [&'static str; 1],
    token_endpoint_auth_methods_supported: [&'static str; 3],
    scopes_supported: Vec<String>,
    authorization_response_iss_parameter_supported: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    registration_endpoint: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    client_id_metadata_document_supported: bool,
}

impl Inner {
    /// The protected resource metadata (RFC 9728) for the resource at a path.
    pub(super) fn resource_metadata(&self, path: &str) -> ResourceDocument {
        let base = &self.config.base_url;
        let default = if path.ends_with("/mcp") { format!("{base}/mcp") } else { base.clone() };
        ResourceDocument {
            resource: self.config.resource.clone().unwrap_or(default),
            authorization_servers: [base.clone()],
            bearer_methods_supported: ["header"],
            scopes_supported: self.scopes(),
        }
    }

    /// The authorization server metadata (RFC 8414).
    pub(super) fn server_metadata(&self) -> ServerDocument {
        let base = &self.config.base_url;
        let at = |path: &str| format!("{base}/oauth/{path}");
        ServerDocument {
            issuer: base.clone(),
            authorization_endpoint: at("authorize"),
            token_endpoint: at("token"),
            revocation_endpoint: at("revoke"),
            introspection_endpoint: at("introspect"),
            response_types_supported: ["code"],
            response_modes_supported: ["query"],
            grant_types_supported: {
                let broker = self.config.broker.as_ref().map(|_| TOKEN_EXCHANGE);
                ["authorization_code", "refresh_token"].into_iter().chain(broker).collect()
            },
            code_challenge_methods_supported: ["S256"],
            token_endpoint_auth_methods_supported: [
                "client_secret_basic",
                "client_secret_post",
                "none",
            ],
            scopes_supported: {
                let mut scopes = self.scopes();
                scopes.push("offline_access".to_owned());
                scopes
            },
            authorization_response_iss_parameter_supported: true,
            registration_endpoint: self.allows_registration().then(|| at("register")),
            client_id_metadata_document_supported: self.config.client_documents.is_some(),
        }
    }

    /// The scopes of the resource: those of the provider without `offline_access`, which is for the
    /// authorization server only.
    pub(super) fn scopes(&self) -> Vec<String> {
        let mut scopes = self.provider.scopes(None);
        scopes.retain(|scope| scope != "offline_access" && !scope.starts_with("audience:"));
        scopes
    }
}
