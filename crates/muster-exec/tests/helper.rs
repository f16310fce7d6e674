//! A test program: the launcher, or a gateway to be killed.
//!
//! `muster-exec-helper detached` lives until it is killed, as a process that outlives its call, and prints its id.
//!
//! `muster-exec-helper gateway COMMAND` runs a shell command as the gateway does, through a launcher that
//! is this program again, and copies its output.

use std::{
    env,
    process::{self, ExitCode},
    thread,
};

use muster_exec::{command::Command, detached, launcher::Launcher, serve::serve_if_launcher};
use tokio::io::AsyncReadExt;

fn main() -> ExitCode {
    if let Some(code) = serve_if_launcher() {
        return code;
    }
    if env::args().nth(1).as_deref() == Some("detached") {
        return detached();
    }
    let script = env::args().nth(2).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    runtime.block_on(gateway(script));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "the test reads the process id from here")]
fn detached() -> ExitCode {
    detached::lead_session();
    println!("{}", process::id());
    loop {
        thread::park();
    }
}

#[expect(clippy::print_stdout, reason = "the test reads process ids from here")]
async fn gateway(script: String) {
    let launcher = Launcher::new();
    let Ok(mut child) = launcher.start(Command::new(["sh", "-c", &script])).await else { return };
    let mut buffer = [0; 1024];
    while let Ok(size @ 1..) = child.stdout.read(&mut buffer).await {
        print!("{}", String::from_utf8_lossy(buffer.get(..size).unwrap_or_default()));
    }
    child.exit().await;
}
