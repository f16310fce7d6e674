//! Checks of what is on this machine: files, programs, the gateway, logins.

use std::{collections::BTreeMap, net::TcpListener, path::Path, sync::Arc};

use muster_config::mcpserver::ServerType;
use muster_core::{cli::CliConfig, connect::ServerListing};
use muster_engine::{
    store::{FileProblem, Files, Severity},
    unmatched_rules,
};
use muster_exec::{environment::Environment, lookup};

use super::{Finding, Hop};
use crate::{
    env_vars,
    login::token_store::TokenStore,
    remote::{Auth, Remote, error::RemoteError, target::Target},
    secrets::{self, SecretStore},
};

/// The files of the configuration, and the secrets that they name.
pub(super) fn config(root: &Path, files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !root.exists() {
        let said = "it does not exist: the defaults hold";
        return vec![
            Finding::warning(Hop::Config, root.display().to_string(), said)
                .fix("take over the servers of another client with `muster import`"),
        ];
    }
    findings.extend(files.problems.iter().map(found));
    let secrets = SecretStore::of(root);
    for file in files.servers.values() {
        let spec = &file.server.spec;
        let values = spec.env.values().chain(spec.headers.values()).chain(&spec.args);
        for value in values.filter(|value| secrets::is_reference(value)) {
            if let Err(err) = secrets.fill(value) {
                let what = file.path.display().to_string();
                findings.push(Finding::bad(Hop::Config, what, err.to_string()));
            }
        }
    }
    if findings.is_empty() {
        let clis = files.clis.as_ref().map_or(0, BTreeMap::len);
        let said = format!(
            "{} servers, {clis} CLIs, {} policies",
            files.servers.len(),
            files.policies.len()
        );
        findings.push(Finding::good(Hop::Config, root.display().to_string(), said));
    }
    findings
}

fn found(problem: &FileProblem) -> Finding {
    let (what, said) = (problem.path.display().to_string(), &problem.message);
    let what = problem.line.map_or(what.clone(), |line| format!("{what}:{line}"));
    let finding = match problem.severity {
        Severity::Error => Finding::bad(Hop::Config, what, said),
        Severity::Warning => Finding::warning(Hop::Config, what, said),
    };
    match &problem.fix {
        Some(fix) => finding.fix(fix),
        None => finding,
    }
}

/// What policies say about tools and arguments that are not there, by what the servers list.
pub(super) fn policies(
    files: &Files,
    bundled: &[Arc<CliConfig>],
    listings: &BTreeMap<String, ServerListing>,
) -> Vec<Finding> {
    unmatched_rules::examined(files, bundled, listings).iter().map(found).collect()
}

/// The programs of CLI definitions and of local servers.
pub(super) fn programs(files: &Files, environment: &Environment) -> Vec<Finding> {
    let path = env_vars::get("PATH");
    let mut findings = Vec::new();
    let mut check = |what: String, command: &str, own_path: Option<&str>| {
        let program = environment.expand(command);
        let program = program.split_whitespace().next().unwrap_or_default().to_owned();
        let path = own_path.or(path.as_deref());
        findings.push(if lookup::exists(&program, path) {
            Finding::good(Hop::Programs, what, format!("`{program}` is there"))
        } else {
            Finding::bad(Hop::Programs, what, format!("`{program}` is not there"))
                .fix("install it, or write its whole path")
        });
    };
    for file in files.servers.values() {
        let spec = &file.server.spec;
        if spec.kind == ServerType::Stdio {
            check(
                file.server.name.clone(),
                &spec.command,
                spec.env.get("PATH").map(String::as_str),
            );
        }
    }
    for cli in files.clis.iter().flatten().map(|(_, cli)| cli) {
        check(cli.name.clone(), &cli.command, None);
    }
    findings
}

/// Whether a gateway runs, or could.
pub(super) async fn gateway(target: &Target) -> Vec<Finding> {
    let error = match Remote::connect(target, &login(target).await).await {
        Ok(remote) => {
            let about = remote.about();
            let said = format!("{} {} answers", about.name, about.version);
            remote.close().await;
            return vec![Finding::good(Hop::Gateway, &target.url, said)];
        }
        Err(error) => error,
    };
    let (what, said) = (&target.url, error.to_string());
    vec![match error {
        RemoteError::AuthRequired { .. } | RemoteError::AuthExpired { .. } => {
            Finding::bad(Hop::Login, what, said)
                .fix(format!("log in with `muster auth login --endpoint {}`", target.url))
        }
        RemoteError::NotRunning => match port(target) {
            Some(port) if TcpListener::bind(("127.0.0.1", port)).is_err() => {
                Finding::bad(Hop::Gateway, what, format!("port {port} is taken by another program"))
                    .fix("stop it, or choose another `aggregator.port` in config.yaml")
            }
            _ => Finding::warning(Hop::Gateway, what, "no gateway runs")
                .fix("start one with `muster serve`"),
        },
        _ if said.contains("TLS") || said.contains("certificate") => {
            Finding::bad(Hop::Certificates, what, said)
                .fix("the machine has to trust who signed it")
        }
        _ => Finding::bad(Hop::Gateway, what, said)
            .fix("see whether the address is right: `muster context list`"),
    }]
}

async fn login(target: &Target) -> Auth {
    crate::login::stored_auth(target).await
}

fn port(target: &Target) -> Option<u16> {
    let authority = target.url.split_once("://")?.1.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

/// The logins of the user that are kept.
pub(super) fn logins() -> Vec<Finding> {
    let Ok(tokens) = TokenStore::of_user() else { return Vec::new() };
    let findings = tokens.all().into_iter().map(|token| {
        let what = &token.server_url;
        let fix = format!("log in again with `muster auth login --endpoint {what}`");
        match (token.is_valid(), token.can_renew()) {
            (true, _) => Finding::good(Hop::Login, what, "the login is good"),
            (false, true) => {
                Finding::warning(Hop::Login, what, "the login has expired and will be renewed")
            }
            (false, false) => Finding::bad(Hop::Login, what, "the login has expired").fix(fix),
        }
    });
    findings.collect()
}
