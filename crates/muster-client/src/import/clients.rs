//! The MCP clients that are known, and where they keep their servers.

use std::path::{Path, PathBuf};

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
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

/// How a file holds servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object below this key.
    Json(&'static str),
    /// Tables below this key.
    Toml(&'static str),
}

impl Client {
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

    /// The client of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Its name as its makers write it.
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

    /// How its file holds servers.
    pub const fn shape(self) -> Shape {
        match self {
            Self::ClaudeDesktop
            | Self::ClaudeCode
            | Self::Cursor
            | Self::Windsurf
            | Self::GeminiCli => Shape::Json("mcpServers"),
            Self::VsCode => Shape::Json("servers"),
            Self::Codex => Shape::Toml("mcp_servers"),
        }
    }

    /// Where its file may be, the usual place first.
    pub fn paths(self, home: &Path) -> Vec<PathBuf> {
        let places: &[&str] = match self {
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
        places.iter().map(|place| home.join(place)).collect()
    }

    /// Its file: the one that is there, else the usual place.
    pub fn path(self, home: &Path) -> PathBuf {
        let paths = self.paths(home);
        let there = paths.iter().find(|path| path.exists()).or(paths.first());
        there.cloned().unwrap_or_else(|| home.to_owned())
    }
}
