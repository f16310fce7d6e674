//! Checks of the local setup: files, programs, rules, logins.

use std::{collections::BTreeMap, path::Path};

use muster_config::mcpserver::ServerType;
use muster_core::connect::ServerListing;
use muster_engine::{
    cli_offer::{self, BundledCli},
    store::{FileProblem, Files, Severity},
    unmatched_rules,
};
use muster_exec::{environment::Environment, lookup};

use super::{Finding, Hop, program_file};
use crate::{
    env_vars,
    login::token_store::TokenStore,
    secrets::{self, SecretStore},
    user_dirs,
};

/// Checks the configuration files and the secrets they reference.
pub(super) fn config(
    root: &Path,
    files: &Files,
    bundled: &[BundledCli],
    environment: &Environment,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !root.exists() {
        let message = "it does not exist: defaults are used";
        return vec![
            Finding::warning(Hop::Config, "no-config", root.display().to_string(), message)
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
                let finding = Finding::bad(Hop::Config, "secret-missing", subject, err.to_string());
                let name = secrets::referenced(value).into_iter().next().unwrap_or_default();
                let file = root.join("secrets").join(name);
                findings.push(finding.fix(format!("write the secret to {}", file.display())));
            }
        }
    }
    if findings.is_empty() {
        let own = files.clis.as_ref().map_or(0, BTreeMap::len);
        let path = environment.get("PATH");
        let offered = cli_offer::offered(files, bundled, |cli| {
            let words = environment.command_words(&cli.command);
            words.first().is_some_and(|program| lookup::exists(program, path))
        });
        let message = format!(
            "{} servers, {own} CLIs of your own and {} bundled ones, {} policies",
            files.servers.len(),
            offered.len().saturating_sub(own),
            files.policies.len()
        );
        findings.push(Finding::good(Hop::Config, root.display().to_string(), message));
    }
    findings
}

/// Checks that the gateway of a configuration directory can keep its state.
pub(super) fn state(root: &Path) -> Option<Finding> {
    let folder = user_dirs::state_folder(root, None).ok()?;
    if folder.is_usable() {
        return None;
    }
    let message = "the gateway cannot write its state there: executions, events and stored outputs are lost when it ends, and \
                   it does not start in the background";
    let path = folder.path().display().to_string();
    Some(
        Finding::warning(Hop::Config, "state-not-writable", path, message)
            .fix("name a folder that you may write to: MUSTER_STATE_PATH, or `--state-path` of `muster serve`"),
    )
}

/// Checks the names of bundled CLIs in the settings.
pub(super) fn clis(root: &Path, files: &Files, bundled: &[BundledCli]) -> Vec<Finding> {
    let file = root.join("config.yaml").display().to_string();
    let unknown = cli_offer::unknown_names(&files.settings.clis, bundled);
    let findings = unknown.iter().map(|unknown| {
        let (setting, name) = (unknown.setting, unknown.name);
        let message = format!("`{setting}` names `{name}`, and there is no such bundled CLI");
        Finding::bad(Hop::Config, "cli-unknown", &file, message).fix(unknown.fix())
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
        Severity::Error => Finding::bad(Hop::Config, "file-invalid", subject, &problem.message),
        Severity::Warning => {
            Finding::warning(Hop::Config, "file-warning", subject, &problem.message)
        }
    };
    match &problem.fix {
        Some(fix) => finding.fix(fix),
        None => finding,
    }
}

/// Checks for policy rules and workflow steps that name tools that do not exist.
pub(super) fn rules(
    files: &Files,
    bundled: &[BundledCli],
    listings: &BTreeMap<String, ServerListing>,
) -> Vec<Finding> {
    unmatched_rules::examined(files, bundled, listings)
        .iter()
        .chain(&unmatched_rules::missing_tools(files, bundled, listings))
        .map(file_finding)
        .collect()
}

/// Checks that the programs of CLI configs and stdio servers are installed. Servers with a broken command are left out.
pub(super) fn programs(
    files: &Files,
    environment: &Environment,
    broken: &[Finding],
) -> Vec<Finding> {
    let path = env_vars::get("PATH");
    let mut findings = Vec::new();
    let mut check = |subject: String, command: &str, own_path: Option<&str>| {
        let program = environment.expand(command);
        let program = program.split_whitespace().next().unwrap_or_default().to_owned();
        let path = own_path.or(path.as_deref());
        findings.push(match lookup::find(&program, path) {
            Some(file) => program_file::check(&subject, &file, path).unwrap_or_else(|| {
                Finding::good(Hop::Programs, subject, format!("found `{program}`"))
            }),
            None => missing(subject, &program),
        });
    };
    for file in files.servers.values() {
        let (name, spec) = (&file.server.name, &file.server.spec);
        let is_broken = broken
            .iter()
            .any(|found| found.subject == *name && found.code == "command-with-arguments");
        if spec.kind == ServerType::Stdio && !is_broken {
            check(name.clone(), &spec.command, spec.env.get("PATH").map(String::as_str));
        }
    }
    for cli in files.clis.iter().flatten().map(|(_, cli)| cli) {
        check(cli.name.clone(), &cli.command, None);
    }
    findings
}

/// The finding for a program that cannot be started, with how to install it.
fn missing(subject: String, program: &str) -> Finding {
    if Path::new(program).is_file() {
        let message = format!("`{program}` is not executable");
        return Finding::bad(Hop::Programs, "program-not-executable", subject, message)
            .fix(format!("chmod +x {program}"));
    }
    if Path::new(program).is_dir() {
        let message = format!("`{program}` is a directory");
        return Finding::bad(Hop::Programs, "program-missing", subject, message)
            .fix("name the program itself in `command`");
    }
    let fix = installation(program);
    let message = format!("`{program}` was not found");
    Finding::bad(Hop::Programs, "program-missing", subject, message).fix(fix)
}

/// How to get a program that was not found.
pub(super) fn installation(program: &str) -> String {
    match program {
        "npx" | "npm" | "node" => "install Node.js: https://nodejs.org".to_owned(),
        "uvx" | "uv" => "install uv: https://docs.astral.sh/uv".to_owned(),
        "docker" => "install Docker: https://docs.docker.com/get-docker".to_owned(),
        "bunx" | "bun" => "install Bun: https://bun.sh".to_owned(),
        "deno" => "install Deno: https://deno.com".to_owned(),
        "python" if lookup::exists("python3", env_vars::get("PATH").as_deref()) => {
            "write `command: python3`, which is installed".to_owned()
        }
        "python" | "python3" | "pipx" => "install Python: https://www.python.org".to_owned(),
        program if program.contains('/') => "correct the path of `command`".to_owned(),
        _ => "install it, or use its full path".to_owned(),
    }
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
                let message = "the login has expired and will be refreshed";
                Finding::warning(Hop::Login, "login-refreshes", url, message)
            }
            (false, false) => {
                Finding::bad(Hop::Login, "login-expired", url, "the login has expired").fix(fix)
            }
        }
    });
    findings.collect()
}
