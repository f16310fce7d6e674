//! Processes that an instance has left behind.
//!
//! Every instance has a variable of its own in its environment, and so has all that it starts. On
//! systems without `/proc` nothing is found; there the launcher alone has to do.

use std::{fs, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

/// The variable.
pub(super) const VARIABLE: &str = "MUSTER_TEST_INSTANCE";

/// How long what is below an instance may take to end after it.
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(25);

/// Waits until no process carries the mark. Those that still do after a while.
pub(super) async fn wait(mark: &str) -> Vec<String> {
    let end = Instant::now() + GRACE;
    loop {
        let left = find(mark);
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        sleep(PAUSE).await;
    }
}

fn find(mark: &str) -> Vec<String> {
    let wanted = format!("{VARIABLE}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let carries = environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes());
        carries.then(|| format!("process {pid}: {}", command_line(&entry.path())))
    });
    processes.collect()
}

fn command_line(process: &Path) -> String {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}
