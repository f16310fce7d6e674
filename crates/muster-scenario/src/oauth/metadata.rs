//! The metadata documents of a mock provider.

use serde_json::{Value, json};

use super::{
    config::{Clients, Feature, MetadataLocation},
    provider_state::ProviderState,
};

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

impl ProviderState {
    /// Whether the metadata is served at this path.
    pub(super) fn is_metadata(&self, path: &str) -> bool {
        let issuer = &self.config.path;
        let places = [
            (MetadataLocation::Oauth, format!("{OAUTH}{issuer}")),
            (MetadataLocation::Openid, format!("{OPENID}{issuer}")),
            (MetadataLocation::OpenidAppended, format!("{issuer}{OPENID}")),
        ];
        let chosen = self.config.discovery;
        let mut open = places
            .iter()
            .filter(|(place, _)| chosen == MetadataLocation::All || chosen == *place)
            .map(|(_, place)| place);
        open.any(|place| place == path)
    }

    pub(super) fn metadata(&self) -> Value {
        let issuer = self.issuer();
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "jwks_uri": format!("{issuer}/jwks"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "scopes_supported": self.config.scopes,
            "response_types_supported": ["code"],
            "grant_types_supported": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [
                if self.key.is_some() { "ES256" } else { "none" },
            ],
            "token_endpoint_auth_methods_supported": [
                "none",
                "client_secret_basic",
                "client_secret_post",
            ],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        if let Some(document) = document.as_object_mut() {
            if self.config.has(Feature::WrongIssuer) {
                document.insert("issuer".to_owned(), "https://somebody.else.example".into());
            }
            if self.config.has(Feature::HidePkce) {
                document.shift_remove("code_challenge_methods_supported");
            }
            match self.config.clients {
                Clients::Any | Clients::Metadata => {
                    let key = "client_id_metadata_document_supported";
                    document.insert(key.to_owned(), true.into());
                }
                Clients::Dynamic => {
                    let endpoint = format!("{issuer}/register");
                    document.insert("registration_endpoint".to_owned(), endpoint.into());
                }
                Clients::Static => {}
            }
        }
        document
    }

    pub(super) fn keys(&self) -> Value {
        let keys: Vec<Value> = self.key.iter().map(super::jwt::SigningKey::public).collect();
        json!({ "keys": keys })
    }
}
