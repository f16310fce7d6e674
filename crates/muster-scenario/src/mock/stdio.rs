//! A mock server as a process: `muster test --mock-mcp-server --mock-config FILE`.
//!
//! Standard output carries messages and nothing else. Calls are answered side by side, so a slow one
//! does not hold up the others.

use std::{io, path::Path, process::ExitCode, sync::Arc};

use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout, stdin, stdout},
    sync::Mutex,
    task::JoinSet,
};

use super::{
    config, control,
    engine::{Mock, Plan},
    fault::FaultKind,
};
use crate::wire::{self, INTERNAL_ERROR, RpcError};

/// What a server must not say, and then says.
pub(super) const GARBAGE: &str = "%PDF-1.4 \u{fffd} this is no message {[";

/// Serves one client on standard input and output until it is gone. The error is for standard error.
pub async fn serve(file: &Path) -> Result<ExitCode, String> {
    let file_config = config::read_file(file)?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let mock = Mock::new(&name, &file_config.config);
    let out = Arc::new(Mutex::new(stdout()));
    let mut tasks = JoinSet::new();
    if let Some(port) = file_config.control {
        let (mock, name) = (mock.clone(), name.to_string());
        tasks.spawn(async move {
            // Without the runner there is nobody to obey, which is no reason to stop.
            let _cut = control::obey(port, &name, |change| mock.change(change)).await;
        });
    }
    tasks.spawn(announce(mock.clone(), Arc::clone(&out)));
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let line = lines.next_line().await.map_err(|err| err.to_string())?;
        let Some(line) = line else { return Ok(ExitCode::SUCCESS) };
        let Some((id, plan)) = wire::parse(&line).and_then(|message| mock.handle(message)) else {
            continue;
        };
        let out = Arc::clone(&out);
        tasks.spawn(async move {
            let _gone = send(&id, plan, &out).await;
        });
        while tasks.try_join_next().is_some() {}
    }
}

/// Tells the client when the tools have changed.
async fn announce(mock: Mock, out: Arc<Mutex<Stdout>>) {
    let mut version = mock.tools_version();
    loop {
        mock.tools_changed(&mut version).await;
        let note = wire::notification("notifications/tools/list_changed", &serde_json::Value::Null);
        if write(&out, &format!("{note}\n")).await.is_err() {
            return;
        }
    }
}

async fn send(id: &serde_json::Value, plan: Plan, out: &Mutex<Stdout>) -> io::Result<()> {
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
            die()
        }
        Some(FaultKind::Reset) => die(),
    }
}

async fn write(out: &Mutex<Stdout>, text: &str) -> io::Result<()> {
    let mut out = out.lock().await;
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}

/// Dies as a crashed server does: at once, and without saying why.
fn die() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::KILL)?)
}
