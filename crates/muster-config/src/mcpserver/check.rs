//! Validation of MCP server definitions.

use muster_core::{name::InvalidName, server_auth::AuthType};
use thiserror::Error;

use super::{McpServerSpec, ServerType};

/// Why a definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidMcpServer {
    /// Its name cannot be used.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// It has no type.
    #[error("type is required")]
    NoType,
    /// A process without a command.
    #[error("command is required for stdio type")]
    NoCommand,
    /// A child process with authentication.
    #[error(
        "auth configuration is only supported for remote server types (streamable-http or sse)"
    )]
    AuthOnStdio,
    /// A remote server without a URL.
    #[error("url is required for streamable-http and sse types")]
    NoUrl,
    /// An unknown transport.
    #[error("unsupported MCP server type: {0} (supported: stdio, streamable-http, sse)")]
    UnsupportedType(String),
    /// Teleport without an identity.
    #[error("teleport auth requires either identityDir or identitySecretName")]
    NoIdentity,
    /// Teleport with two identities.
    #[error("teleport auth: identityDir and identitySecretName are mutually exclusive")]
    TwoIdentities,
    /// A prefix that is not valid in tool names.
    #[error(
        "invalid toolPrefix '{0}': it must begin with a letter and hold only letters, digits, `_` and `-`"
    )]
    ToolPrefix(String),
}

/// The transport of that name.
pub fn server_type(word: &str) -> Result<ServerType, InvalidMcpServer> {
    match ServerType::named(word) {
        Some(kind) => Ok(kind),
        None if word.is_empty() => Err(InvalidMcpServer::NoType),
        None => Err(InvalidMcpServer::UnsupportedType(word.to_owned())),
    }
}

impl McpServerSpec {
    /// Checks that the fields fit the transport.
    pub fn check(&self) -> Result<(), InvalidMcpServer> {
        let auth = self.auth.as_ref();
        let kind = auth.map(|auth| auth.kind).unwrap_or_default();
        match self.kind.is_local() {
            true if self.command.is_empty() => return Err(InvalidMcpServer::NoCommand),
            true if !matches!(kind, AuthType::Unset | AuthType::None) => {
                return Err(InvalidMcpServer::AuthOnStdio);
            }
            false if self.url.is_empty() => return Err(InvalidMcpServer::NoUrl),
            true | false => (),
        }
        if kind == AuthType::Teleport {
            let teleport = auth.and_then(|auth| auth.teleport.clone()).unwrap_or_default();
            let dir = !teleport.identity_dir.is_empty();
            let secret = !teleport.identity_secret_name.is_empty();
            match (dir, secret) {
                (false, false) => return Err(InvalidMcpServer::NoIdentity),
                (true, true) => return Err(InvalidMcpServer::TwoIdentities),
                (true, false) | (false, true) => (),
            }
        }
        let usual = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let prefix = &self.tool_prefix;
        let begins = prefix.starts_with(|letter: char| letter.is_ascii_alphabetic());
        match prefix.is_empty() || (begins && prefix.chars().all(usual)) {
            true => Ok(()),
            false => Err(InvalidMcpServer::ToolPrefix(prefix.clone())),
        }
    }
}
