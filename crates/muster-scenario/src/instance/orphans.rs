//! Finds processes that an instance left behind.
//!
//! Every instance has a unique environment variable, which its descendants inherit. Without `/proc` nothing is
//! found, and only the launcher's own cleanup applies.

use std::{fs, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

/// The environment variable that carries the marker.
pub(super) const MARKER_VARIABLE: &str = "MUSTER_TEST_INSTANCE";

/// How long descendants may take to exit after the instance.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits until no process carries the marker; returns those that still do after a while.
pub(super) async fn wait(marker: &str) -> Vec<String> {
    let end = Instant::now() + EXIT_TIMEOUT;
    loop {
        let left = find(marker);
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn find(marker: &str) -> Vec<String> {
    let entry_to_find = format!("{MARKER_VARIABLE}={marker}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let carries =
            environment.split(|byte| *byte == 0).any(|pair| pair == entry_to_find.as_bytes());
        carries.then(|| format!("process {pid}: {}", command_line(&entry.path())))
    });
    processes.collect()
}

fn command_line(process: &Path) -> String {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}
