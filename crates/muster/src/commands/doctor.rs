//! `muster doctor`: what is wrong, and what to do about it.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::Args;
use muster_core::{connect::Connect, request::Identity};
use muster_engine::store::{Files, Store};
use muster_exec::launcher::Launcher;
use muster_mcp_client::Connector;
use serde::Serialize;

use crate::{
    contexts,
    doctor::{self, Finding, Verdict, checks, servers},
    error::CommandError,
    output::{Format, Mood, Printer},
    process,
    remote::target::{Target, Wish},
    secrets::{Secrets, WithSecrets},
};

/// Find out what is wrong
///
/// Checks the configuration, the programs it names, the gateway and its port, the certificates and the
/// first words of every server, and the user's logins. Ends with 0 when nothing is broken, else with
/// the code of the first broken hop: 10 configuration, 11 programs, 12 gateway, 13 certificates, 14
/// handshake, 15 login.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster doctor
  muster doctor --output json
  muster doctor --config-path ./gateway --no-servers")]
pub(crate) struct Doctor {
    /// The folder that holds config.yaml and the resource folders [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// The gateway that is looked for
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The context that names the gateway
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Start and ask no server
    #[arg(long)]
    no_servers: bool,
    /// How the findings are printed
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &Doctor) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(args))?;
    runtime.shutdown_background();
    let code = doctor::exit_code(&findings);
    match args.output {
        Format::Json => print_json(&findings, code)?,
        Format::Table => print(&findings)?,
    }
    Ok(ExitCode::from(code))
}

async fn examine(args: &Doctor) -> Result<Vec<Finding>, CommandError> {
    let root = match &args.config_path {
        Some(path) => path.clone(),
        None => contexts::home()?,
    };
    let files = Store::new(&root).load(&Files::default());
    let mut findings = checks::config(&root, &files);
    findings.extend(checks::programs(&files, &process::environment()));
    let wish = Wish {
        endpoint: args.endpoint.as_deref(),
        context: args.context.as_deref(),
        config_path: Some(&root),
    };
    match Target::resolve(wish) {
        Ok(target) => findings.extend(checks::gateway(&target).await),
        Err(err) => findings.push(Finding::bad(doctor::Hop::Config, "gateway", err.to_string())),
    }
    let asked = match args.no_servers {
        true => servers::Asked::default(),
        false => ask_servers(&root, &files).await,
    };
    findings.extend(checks::policies(&files, &asked.listings));
    findings.extend(asked.findings);
    findings.extend(checks::logins());
    Ok(findings)
}

async fn ask_servers(root: &std::path::Path, files: &Files) -> servers::Asked {
    let launcher = Launcher::new();
    let identity = Identity {
        name: "muster-doctor".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let connector = Arc::new(Connector::new(launcher.clone(), &identity));
    let connect: Arc<dyn Connect> =
        Arc::new(WithSecrets::new(Secrets::of(root), Arc::clone(&connector)));
    let known = files.servers.values().map(|file| Arc::clone(&file.server)).collect();
    let asked = servers::check(connect, known).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    asked
}

fn print(findings: &[Finding]) -> Result<(), CommandError> {
    let printer = Printer::standard();
    for found in findings {
        let (mark, mood) = match found.verdict {
            Verdict::Good => ("ok  ", Mood::Good),
            Verdict::Warning => ("look", Mood::Warning),
            Verdict::Bad => ("BAD ", Mood::Bad),
        };
        let mark = printer.paint(mood, mark);
        let hop = format!("{:?}", found.hop).to_lowercase();
        printer.line(&format!("{mark}  {hop:<12}  {}: {}", found.what, found.said))?;
        if let Some(fix) = &found.fix {
            printer.line(&format!("                    → {fix}"))?;
        }
    }
    let count = |verdict| findings.iter().filter(|found| found.verdict == verdict).count();
    let (bad, looks) = (count(Verdict::Bad), count(Verdict::Warning));
    printer.line(&format!("\n{} checks, {bad} broken, {looks} worth a look", findings.len()))
}

fn print_json(findings: &[Finding], exit_code: u8) -> Result<(), CommandError> {
    #[derive(Serialize)]
    struct Report<'a> {
        healthy: bool,
        exit_code: u8,
        findings: &'a [Finding],
    }
    Printer::standard().json(&Report { healthy: exit_code == 0, exit_code, findings })
}
