//! What is wrong between an agent and its tools, hop by hop, and what to do about it.

mod checks;
mod servers;

use std::{path::Path, sync::Arc};

use muster_core::{cli::CliConfig, connect::Connector, request::ServerInfo};
use muster_engine::store::{Files, Store};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_mcp_client::McpConnector;
use serde::Serialize;

use crate::{
    remote::target::{Target, TargetError},
    secrets::{SecretConnector, SecretStore},
};

/// A place between an agent and a tool where things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hop {
    /// The files.
    Config,
    /// The programs of CLIs and local servers.
    Programs,
    /// The gateway and its port.
    Gateway,
    /// The certificates of remote servers.
    Certificates,
    /// The first words with each server.
    Handshake,
    /// The user's logins.
    Login,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Broken.
    Bad,
}

/// What one check found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The hop that was checked.
    pub hop: Hop,
    /// How the check ended.
    pub verdict: Verdict,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub said: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A check that passed.
    pub fn good(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { hop, verdict: Verdict::Good, what: what.into(), said: said.into(), fix: None }
    }

    /// A check that found something worth a look.
    pub fn warning(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, ..Self::good(hop, what, said) }
    }

    /// A check that failed.
    pub fn bad(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(hop, what, said) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// What to examine.
#[derive(Debug)]
pub struct DoctorOptions<'a> {
    /// The configuration directory.
    pub root: &'a Path,
    /// The gateway to look for.
    pub target: Result<Target, TargetError>,
    /// Whether to connect to the configured servers.
    pub servers: bool,
    /// The environment that commands are expanded from.
    pub environment: &'a Environment,
    /// The CLIs that are served where the configuration has none.
    pub bundled: &'a [Arc<CliConfig>],
}

/// Runs every check.
pub async fn examine(what: DoctorOptions<'_>) -> Vec<Finding> {
    let files = Store::new(what.root).load(&Files::default());
    let mut findings = checks::config(what.root, &files);
    findings.extend(checks::programs(&files, what.environment));
    match what.target {
        Ok(target) => findings.extend(checks::gateway(&target).await),
        Err(err) => findings.push(Finding::bad(Hop::Config, "gateway", err.to_string())),
    }
    let asked = match what.servers {
        true => ask_servers(what.root, &files).await,
        false => servers::Asked::default(),
    };
    findings.extend(checks::policies(&files, what.bundled, &asked.listings));
    findings.extend(asked.findings);
    findings.extend(checks::logins());
    findings
}

async fn ask_servers(root: &Path, files: &Files) -> servers::Asked {
    let launcher = Launcher::new();
    let identity = ServerInfo {
        name: "muster-doctor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let connector = Arc::new(McpConnector::new(launcher.clone(), &identity));
    let connect: Arc<dyn Connector> =
        Arc::new(SecretConnector::new(SecretStore::of(root), Arc::clone(&connector)));
    let known = files.servers.values().map(|file| Arc::clone(&file.server)).collect();
    let asked = servers::check(connect, known).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    asked
}
