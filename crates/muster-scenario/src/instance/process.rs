//! The process of an instance, from its start to its end.

use std::time::Duration;

use muster_exec::{
    child::{Exit, ProcessTree},
    command::Command,
    launcher::{Launcher, StartError},
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{task::JoinSet, time::timeout};

use super::{Stop, logs::Logs};

/// How long an instance may take to end after it was asked to.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long its outputs may take to end after it has.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// A running instance. Dropping it kills it and everything below it.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    tree: ProcessTree,
    outputs: JoinSet<()>,
}

/// What it took to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signalled {
    /// It ended.
    Once,
    /// It had to be killed.
    Insisted,
}

impl Process {
    pub(super) async fn start(
        launcher: &Launcher,
        words: Vec<String>,
        env: Vec<(String, String)>,
        logs: &Logs,
    ) -> Result<Self, StartError> {
        let command = Command { env, ..Command::new(words) };
        let child = launcher.start(command).await?;
        let mut outputs = JoinSet::new();
        outputs.spawn(logs.clone().read(child.stdout));
        outputs.spawn(logs.clone().read(child.stderr));
        Ok(Self { pid: child.pid, tree: child.tree, outputs })
    }

    /// How it ended, if it has.
    pub(super) async fn ended_within(&mut self, limit: Duration) -> Option<String> {
        let exit = timeout(limit, self.tree.exit()).await.ok()?;
        Some(match exit {
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::Lost => "its launcher died".to_owned(),
        })
    }

    /// Signals its group and waits for it. What is below it is its own business for now: a good
    /// instance takes it along.
    pub(super) async fn end(&mut self, how: Stop) -> Signalled {
        let signal = match how {
            Stop::Asked => Signal::TERM,
            Stop::Killed => Signal::KILL,
        };
        if let Some(group) = Pid::from_raw(self.pid.cast_signed()) {
            let _gone = kill_process_group(group, signal);
        }
        match self.ended_within(STOP_LIMIT).await {
            Some(_) => Signalled::Once,
            None => Signalled::Insisted,
        }
    }

    /// Waits for what it has printed last.
    pub(super) async fn drain(&mut self) {
        let _late =
            timeout(DRAIN_LIMIT, async { while self.outputs.join_next().await.is_some() {} }).await;
    }
}
