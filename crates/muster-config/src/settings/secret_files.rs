//! The files of secrets that the settings name.

use super::{OAuth, Settings};

impl Settings {
    /// The paths of the files that secrets are read from, as written.
    pub fn secret_files(&self) -> impl Iterator<Item = &str> {
        let OAuth { server, mcp_client } = &self.aggregator.oauth;
        let named = [
            &mcp_client.client_secret_file,
            &server.dex.client_secret_file,
            &server.google.client_secret_file,
            &server.registration_token_file,
            &server.encryption_key_file,
            &server.storage.valkey.password_file,
            &self.replicas.valkey.password_file,
            &self.replicas.encryption_key_file,
        ];
        named.into_iter().map(String::as_str).filter(|name| !name.is_empty())
    }
}
