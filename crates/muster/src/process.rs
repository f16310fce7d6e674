//! This process: its environment, and when it has to end.

use std::{convert::Infallible, future, process::ExitCode, time::Duration};

use muster_client::env_vars;
use muster_exec::{environment::Environment, pages};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::error::CommandError;

/// Runs a command on a single-threaded runtime.
pub(crate) fn block_on(
    command: impl Future<Output = Result<(), CommandError>>,
) -> Result<ExitCode, CommandError> {
    block_on_code(async { command.await.map(|()| ExitCode::SUCCESS) })
}

/// Runs a command that chooses its exit code on a single-threaded runtime.
pub(crate) fn block_on_code(
    command: impl Future<Output = Result<ExitCode, CommandError>>,
) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(command);
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    done
}

/// The environment that CLI definitions are expanded from.
pub(crate) fn environment() -> Environment {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Environment::new(env_vars::all(), &passwd)
}

/// Catches termination signals from now on, and resolves at the first one. Call it before clients can connect: until
/// then a signal kills the process, and nothing is drained.
pub(crate) fn stop_requested() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        // Where signals cannot be caught they end the process by themselves.
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    }
}

/// A process that hardly computes for this long has done what it had to do.
const REST: Duration = Duration::from_millis(250);
/// How long a process that was at rest is left alone, in the end.
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// Does what lasts, and gives back the memory that starting took once this process is at rest. Servers
/// start one after another, so that is looked after again, less and less often.
pub(crate) async fn lasting<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = slim_down() => match never {},
    }
}

async fn slim_down() -> Infallible {
    let (mut pause, mut known) = (REST, None);
    loop {
        let computed = at_rest().await;
        if computed != known {
            pages::release_code_pages();
            known = pages::cpu_ticks();
        }
        sleep(pause).await;
        pause = LEFT_ALONE.min(pause * 2);
    }
}

/// Waits until this process hardly computes. Gives what it has computed by then.
async fn at_rest() -> Option<u64> {
    let mut before = pages::cpu_ticks();
    loop {
        sleep(REST).await;
        let now = pages::cpu_ticks();
        if now == before {
            return now;
        }
        before = now;
    }
}
