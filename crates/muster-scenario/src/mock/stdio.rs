//! A mock server as a process on stdio: `muster test --mock-mcp-server --mock-config FILE`.
//!
//! Standard output carries messages and nothing else. Calls are handled concurrently, so a slow one does not
//! block the others.

use std::{io, path::Path, process::ExitCode, sync::Arc};

use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout, stdin, stdout},
    sync::Mutex,
    task::JoinSet,
};

use muster_core::backend::boxed;

use super::{
    config, control,
    engine::{MockServer, PlannedReply},
    fault::FaultKind,
};
use crate::wire::{self, INTERNAL_ERROR, RpcError};

/// The response of the `garbage` fault.
pub(super) const GARBAGE: &str = "%PDF-1.4 \u{fffd} not a message {[";

/// Serves one client on standard input and output until it disconnects.
pub async fn serve(file: &Path) -> Result<ExitCode, String> {
    let file_config = config::read_file(file)?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let mock = MockServer::new(&name, &file_config.config);
    let out = Arc::new(Mutex::new(stdout()));
    let mut tasks = JoinSet::new();
    if let Some(port) = file_config.control {
        let (mock, name) = (mock.clone(), name.to_string());
        tasks.spawn(boxed(async move {
            // The mock also works without the runner.
            let _closed = control::run_client(port, &name, |change| mock.change(change)).await;
        }));
    }
    tasks.spawn(boxed(notify_tool_changes(mock.clone(), Arc::clone(&out))));
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let line = lines.next_line().await.map_err(|err| err.to_string())?;
        let Some(line) = line else { return Ok(ExitCode::SUCCESS) };
        let Some((id, plan)) = wire::parse(&line).and_then(|message| mock.handle(message)) else {
            continue;
        };
        let out = Arc::clone(&out);
        tasks.spawn(boxed(async move {
            let _sent = send(&id, plan, &out).await;
        }));
        while tasks.try_join_next().is_some() {}
    }
}

/// Sends a notification whenever the tools change.
async fn notify_tool_changes(mock: MockServer, out: Arc<Mutex<Stdout>>) {
    let mut version = mock.tools_version();
    loop {
        mock.tools_changed(&mut version).await;
        let note = wire::notification("notifications/tools/list_changed", &serde_json::Value::Null);
        if write(&out, &format!("{note}\n")).await.is_err() {
            return;
        }
    }
}

async fn send(id: &serde_json::Value, plan: PlannedReply, out: &Mutex<Stdout>) -> io::Result<()> {
    tokio::time::sleep(plan.delay).await;
    let answer = wire::answer(id, &plan.outcome);
    match plan.fault {
        None | Some(FaultKind::Delay(_)) => write(out, &format!("{answer}\n")).await,
        Some(FaultKind::Garbage) => write(out, &format!("{GARBAGE}\n")).await,
        Some(FaultKind::Hang) => Ok(()),
        Some(FaultKind::Status(status)) => {
            let error = Err(RpcError::new(INTERNAL_ERROR, format!("status {status}")));
            write(out, &format!("{}\n", wire::answer(id, &error))).await
        }
        Some(FaultKind::Half) => {
            let half: String = answer.chars().take(answer.chars().count() / 2).collect();
            write(out, &half).await?;
            crash()
        }
        Some(FaultKind::Reset) => crash(),
    }
}

async fn write(out: &Mutex<Stdout>, text: &str) -> io::Result<()> {
    let mut out = out.lock().await;
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}

/// Dies like a crashed server.
fn crash() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::KILL)?)
}
