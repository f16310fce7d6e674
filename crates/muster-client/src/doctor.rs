//! Checks the setup between an agent and its tools, hop by hop, and suggests fixes.

mod access;
mod checks;
mod servers;

use std::{path::Path, sync::Arc};

use muster_core::{connect::Connector, request::ServerInfo};
use muster_engine::{
    cli_offer::BundledCli,
    store::{ConfigStore, Files},
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_mcp_client::McpConnector;
use serde::Serialize;

use crate::{
    remote::target::{Target, TargetError},
    secrets::{SecretConnector, SecretStore},
};

/// A part of the way from an agent to a tool. The order is the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hop {
    /// The configuration files.
    Config,
    /// The programs of CLIs and local servers.
    Programs,
    /// The gateway and its port.
    Gateway,
    /// The certificates of remote servers.
    Certificates,
    /// The MCP handshake with each server.
    Handshake,
    /// The user's logins.
    Login,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It passed.
    Good,
    /// It found something to look at.
    Warning,
    /// It failed.
    Bad,
}

/// What one check found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The hop that was checked.
    pub hop: Hop,
    /// The result.
    pub verdict: Verdict,
    /// The file, program, server or URL that was checked.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A check that passed.
    pub fn good(hop: Hop, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            hop,
            verdict: Verdict::Good,
            subject: subject.into(),
            message: message.into(),
            fix: None,
        }
    }

    /// A check that found something worth a look.
    pub fn warning(hop: Hop, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, ..Self::good(hop, subject, message) }
    }

    /// A check that failed.
    pub fn bad(hop: Hop, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(hop, subject, message) }
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// What to check.
#[derive(Debug)]
pub struct DoctorOptions<'a> {
    /// The configuration directory.
    pub root: &'a Path,
    /// The gateway to connect to.
    pub target: Result<Target, TargetError>,
    /// Whether to connect to the configured servers.
    pub servers: bool,
    /// The environment that commands are expanded from.
    pub environment: &'a Environment,
    /// The CLIs that are served where the configuration has none.
    pub bundled: &'a [BundledCli],
}

/// Runs every check.
pub async fn run(options: DoctorOptions<'_>) -> Vec<Finding> {
    let files = ConfigStore::new(options.root).load(&Files::default());
    let mut findings = checks::config(options.root, &files);
    findings.extend(checks::clis(options.root, &files, options.bundled));
    findings.extend(access::check(options.root, &files.settings));
    findings.extend(checks::programs(&files, options.environment));
    match options.target {
        Ok(target) => findings.extend(checks::gateway(&target).await),
        Err(err) => findings.push(Finding::bad(Hop::Config, "gateway", err.to_string())),
    }
    let checks = match options.servers {
        true => check_servers(options.root, &files).await,
        false => servers::ServerChecks::default(),
    };
    findings.extend(checks::policies(&files, options.bundled, &checks.listings));
    findings.extend(checks.findings);
    findings.extend(checks::logins());
    findings
}

async fn check_servers(root: &Path, files: &Files) -> servers::ServerChecks {
    let launcher = Launcher::new();
    let identity = ServerInfo {
        name: "muster-doctor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let connector = Arc::new(McpConnector::new(launcher.clone(), &identity));
    let connect: Arc<dyn Connector> =
        Arc::new(SecretConnector::new(SecretStore::of(root), Arc::clone(&connector)));
    let configured = files.servers.values().map(|file| Arc::clone(&file.server)).collect();
    let checks = servers::check(connect, configured).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    checks
}
