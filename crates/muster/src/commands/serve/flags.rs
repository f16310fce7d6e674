//! The flags about logins, which override the configuration.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use muster_config::settings::OAuth;
use muster_net::TrustStore;

use crate::error::CommandError;

/// The flags about logins.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LoginFlags {
    /// Let users log in to the servers behind the gateway
    #[arg(long)]
    oauth_mcp_client: bool,
    /// The public URL of the gateway, for logins at servers
    #[arg(long, value_name = "URL")]
    oauth_mcp_client_public_url: Option<String>,
    /// The OAuth client ID of the gateway at issuers
    #[arg(long, value_name = "ID")]
    oauth_mcp_client_id: Option<String>,
    /// Require clients to log in
    #[arg(long)]
    oauth_server: bool,
    /// The public URL of the protected gateway
    #[arg(long, value_name = "URL")]
    oauth_server_base_url: Option<String>,
    /// Additional CA certificates to trust, in PEM format: for servers, issuers and storage
    #[arg(long, value_name = "FILE")]
    extra_ca_file: Option<PathBuf>,
}

impl LoginFlags {
    /// The arguments that pass these flags on to another process.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let flags =
            [(self.oauth_mcp_client, "--oauth-mcp-client"), (self.oauth_server, "--oauth-server")];
        arguments.extend(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| (*flag).into()));
        let file = self.extra_ca_file.as_ref();
        let file = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        let pairs = [
            (
                "--oauth-mcp-client-public-url",
                self.oauth_mcp_client_public_url.clone().map(OsString::from),
            ),
            ("--oauth-mcp-client-id", self.oauth_mcp_client_id.clone().map(OsString::from)),
            ("--oauth-server-base-url", self.oauth_server_base_url.clone().map(OsString::from)),
            ("--extra-ca-file", file.map(PathBuf::into_os_string)),
        ];
        for (flag, value) in pairs {
            arguments.extend(value.map(|value| [flag.into(), value]).into_iter().flatten());
        }
        arguments
    }

    /// Overrides a configuration with the flags.
    pub(super) fn over(&self, config: &OAuth) -> OAuth {
        let mut oauth = config.clone();
        let put = |place: &mut String, flag: &Option<String>| {
            if let Some(value) = flag.as_ref().filter(|value| !value.is_empty()) {
                place.clone_from(value);
            }
        };
        oauth.mcp_client.enabled |= self.oauth_mcp_client;
        put(&mut oauth.mcp_client.public_url, &self.oauth_mcp_client_public_url);
        put(&mut oauth.mcp_client.client_id, &self.oauth_mcp_client_id);
        oauth.server.enabled |= self.oauth_server;
        put(&mut oauth.server.base_url, &self.oauth_server_base_url);
        oauth
    }

    /// The certificate authorities that outgoing connections trust.
    pub(super) fn trust(&self) -> Result<TrustStore, CommandError> {
        trust(self.extra_ca_file.as_deref()).map_err(|reason| {
            CommandError::new(format!("failed to initialize application: {reason}"))
                .hint(TRUST_HINT)
        })
    }
}

/// The fix for a file of certificates that cannot be used.
pub(in crate::commands) const TRUST_HINT: &str = "name a file with certificates in PEM format";

/// The certificate authorities of the system, and those of `--extra-ca-file`; or the reason why it cannot be used.
pub(in crate::commands) fn trust(file: Option<&Path>) -> Result<TrustStore, String> {
    let Some(path) = file else { return Ok(TrustStore::system()) };
    let unusable = |reason: String| format!("--extra-ca-file {}: {reason}", path.display());
    let pem = fs::read(path).map_err(|err| unusable(err.to_string()))?;
    TrustStore::system().with_pem(&pem).map_err(|err| unusable(err.to_string()))
}

#[cfg(test)]
mod tests {
    use muster_config::settings::OAuth;

    use super::LoginFlags;

    #[test]
    fn flags_override_the_file() {
        let mut config = OAuth::default();
        config.server.enabled = true;
        config.server.base_url = "https://a.example".to_owned();
        config.mcp_client.client_id = "kept".to_owned();
        let flags = LoginFlags {
            oauth_mcp_client: true,
            oauth_mcp_client_public_url: Some("https://b.example".to_owned()),
            oauth_mcp_client_id: Some(String::new()),
            ..LoginFlags::default()
        };
        let oauth = flags.over(&config);
        assert!(oauth.server.enabled && oauth.mcp_client.enabled);
        assert_eq!(oauth.server.base_url, "https://a.example");
        assert_eq!(oauth.mcp_client.public_url, "https://b.example");
        assert_eq!(oauth.mcp_client.client_id, "kept");
    }
}
