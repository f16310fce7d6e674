//! A test program: the launcher, a mock server, and a fake muster with injected defects.

mod fake;

use std::{env, path::PathBuf, process::ExitCode};

use muster_exec::serve::serve_if_launcher;
use muster_scenario::mock;

#[expect(clippy::print_stderr, reason = "this is where the tester finds the logs of an instance")]
fn main() -> ExitCode {
    if let Some(code) = serve_if_launcher() {
        return code;
    }
    let words: Vec<String> = env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let code = runtime.block_on(async {
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["serve", "--config-path", dir, ..] => fake::serve(&PathBuf::from(dir)).await,
            ["test", "--mock-mcp-server", "--mock-config", file] => {
                mock::stdio::serve(&PathBuf::from(file)).await
            }
            other => Err(format!("unexpected arguments {other:?}")),
        }
    });
    // Standard input is read by a thread that nothing can interrupt.
    runtime.shutdown_background();
    code.unwrap_or_else(|err| {
        eprintln!("{err}");
        ExitCode::FAILURE
    })
}
