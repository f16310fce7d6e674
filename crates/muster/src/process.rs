//! The process of a command: its runtime, environment, signals and memory.

use std::{convert::Infallible, future, process::ExitCode, time::Duration};

use muster_client::{env_vars, user_dirs};
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

/// The environment that CLI definitions are expanded from. The user's configuration and state of muster are private
/// paths, wherever they are.
pub(crate) fn environment() -> Environment {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = [user_dirs::config(), user_dirs::state()];
    Environment::new(env_vars::all(), &passwd).with_private_paths(own.into_iter().flatten())
}

/// Installs handlers for termination signals and returns a future that resolves at the first one. Call it before
/// clients can connect: until then, a signal kills the process without draining calls.
pub(crate) fn stop_requested() -> impl Future<Output = ()> {
    stop_requested_times(1)
}

/// Like [`stop_requested`], but resolves at the given number of signals.
pub(crate) fn stop_requested_times(times: u32) -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        // If handlers cannot be installed, signals end the process by themselves.
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return future::pending().await;
        };
        for _ in 0..times {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        }
    }
}

/// A process that uses no CPU time for this long is idle.
const IDLE: Duration = Duration::from_millis(250);
/// The longest interval between two releases of memory.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// Runs a server, and releases memory that only its start needed whenever the process is idle. This is repeated with
/// growing intervals, because upstream servers start one after another.
pub(crate) async fn releasing_memory<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = release_memory() => match never {},
    }
}

async fn release_memory() -> Infallible {
    let (mut interval, mut released_at) = (IDLE, None);
    loop {
        let used = until_idle().await;
        if used != released_at {
            pages::release_code_pages();
            released_at = pages::cpu_ticks();
        }
        sleep(interval).await;
        interval = MAX_INTERVAL.min(interval * 2);
    }
}

/// Waits until the process is idle. Returns the CPU time that it has used.
async fn until_idle() -> Option<u64> {
    let mut before = pages::cpu_ticks();
    loop {
        sleep(IDLE).await;
        let now = pages::cpu_ticks();
        if now == before {
            return now;
        }
        before = now;
    }
}
