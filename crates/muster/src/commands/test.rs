//! `muster test`: runs scenarios against real gateways.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use muster_exec::launcher::Launcher;
use muster_scenario::{
    duration, mcp_server, mock,
    options::{
        Category, Concept, DirectoryCleanup, OnFailure, RunOptions, Selection, SkipPolicy,
        Verbosity,
    },
    report::RunVerdict,
    run, schema,
};

use super::completion;
use crate::error::CommandError;

/// Run scenarios against real gateways
///
/// Starts `muster serve` with mock servers for each scenario, runs the steps and checks the results.
/// Exits with 1 if a scenario fails.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster test --config scenarios
  muster test --config scenarios --scenario mcpserver-crud --verbose
  muster test --config scenarios --parallel 12 --report reports
  muster test --config scenarios --validate-scenarios")]
pub(crate) struct Test {
    /// A scenario file, or a directory of scenario files
    #[arg(long, value_name = "PATH", default_value = "scenarios")]
    config: PathBuf,
    /// Run only scenarios of this category: behavioral or integration
    #[arg(long, value_name = "NAME", add = completion::categories())]
    category: Option<String>,
    /// Run only scenarios about this concept: serviceclass, workflow, mcpserver or service
    #[arg(long, value_name = "NAME", add = completion::concepts())]
    concept: Option<String>,
    /// Run only the scenario of this name
    #[arg(long, value_name = "NAME", add = completion::scenarios())]
    scenario: Option<String>,
    /// The number of scenarios to run in parallel, 1 to 50
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallel: usize,
    /// Stop after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Also run scenarios with `skip: true`
    #[arg(long)]
    run_skipped: bool,
    /// The timeout of the whole run: `90s`, `10m`; a number is seconds
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,
    /// The first port to try for gateway instances
    #[arg(long, value_name = "PORT", default_value_t = 18_000)]
    base_port: u16,
    /// Print each step
    #[arg(long)]
    verbose: bool,
    /// Print each step and the logs of the instances
    #[arg(long)]
    debug: bool,
    /// Write JSON and JUnit reports to this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Keep the configuration directories of the instances
    #[arg(long)]
    keep_temp_config: bool,
    /// Serve the test runner as MCP tools on standard input and output
    #[arg(long, conflicts_with_all = ["mock_mcp_server", "generate_schema", "validate_scenarios"])]
    mcp_server: bool,
    /// Run a mock MCP server on standard input and output, see --mock-config
    #[arg(long, conflicts_with_all = ["generate_schema", "validate_scenarios"])]
    mock_mcp_server: bool,
    /// The configuration of the mock server
    #[arg(long, value_name = "FILE")]
    mock_config: Option<PathBuf>,
    /// Accepted for compatibility, without effect
    #[arg(long, value_name = "NAME", hide = true)]
    config_name: Option<String>,
    /// Accepted for compatibility, without effect
    #[arg(long, value_name = "DIR", hide = true)]
    config_path: Option<PathBuf>,
    /// Write the schema of all core tools instead of running scenarios
    #[arg(long, conflicts_with = "validate_scenarios")]
    generate_schema: bool,
    /// The output file of --generate-schema [default: schema.json]
    #[arg(long, value_name = "FILE")]
    schema_output: Option<PathBuf>,
    /// Validate scenarios instead of running them
    #[arg(long)]
    validate_scenarios: bool,
    /// The schema to validate steps against
    #[arg(long, value_name = "FILE")]
    schema_input: Option<PathBuf>,
}

pub(crate) fn run(args: &Test) -> Result<ExitCode, CommandError> {
    let options = options(args).map_err(CommandError::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run_mode(args, &options));
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    code
}

fn options(args: &Test) -> Result<RunOptions, String> {
    let muster = std::env::current_exe().map_err(|err| err.to_string())?;
    Ok(RunOptions {
        selection: Selection {
            category: args.category.as_deref().map(Category::parse).transpose()?,
            concept: args.concept.as_deref().map(Concept::parse).transpose()?,
            scenario: args.scenario.clone(),
            skipped: if args.run_skipped { SkipPolicy::Ignore } else { SkipPolicy::Honor },
        },
        parallel: RunOptions::parallel(args.parallel)?,
        on_failure: if args.fail_fast { OnFailure::Stop } else { OnFailure::Continue },
        timeout: timeout(&args.timeout)?,
        base_port: args.base_port,
        verbosity: match (args.debug, args.verbose) {
            (true, _) => Verbosity::Debug,
            (false, true) => Verbosity::Verbose,
            (false, false) => Verbosity::Normal,
        },
        report: args.report.clone(),
        directory_cleanup: if args.keep_temp_config {
            DirectoryCleanup::Keep
        } else {
            DirectoryCleanup::Remove
        },
        ..RunOptions::new(muster, args.config.clone())
    })
}

fn timeout(written: &str) -> Result<Duration, String> {
    let seconds = written.parse().ok().map(Duration::from_secs);
    seconds
        .or_else(|| duration::parse(written))
        .ok_or_else(|| format!("--timeout: `{written}` is no duration such as `90s` or `10m`"))
}

async fn run_mode(args: &Test, options: &RunOptions) -> Result<ExitCode, CommandError> {
    let failed = |err: &dyn std::error::Error| CommandError::new(err.to_string());
    if args.mock_mcp_server {
        let Some(config) = &args.mock_config else {
            let message = "--mock-config is required when using --mock-mcp-server";
            return Err(CommandError::new(message));
        };
        return mock::stdio::serve(config).await.map_err(CommandError::new);
    }
    let mut out = io::stdout();
    if args.validate_scenarios {
        let known = args.schema_input.as_deref();
        return schema::validate(&options.config, known, &mut out)
            .map(code)
            .map_err(|err| failed(&err));
    }
    let launcher = Launcher::new();
    let done = if args.generate_schema {
        let file = args.schema_output.clone().unwrap_or_else(|| PathBuf::from("schema.json"));
        let made = Box::pin(schema::generate(options, &launcher, &file, &mut out)).await;
        made.map(|()| ExitCode::SUCCESS).map_err(|err| failed(&err))
    } else if args.mcp_server {
        let served = mcp_server::serve(options, &launcher, tokio::io::stdin(), tokio::io::stdout());
        served.await.map(|()| ExitCode::SUCCESS).map_err(CommandError::from)
    } else {
        run::run(options, &launcher, &mut out).await.map(code).map_err(|err| failed(&err))
    };
    launcher.shut_down().await;
    done
}

fn code(verdict: RunVerdict) -> ExitCode {
    match verdict {
        RunVerdict::Passed => ExitCode::SUCCESS,
        RunVerdict::Failed => ExitCode::from(1),
    }
}
