//! MCP servers named on the command line, beside CLI configs.

use std::{fs, path::Path};

use muster_config::{
    mcp_json,
    mcpserver::{self, McpServer, McpServerSpec},
    yaml::{self, NodeValue},
};

use super::load;
use crate::error::CommandError;

/// The sources that the command line names: words for CLI configs, and MCP servers.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) clis: Vec<String>,
    pub(super) servers: Vec<McpServer>,
}

/// Sorts the words by what they name. A JSON file is an agent's configuration with entries of servers, a
/// YAML file may describe a server, and everything else is a CLI config.
pub(super) fn tell_apart(words: &[String]) -> Result<Named, CommandError> {
    let mut named = Named::default();
    for word in words {
        if word.ends_with(".json") {
            named.servers.extend(entries(word)?);
        } else if let Some(server) = described(word)? {
            named.servers.push(server);
        } else {
            named.clis.push(word.clone());
        }
    }
    Ok(named)
}

/// Whether a file that is not a valid CLI config describes MCP servers.
pub(super) fn is_meant(word: &str, text: &str) -> bool {
    match word.ends_with(".json") {
        true => mcp_json::parse(text).is_ok(),
        false => describes_server(text) && mcpserver::parse(text, "x").is_ok(),
    }
}

fn entries(word: &str) -> Result<Vec<McpServer>, CommandError> {
    let cannot = |reason: String| CommandError::new(format!("cannot load `{word}`: {reason}"));
    let text = fs::read_to_string(word).map_err(|err| cannot(err.to_string()))?;
    let entries = mcp_json::parse(&text).map_err(|err| cannot(err.to_string()))?;
    let server = |(name, endpoint)| McpServer::new(name, "default", McpServerSpec::at(endpoint));
    Ok(entries.into_iter().map(server).collect())
}

/// Reads the server that a file describes; `None` if it is a CLI config or invalid. An invalid file is then loaded as a
/// config, which reports its problems.
fn described(word: &str) -> Result<Option<McpServer>, CommandError> {
    let path = Path::new(word);
    let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
    if !describes_server(&text) {
        return Ok(None);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let loaded = mcpserver::parse(&text, &stem)
        .map_err(|err| load::refused("MCP server", word, &err.into()))?;
    Ok(Some(loaded.value))
}

fn describes_server(text: &str) -> bool {
    let Ok(document) = yaml::parse(text) else { return false };
    let NodeValue::Map(members) = &document.value else { return false };
    let value = |key: &str| {
        members.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    };
    match value("kind").and_then(yaml::Node::as_text) {
        Some(kind) => kind == "MCPServer",
        None => value("tools").is_none() && (value("url").is_some() || value("type").is_some()),
    }
}
