//! Input and output of any size, and output that spills to disk.

use std::{fs, thread};

use muster_exec::run::{Ending, RunLimits, run};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::{launcher, run_script, sh, text, within};

#[tokio::test]
async fn both_streams_are_read_concurrently() {
    let launcher = launcher();
    let script = "head -c 3000000 /dev/zero >&2; head -c 10000000 /dev/zero; \
                  head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero";
    let finished = run_script(&launcher, script).await;
    assert_eq!(finished.ending, Ending::Exited(0));
    assert_eq!(finished.stdout.bytes.len(), 10_200_000);
    assert_eq!(finished.stderr.bytes.len(), 3_300_000);
    assert_eq!((finished.stdout.missing(), finished.stdout.spill), (0, None));
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_megabyte_is_piped_through() {
    let launcher = launcher();
    let input: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).take(1_048_576).collect();
    let finished = run(&launcher, sh("cat"), Some(input.clone()), RunLimits::default()).await;
    assert_eq!(finished.ending, Ending::Exited(0));
    assert!(finished.stdout.bytes == input, "{} bytes", finished.stdout.bytes.len());
    launcher.shut_down().await;
}

#[tokio::test]
async fn unread_input_is_not_an_error() {
    let launcher = launcher();
    let input = vec![b'x'; 1_048_576];
    let cases = [
        "exit 4",
        // The reading end is closed while the command goes on.
        "exec <&-; echo said; exit 4",
        // A background process holds the reading end and never reads.
        "sleep 1000 >/dev/null 2>&1 & exit 4",
    ];
    for script in cases {
        let finished = run(&launcher, sh(script), Some(input.clone()), RunLimits::default()).await;
        assert_eq!(finished.ending, Ending::Exited(4), "{script}");
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn empty_input_is_dev_null() {
    let launcher = launcher();
    let finished =
        run(&launcher, sh("readlink /proc/$$/fd/0"), Some(Vec::new()), RunLimits::default()).await;
    assert_eq!(text(&finished.stdout), "/dev/null\n");
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_delays_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let launcher = launcher();
    let script = format!("cat {} & echo early", fifo.display());
    // Opening blocks until the background process opens it for reading.
    let writer = thread::spawn(move || fs::write(fifo, "late\n"));
    let finished = run_script(&launcher, &script).await;
    writer.join().unwrap().unwrap();
    assert_eq!(finished.ending, Ending::Exited(0));
    let mut lines: Vec<&str> = text(&finished.stdout).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["early", "late"]);
    launcher.shut_down().await;
}

#[tokio::test]
async fn output_over_the_limit_is_complete_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    let launcher = launcher();
    let limits = RunLimits { max_captured_bytes: 100_000, ..RunLimits::default() };
    let script = format!("head -c 3000000 /dev/urandom | tee {}; echo oops >&2", copy.display());
    let finished = run(&launcher, sh(&script), None, limits).await;
    let written = fs::read(&copy).unwrap();
    let stdout = finished.stdout;
    assert_eq!((stdout.total, stdout.spilled, stdout.missing()), (3_000_000, 3_000_000, 2_900_000));
    assert!(stdout.bytes == written[..100_000]);
    let spill = stdout.spill.unwrap();
    assert!(fs::read(&spill).unwrap() == written);
    assert_eq!((text(&finished.stderr), &finished.stderr.spill), ("oops\n", &None));
    launcher.shut_down().await;
    assert!(!spill.exists() && !spill.parent().unwrap().exists());
}

#[tokio::test]
async fn output_within_the_limit_stays_in_memory() {
    let launcher = launcher();
    for (max_captured_bytes, spills) in [(5000, false), (4999, true), (0, true)] {
        let limits = RunLimits { max_captured_bytes, ..RunLimits::default() };
        let finished = run(&launcher, sh("head -c 5000 /dev/zero"), None, limits).await;
        assert_eq!(finished.stdout.bytes.len(), max_captured_bytes);
        assert_eq!(finished.stdout.total, 5000);
        assert_eq!(finished.stdout.spill.is_some(), spills);
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn partial_output_survives_a_timeout() {
    let launcher = launcher();
    let script = "echo out; echo err >&2; exec sleep 1000";
    let finished = run(&launcher, sh(script), None, within(1.0)).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!((text(&finished.stdout), text(&finished.stderr)), ("out\n", "err\n"));
    launcher.shut_down().await;
}
