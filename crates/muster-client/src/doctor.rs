//! Checks the setup between an agent and its tools, hop by hop, and suggests fixes.

mod access;
mod addresses;
mod checks;
pub mod definitions;
mod exposure;
mod gateway;
mod local_servers;
mod probe;
mod program_file;
mod remote_servers;
pub mod repair;
mod servers;

use std::{path::Path, sync::Arc, time::Duration};

use muster_core::{connect::Connector, request::ServerInfo};
use muster_engine::{
    cli_offer::BundledCli,
    store::{ConfigStore, Files},
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_mcp_client::McpConnector;
use muster_net::TrustStore;
use serde::Serialize;

use self::{repair::Repair, servers::ServerChecks};
use crate::{
    remote::target::{Target, TargetError},
    secrets::{SecretConnector, SecretStore},
};

/// A hop on the way from an agent to a tool. The variants are in the order of the checks.
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
    /// It found something that may be a problem.
    Warning,
    /// It failed.
    Bad,
}

/// A finding of a check.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The hop that was checked.
    pub hop: Hop,
    /// The result.
    pub verdict: Verdict,
    /// A stable code for programs, such as `ok` or `url-without-scheme`. Messages may change.
    pub code: &'static str,
    /// The file, program, server or URL that was checked.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// A change to a file that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

impl Finding {
    /// A check that passed.
    pub fn good(hop: Hop, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            hop,
            verdict: Verdict::Good,
            code: "ok",
            subject: subject.into(),
            message: message.into(),
            fix: None,
            repair: None,
        }
    }

    /// A check that found something that may be a problem.
    pub fn warning(
        hop: Hop,
        code: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Warning, code, ..Self::good(hop, subject, message) }
    }

    /// A check that failed.
    pub fn bad(
        hop: Hop,
        code: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Bad, code, ..Self::good(hop, subject, message) }
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Adds the change to a file that fixes it, if there is one.
    #[must_use]
    pub fn repair(self, repair: Option<Repair>) -> Self {
        Self { repair, ..self }
    }
}

/// The options of the checks.
#[derive(Debug)]
pub struct DoctorOptions<'a> {
    /// The configuration directory.
    pub root: &'a Path,
    /// The gateway to connect to.
    pub target: Result<Target, TargetError>,
    /// Whether to connect to the configured servers.
    pub servers: bool,
    /// The timeout of one server.
    pub timeout: Duration,
    /// The environment that commands are expanded from.
    pub environment: &'a Environment,
    /// The bundled CLIs.
    pub bundled: &'a [BundledCli],
    /// The certificate authorities to trust.
    pub trust: TrustStore,
}

/// Runs every check. The gateway and all servers are checked concurrently.
pub async fn run(options: DoctorOptions<'_>) -> Vec<Finding> {
    let DoctorOptions { root, target, environment, bundled, trust, .. } = options;
    let files = ConfigStore::new(root).load(&Files::default());
    let mut findings = checks::config(root, &files, bundled, environment);
    findings.extend(checks::state(root));
    findings.extend(setup(root, &files, bundled));
    findings.extend(definitions::pending(&files));
    let broken = definitions::check(&files, environment);
    let programs = checks::programs(&files, environment, &broken);
    // Skip servers with failed checks: connecting would only report the same problem again.
    let skipped = |name: &str| {
        let about = |finding: &Finding| finding.subject == name && finding.verdict == Verdict::Bad;
        broken.iter().chain(&programs).any(about)
    };
    let gateway = async {
        match &target {
            Ok(target) => gateway::check(target, &files).await,
            Err(err) => {
                vec![Finding::bad(Hop::Config, "gateway-unknown", "gateway", err.to_string())]
            }
        }
    };
    let servers = async {
        match options.servers {
            true => check_servers(root, &files, options.timeout, trust, skipped).await,
            false => ServerChecks::default(),
        }
    };
    let (gateway, servers) = tokio::join!(gateway, servers);
    findings.extend(broken.iter().cloned());
    findings.extend(programs.iter().cloned());
    findings.extend(gateway);
    findings.extend(checks::rules(&files, bundled, &servers.listings));
    findings.extend(servers.findings);
    findings.extend(checks::logins());
    findings.sort_by_key(|finding| finding.hop);
    findings
}

/// Runs the checks of a gateway's setup that its own state does not show: of settings, tokens, policies, CLIs, and what the
/// definitions of servers expose. Reads files.
pub fn examine_setup(root: &Path, bundled: &[BundledCli]) -> Vec<Finding> {
    setup(root, &ConfigStore::new(root).load(&Files::default()), bundled)
}

fn setup(root: &Path, files: &Files, bundled: &[BundledCli]) -> Vec<Finding> {
    let mut findings = checks::clis(root, files, bundled);
    findings.extend(access::check(root, files));
    findings.extend(exposure::check(files, bundled));
    findings
}

async fn check_servers(
    root: &Path,
    files: &Files,
    limit: Duration,
    trust: TrustStore,
    skipped: impl Fn(&str) -> bool,
) -> ServerChecks {
    let launcher = Launcher::new();
    let identity = ServerInfo {
        name: "muster-doctor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let connector =
        Arc::new(McpConnector::new(launcher.clone(), &identity).with_trust_store(trust));
    let connect: Arc<dyn Connector> =
        Arc::new(SecretConnector::new(SecretStore::of(root), Arc::clone(&connector)));
    // Neither start nor contact a pending server: an agent may have written its command.
    let configured = files
        .servers
        .values()
        .filter(|file| !file.server.spec.is_pending() && !skipped(&file.server.name));
    let checks = servers::check(connect, configured.cloned().collect(), limit).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    checks
}
