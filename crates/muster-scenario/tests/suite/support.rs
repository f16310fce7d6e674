//! Shared test support: running scenarios against the fake muster.

use std::{fs, future::pending, path::Path};

use muster_exec::{launcher::Launcher, serve::LAUNCHER_ARG};
use muster_scenario::{
    options::RunOptions,
    report::{Report, ScenarioResult, TestStatus},
    run,
};
use tempfile::TempDir;

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_muster-scenario-helper");

/// The report of a run and its output.
pub(crate) struct RunOutput {
    pub(crate) report: Report,
    pub(crate) printed: String,
}

pub(crate) fn launcher() -> Launcher {
    Launcher::with_program(HELPER, [LAUNCHER_ARG])
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// A scenario with the required keys and the rest of its text.
pub(crate) fn scenario(name: &str, rest: &str) -> String {
    format!("name: {name}\ncategory: behavioral\nconcept: mcpserver\ntimeout: 60s\n{rest}\n")
}

pub(crate) fn directory(scenarios: &[String]) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (index, text) in scenarios.iter().enumerate() {
        fs::write(dir.path().join(format!("{index:02}.yaml")), text).expect("a file");
    }
    dir
}

pub(crate) fn options(dir: &Path) -> RunOptions {
    RunOptions { base_port: 21_000, ..RunOptions::new(HELPER, dir) }
}

pub(crate) fn run(options: &RunOptions) -> RunOutput {
    block_on(async {
        let launcher = launcher();
        let mut printed = Vec::new();
        let report = run::report(options, &launcher, pending(), &mut printed).await;
        launcher.shut_down().await;
        let report = report.unwrap_or_else(|err| panic!("{err}"));
        RunOutput { report, printed: String::from_utf8(printed).expect("text") }
    })
}

/// Runs one scenario.
pub(crate) fn run_one(text: String) -> (ScenarioResult, String) {
    let dir = directory(&[text]);
    let RunOutput { mut report, printed } = run(&options(dir.path()));
    (report.results.remove(0), printed)
}

/// Runs a scenario that must pass.
#[track_caller]
pub(crate) fn passes(name: &str, rest: &str) -> ScenarioResult {
    let (result, printed) = run_one(scenario(name, rest));
    assert_eq!(result.status, TestStatus::Passed, "{printed}");
    result
}

/// Runs a scenario that must not pass; returns the output.
#[track_caller]
pub(crate) fn fails(name: &str, rest: &str, status: TestStatus) -> String {
    let (result, printed) = run_one(scenario(name, rest));
    assert_eq!(result.status, status, "{printed}");
    printed
}
