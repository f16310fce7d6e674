//! `muster doctor`: checks the setup and suggests fixes.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use muster_client::{
    doctor::{self, DoctorOptions, Finding, Hop, Verdict},
    remote::target::{Target, TargetOptions},
    user_dirs,
};
use serde::Serialize;

use super::serve::flags::{TRUST_HINT, trust};
use crate::{
    bundled,
    error::CommandError,
    output::{self, Format, Printer, Tone, spinner},
    process,
};

/// Check the setup and suggest fixes
///
/// Checks the configuration, the programs it uses, the gateway and its port, the certificate and MCP
/// handshake of every server, and your logins. Exits with 0 if nothing failed, else with the code of the
/// first failed hop: 10 configuration, 11 programs, 12 gateway, 13 certificates, 14 handshake, 15 login.
///
/// With --fix, changes files where the fix is mechanical. Each change is shown first, and comments are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster doctor
  muster doctor --fix
  muster doctor --output json
  muster doctor --config-path ./gateway --no-servers")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct Doctor {
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// The endpoint of the gateway to check
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The context of the gateway to check
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Do not start or connect to servers
    #[arg(long)]
    no_servers: bool,
    /// How long each server may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Additional CA certificates to trust, in PEM format, as `muster serve` does
    #[arg(long, value_name = "FILE")]
    extra_ca_file: Option<PathBuf>,
    /// Fix what can be fixed by changing a file
    #[arg(long)]
    fix: bool,
    /// Change files without asking
    #[arg(short, long, requires = "fix")]
    yes: bool,
    /// The output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &Doctor) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(spinner::around("Checking...", false, examine(args)));
    runtime.shutdown_background();
    let findings = findings?;
    let code = exit_code(&findings);
    match args.output {
        Format::Json => print_json(&findings, code)?,
        Format::Table => print(&findings)?,
    }
    if args.fix {
        return repair(&findings, args);
    }
    Ok(ExitCode::from(code))
}

/// Applies the repairs of all findings. Returns the exit code of the remaining findings.
fn repair(findings: &[Finding], args: &Doctor) -> Result<ExitCode, CommandError> {
    let is_open = |finding: &&Finding| finding.repair.is_some();
    let mut left: Vec<Finding> =
        findings.iter().filter(|finding| !is_open(finding)).cloned().collect();
    for finding in findings.iter().filter(is_open) {
        let Some(repair) = &finding.repair else { continue };
        output::to_stderr(&format!("\n{}\n", repair.describe()));
        if !args.yes && !is_confirmed()? {
            left.push(finding.clone());
            continue;
        }
        match repair.apply() {
            Ok(()) => output::to_stderr("changed\n"),
            Err(reason) => {
                output::warn(&reason);
                left.push(finding.clone());
            }
        }
    }
    Ok(ExitCode::from(exit_code(&left)))
}

fn is_confirmed() -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(CommandError::new("changing files must be confirmed")
            .hint("add --yes to change them without a question"));
    }
    output::confirm("Change the file? [y/N] ")
}

async fn examine(args: &Doctor) -> Result<Vec<Finding>, CommandError> {
    let root = match &args.config_path {
        Some(path) => path.clone(),
        None => user_dirs::config()?,
    };
    let target = Target::resolve(TargetOptions {
        endpoint: args.endpoint.as_deref(),
        context: args.context.as_deref(),
        config_path: Some(&root),
    });
    let bundled = bundled::clis();
    let examination = DoctorOptions {
        root: &root,
        target,
        servers: !args.no_servers,
        timeout: Duration::from_secs(args.timeout),
        environment: &process::environment(),
        bundled: &bundled,
        trust: trust(args.extra_ca_file.as_deref())
            .map_err(|reason| CommandError::new(reason).hint(TRUST_HINT))?,
    };
    Ok(doctor::run(examination).await)
}

/// The exit code of the first failed hop.
fn exit_code(findings: &[Finding]) -> u8 {
    let failed = findings.iter().filter(|found| found.verdict == Verdict::Bad);
    failed.map(|found| found.hop).min().map_or(0, |hop| match hop {
        Hop::Config => 10,
        Hop::Programs => 11,
        Hop::Gateway => 12,
        Hop::Certificates => 13,
        Hop::Handshake => 14,
        Hop::Login => 15,
    })
}

fn print(findings: &[Finding]) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    for found in findings {
        let (mark, tone) = match found.verdict {
            Verdict::Good => ("ok  ", Tone::Good),
            Verdict::Warning => ("warn", Tone::Warning),
            Verdict::Bad => ("FAIL", Tone::Bad),
        };
        let mark = printer.paint(tone, mark);
        let hop = format!("{:?}", found.hop).to_lowercase();
        printer.line(&format!("{mark}  {hop:<12}  {}: {}", found.subject, found.message))?;
        if let Some(fix) = &found.fix {
            printer.line(&format!("                    → {fix}"))?;
        }
    }
    let count = |verdict| findings.iter().filter(|found| found.verdict == verdict).count();
    let (bad, warnings) = (count(Verdict::Bad), count(Verdict::Warning));
    printer.line(&format!("\n{} checks, {bad} failed, {warnings} warnings", findings.len()))?;
    match findings.iter().filter(|found| found.repair.is_some()).count() {
        0 => Ok(()),
        count => printer.line(&format!("{count} of them can be fixed by `muster doctor --fix`")),
    }
}

fn print_json(findings: &[Finding], exit_code: u8) -> Result<(), CommandError> {
    #[derive(Serialize)]
    struct Report<'a> {
        healthy: bool,
        exit_code: u8,
        findings: &'a [Finding],
    }
    Printer::stdout().json(&Report { healthy: exit_code == 0, exit_code, findings })
}

#[cfg(test)]
mod tests {
    use super::{Finding, Hop, exit_code};

    #[test]
    fn the_first_failed_hop_decides() {
        let good = Finding::good(Hop::Config, "a", "b");
        let late = Finding::bad(Hop::Login, "x", "a", "b");
        let early = Finding::bad(Hop::Programs, "x", "a", "b");
        assert_eq!(exit_code(&[good.clone(), Finding::warning(Hop::Config, "x", "a", "b")]), 0);
        assert_eq!(exit_code(&[good, late.clone()]), 15);
        assert_eq!(exit_code(&[late, early]), 11);
    }
}
