//! The bundled CLI configs.

use std::sync::Arc;

use muster_engine::cli_offer::BundledCli;

/// The name and text of each bundled config, sorted by name.
pub const CONFIGS: &[(&str, &str)] = &[
    ("cargo", include_str!("../../../configs/cargo.yaml")),
    ("claude", include_str!("../../../configs/claude.yaml")),
    ("curl", include_str!("../../../configs/curl.yaml")),
    ("docker", include_str!("../../../configs/docker.yaml")),
    ("fd", include_str!("../../../configs/fd.yaml")),
    ("files", include_str!("../../../configs/files.yaml")),
    ("gh", include_str!("../../../configs/gh.yaml")),
    ("git", include_str!("../../../configs/git.yaml")),
    ("journalctl", include_str!("../../../configs/journalctl.yaml")),
    ("jq", include_str!("../../../configs/jq.yaml")),
    ("kubectl", include_str!("../../../configs/kubectl.yaml")),
    ("make", include_str!("../../../configs/make.yaml")),
    ("npm", include_str!("../../../configs/npm.yaml")),
    ("obsidian", include_str!("../../../configs/obsidian.yaml")),
    ("pip", include_str!("../../../configs/pip.yaml")),
    ("python", include_str!("../../../configs/python.yaml")),
    ("rg", include_str!("../../../configs/rg.yaml")),
    ("systemctl", include_str!("../../../configs/systemctl.yaml")),
];

/// The skill that teaches an agent to write a config.
pub const SKILL: &str = include_str!("../../../skill/SKILL.md");

/// The text of a bundled config.
pub fn config(name: &str) -> Option<&'static str> {
    CONFIGS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Parses every bundled config.
pub fn clis() -> Vec<BundledCli> {
    let parsed = CONFIGS.iter().filter_map(|(name, text)| {
        let config = muster_config::cli::parse(text).ok()?.value;
        Some(BundledCli { name: (*name).into(), config: Arc::new(config) })
    });
    parsed.collect()
}
