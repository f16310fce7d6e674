//! Checks of the local setup: files, programs, the gateway, logins.

use std::{collections::BTreeMap, net::TcpListener, path::Path};

use muster_config::mcpserver::ServerType;
use muster_core::connect::ServerListing;
use muster_engine::{
    cli_offer::{self, BundledCli},
    store::{FileProblem, Files, Severity},
    unmatched_rules,
};
use muster_exec::{environment::Environment, lookup};

use super::{Finding, Hop};
use crate::{
    env_vars,
    login::token_store::TokenStore,
    remote::{Credentials, Remote, error::RemoteError, target::Target},
    secrets::{self, SecretStore},
};

/// Checks the configuration files and the secrets they reference.
pub(super) fn config(root: &Path, files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !root.exists() {
        let message = "it does not exist: defaults are used";
        return vec![
            Finding::warning(Hop::Config, root.display().to_string(), message)
                .fix("import the servers of another client with `muster import`"),
        ];
    }
    findings.extend(files.problems.iter().map(file_finding));
    let secrets = SecretStore::of(root);
    for file in files.servers.values() {
        let spec = &file.server.spec;
        let values = spec.env.values().chain(spec.headers.values()).chain(&spec.args);
        for value in values.filter(|value| secrets::is_reference(value)) {
            if let Err(err) = secrets.resolve(value) {
                let subject = file.path.display().to_string();
                findings.push(Finding::bad(Hop::Config, subject, err.to_string()));
            }
        }
    }
    if findings.is_empty() {
        let clis = files.clis.as_ref().map_or(0, BTreeMap::len);
        let message = format!(
            "{} servers, {clis} CLIs, {} policies",
            files.servers.len(),
            files.policies.len()
        );
        findings.push(Finding::good(Hop::Config, root.display().to_string(), message));
    }
    findings
}

/// Checks the names of bundled CLIs in the settings.
pub(super) fn clis(root: &Path, files: &Files, bundled: &[BundledCli]) -> Vec<Finding> {
    let file = root.join("config.yaml").display().to_string();
    let unknown = cli_offer::unknown_names(&files.settings.clis, bundled);
    let findings = unknown.iter().map(|unknown| {
        let (setting, name) = (unknown.setting, unknown.name);
        let message = format!("`{setting}` names `{name}`, and there is no such bundled CLI");
        Finding::bad(Hop::Config, &file, message).fix(unknown.fix())
    });
    findings.collect()
}

fn file_finding(problem: &FileProblem) -> Finding {
    let path = problem.path.display();
    let subject = match problem.line {
        Some(line) => format!("{path}:{line}"),
        None => path.to_string(),
    };
    let finding = match problem.severity {
        Severity::Error => Finding::bad(Hop::Config, subject, &problem.message),
        Severity::Warning => Finding::warning(Hop::Config, subject, &problem.message),
    };
    match &problem.fix {
        Some(fix) => finding.fix(fix),
        None => finding,
    }
}

/// Checks for policy rules that match no tool or argument of the servers.
pub(super) fn policies(
    files: &Files,
    bundled: &[BundledCli],
    listings: &BTreeMap<String, ServerListing>,
) -> Vec<Finding> {
    unmatched_rules::examined(files, bundled, listings).iter().map(file_finding).collect()
}

/// Checks that the programs of CLI configs and stdio servers are installed.
pub(super) fn programs(files: &Files, environment: &Environment) -> Vec<Finding> {
    let path = env_vars::get("PATH");
    let mut findings = Vec::new();
    let mut check = |subject: String, command: &str, own_path: Option<&str>| {
        let program = environment.expand(command);
        let program = program.split_whitespace().next().unwrap_or_default().to_owned();
        let path = own_path.or(path.as_deref());
        findings.push(if lookup::exists(&program, path) {
            Finding::good(Hop::Programs, subject, format!("found `{program}`"))
        } else {
            Finding::bad(Hop::Programs, subject, format!("`{program}` was not found"))
                .fix("install it, or use its full path")
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

/// Checks whether the gateway runs, or could be started.
pub(super) async fn gateway(target: &Target) -> Vec<Finding> {
    let error = match Remote::connect(&target.as_operator(), &login(target).await).await {
        Ok(remote) => {
            let about = remote.about();
            let message = format!("{} {} responds", about.name, about.version);
            remote.close().await;
            return vec![Finding::good(Hop::Gateway, &target.url, message)];
        }
        Err(error) => error,
    };
    let (url, message) = (&target.url, error.to_string());
    vec![match error {
        RemoteError::AuthRequired { .. } | RemoteError::AuthExpired { .. } => {
            Finding::bad(Hop::Login, url, message)
                .fix(format!("log in with `muster auth login --endpoint {}`", target.url))
        }
        RemoteError::NotRunning => match port(target) {
            Some(port) if TcpListener::bind(("127.0.0.1", port)).is_err() => {
                Finding::bad(Hop::Gateway, url, format!("port {port} is in use by another program"))
                    .fix("stop that program, or set another `aggregator.port` in config.yaml")
            }
            _ => Finding::warning(Hop::Gateway, url, "no gateway is running")
                .fix("start one with `muster serve`"),
        },
        RemoteError::Insecure(_) => Finding::bad(Hop::Certificates, url, message)
            .fix("add the CA that signed it to the certificates this machine trusts"),
        _ => Finding::bad(Hop::Gateway, url, message)
            .fix("check the endpoint with `muster context list`"),
    }]
}

async fn login(target: &Target) -> Credentials {
    crate::login::stored_auth(target).await
}

fn port(target: &Target) -> Option<u16> {
    let authority = target.url.split_once("://")?.1.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

/// Checks the stored logins of the user.
pub(super) fn logins() -> Vec<Finding> {
    let Ok(tokens) = TokenStore::of_user() else { return Vec::new() };
    let findings = tokens.all().into_iter().map(|token| {
        let url = &token.server_url;
        let fix = format!("log in again with `muster auth login --endpoint {url}`");
        match (token.is_valid(), token.can_refresh()) {
            (true, _) => Finding::good(Hop::Login, url, "the login is valid"),
            (false, true) => {
                Finding::warning(Hop::Login, url, "the login has expired and will be refreshed")
            }
            (false, false) => Finding::bad(Hop::Login, url, "the login has expired").fix(fix),
        }
    });
    findings.collect()
}
