//! `muster test`: scenarios against real gateways.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

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

use crate::{cli::Test, error::CommandError};

pub(crate) fn run(args: &Test) -> Result<ExitCode, CommandError> {
    let options = options(args).map_err(CommandError::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run_mode(args, &options));
    // A thread may still wait for a terminal's next line; nobody waits for it.
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
