//! The gateway process of an instance.

use std::time::Duration;

use muster_exec::{
    child::{Exit, ProcessTree},
    command::Command,
    launcher::{Launcher, StartError},
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{task::JoinSet, time::timeout};

use muster_core::backend::boxed;

use super::{StopMode, logs::Logs};

/// From `SIGTERM` to exit.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// From exit to the end of its output.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A running gateway. Dropping it kills its process tree.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    tree: ProcessTree,
    outputs: JoinSet<()>,
}

/// How a process shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// It exited after the signal.
    Clean,
    /// It did not exit in time and must be killed.
    Forced,
}

impl Process {
    pub(super) async fn start(
        launcher: &Launcher,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        logs: &Logs,
    ) -> Result<Self, StartError> {
        let command = Command { env, ..Command::new(argv) };
        let child = launcher.start(command).await?;
        let mut outputs = JoinSet::new();
        outputs.spawn(boxed(logs.clone().read(child.stdout)));
        outputs.spawn(boxed(logs.clone().read(child.stderr)));
        Ok(Self { pid: child.pid, tree: child.tree, outputs })
    }

    /// Its exit status, if it exits within the limit.
    pub(super) async fn exited_within(&mut self, limit: Duration) -> Option<String> {
        let exit = timeout(limit, self.tree.exit()).await.ok()?;
        Some(match exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::Lost => "its launcher died".to_owned(),
        })
    }

    /// Signals its process group and waits for the root process. Descendants are not touched: a correct gateway
    /// ends them itself.
    pub(super) async fn stop(&mut self, how: StopMode) -> Shutdown {
        let signal = match how {
            StopMode::Graceful => Signal::TERM,
            StopMode::Kill => Signal::KILL,
        };
        if let Some(group) = Pid::from_raw(self.pid.cast_signed()) {
            let _sent = kill_process_group(group, signal);
        }
        match self.exited_within(STOP_TIMEOUT).await {
            Some(_) => Shutdown::Clean,
            None => Shutdown::Forced,
        }
    }

    /// Waits for the rest of its output.
    pub(super) async fn drain(&mut self) {
        let _timed_out =
            timeout(DRAIN_TIMEOUT, async { while self.outputs.join_next().await.is_some() {} })
                .await;
    }
}
