//! The supported MCP clients and their configuration files.

use std::path::{Path, PathBuf};

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpClient {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// VS Code
    VsCode,
    /// Windsurf
    Windsurf,
    /// Codex
    Codex,
    /// Gemini CLI
    GeminiCli,
}

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFormat {
    /// JSON, with the servers in an object under this key.
    Json(&'static str),
    /// TOML, with the servers in tables under this key.
    Toml(&'static str),
}

impl McpClient {
    /// Every client.
    pub const ALL: [Self; 7] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Codex,
        Self::GeminiCli,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini",
        }
    }

    /// Finds a client by its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Its product name.
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
        }
    }

    /// The format of its configuration file.
    pub const fn format(self) -> ConfigFormat {
        match self {
            Self::ClaudeDesktop
            | Self::ClaudeCode
            | Self::Cursor
            | Self::Windsurf
            | Self::GeminiCli => ConfigFormat::Json("mcpServers"),
            Self::VsCode => ConfigFormat::Json("servers"),
            Self::Codex => ConfigFormat::Toml("mcp_servers"),
        }
    }

    /// The paths of its configuration file, the most common first.
    pub fn paths(self, home: &Path) -> Vec<PathBuf> {
        let paths: &[&str] = match self {
            Self::ClaudeDesktop => &[
                ".config/Claude/claude_desktop_config.json",
                "Library/Application Support/Claude/claude_desktop_config.json",
            ],
            Self::ClaudeCode => &[".claude.json"],
            Self::Cursor => &[".cursor/mcp.json"],
            Self::VsCode => {
                &[".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"]
            }
            Self::Windsurf => &[".codeium/windsurf/mcp_config.json"],
            Self::Codex => &[".codex/config.toml"],
            Self::GeminiCli => &[".gemini/settings.json"],
        };
        paths.iter().map(|path| home.join(path)).collect()
    }

    /// The path of its configuration file: the first that exists, else the most common.
    pub fn path(self, home: &Path) -> PathBuf {
        let paths = self.paths(home);
        let found = paths.iter().find(|path| path.exists()).or(paths.first());
        found.cloned().unwrap_or_else(|| home.to_owned())
    }
}
