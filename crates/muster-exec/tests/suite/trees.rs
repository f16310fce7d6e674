//! A process tree ends with its call, on timeout, when dropped and at shutdown; other trees do not.

use std::{fs, path::Path, time::Instant};

use muster_core::cli::BackgroundProcesses;
use muster_exec::{
    child::{Child, Exit},
    command::Command,
    launcher::Launcher,
    run::{Ending, RunLimits, run},
};
use rustix::fs::{CWD, Mode, mkfifoat};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::unix::pipe,
};

use crate::support::{HELPER, PROMPT, SOON, Watched, launcher, pids, run_script, sh, text, within};

/// Trees of three processes that print their process ids and never exit by themselves.
const TREES: [(&str, &str); 5] = [
    ("grandchildren", "sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & echo $$; wait"),
    (
        "deaf to SIGTERM",
        "trap '' TERM; sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & echo $$; wait",
    ),
    (
        "in sessions of their own",
        "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & \
         setsid sh -c 'echo $$; exec sleep 1000' & echo $$; wait",
    ),
    (
        "daemons without parent, group, session or pipe",
        "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) & \
         (setsid sh -c 'echo $$; exec env -i sleep 1000 >/dev/null 2>&1' &) & \
         echo $$; exec sleep 1000",
    ),
    (
        "stopped",
        "sleep 1000 & echo $!; kill -STOP $!; sleep 1000 & echo $!; echo $$; kill -STOP $$",
    ),
];

#[tokio::test]
async fn a_timeout_ends_the_tree() {
    let launcher = launcher();
    for (what, script) in TREES {
        let begin = Instant::now();
        let finished = run(&launcher, sh(script), None, within(1.0)).await;
        assert_eq!(finished.ending, Ending::TimedOut, "{what}");
        assert!(begin.elapsed() < PROMPT, "{what}: the result does not wait");
        let pids = pids(text(&finished.stdout));
        assert_eq!(pids.len(), 3, "{what}");
        Watched::new(&pids).assert_gone_within(SOON);
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_background_process_that_holds_the_output_times_out() {
    let launcher = launcher();
    let finished = run(&launcher, sh("sleep 1000 & echo $!"), None, within(1.0)).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    Watched::new(&pids(text(&finished.stdout))).assert_gone_within(SOON);
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_zero_timeout_still_starts_the_process() {
    let launcher = launcher();
    let finished = run(&launcher, sh("exec sleep 1000"), None, within(0.0)).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    Watched::new(&[finished.pid.unwrap().cast_signed()]).assert_gone_within(SOON);
    let missing = Command::new(["no-such-program-xyz"]);
    assert_eq!(run(&launcher, missing, None, within(0.0)).await.ending, Ending::NotFound);
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_process_can_handle_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let note = directory.path().join("note");
    let launcher = launcher();
    let script =
        format!("trap 'echo bye > {}; exit 0' TERM; echo $$; sleep 1000 & wait", note.display());
    let finished = run(&launcher, sh(&script), None, within(1.0)).await;
    Watched::new(&pids(text(&finished.stdout))).assert_gone_within(SOON);
    assert_eq!(fs::read_to_string(note).unwrap(), "bye\n");
    launcher.shut_down().await;
}

/// Starts a tree and waits until its three processes have printed their ids.
async fn start(launcher: &Launcher, script: &str) -> (Child, Watched) {
    let mut child = launcher.start(sh(script)).await.unwrap();
    let mut lines = BufReader::new(&mut child.stdout).lines();
    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        numbers.push(lines.next_line().await.unwrap().unwrap().parse().unwrap());
    }
    (child, Watched::new(&numbers))
}

#[tokio::test]
async fn a_tree_ends_with_its_handle() {
    let launcher = launcher();
    for (what, script) in TREES {
        let (child, watched) = start(&launcher, script).await;
        assert_eq!(watched.running().len(), 3, "{what}");
        drop(child);
        watched.assert_gone_within(SOON);
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn dropping_a_run_ends_its_tree() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let launcher = launcher();
    let script = format!("trap '' TERM; sleep 1000 & echo $! $$ > {}; wait", fifo.display());
    let reader = pipe::OpenOptions::new().read_write(true).open_receiver(&fifo).unwrap();
    let mut lines = BufReader::new(reader).lines();
    let mut running = Box::pin(run(&launcher, sh(&script), None, within(1000.0)));
    let line = tokio::select! {
        finished = &mut running => panic!("it ended: {finished:?}"),
        line = lines.next_line() => line.unwrap().unwrap(),
    };
    let numbers: Vec<i32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let watched = Watched::new(&numbers);
    assert_eq!(watched.running(), numbers);
    drop(running);
    watched.assert_gone_within(SOON);
    launcher.shut_down().await;
}

#[tokio::test]
async fn ending_one_tree_spares_the_others() {
    let launcher = launcher();
    let (first, doomed) = start(&launcher, TREES[3].1).await;
    let (second, spared) = start(&launcher, TREES[3].1).await;
    drop(first);
    doomed.assert_gone_within(SOON);
    assert_eq!(spared.running().len(), 3);
    drop(second);
    spared.assert_gone_within(SOON);
    launcher.shut_down().await;
}

/// Scripts that exit by themselves and leave processes without pipe, whose ids they print.
const LEFTOVERS: [(&str, &str); 4] = [
    ("of its group", "sleep 1000 >/dev/null 2>&1 & echo $!"),
    (
        "of its session, deaf to SIGTERM",
        "trap '' TERM; sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 & echo $!",
    ),
    (
        "daemons",
        "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) ; \
         (setsid sh -c 'echo $$; exec env -i sleep 1000 >/dev/null 2>&1' &)",
    ),
    ("and a failure", "sleep 1000 >/dev/null 2>&1 & echo $!; exit 3"),
];

#[tokio::test]
async fn what_a_call_leaves_running_ends_with_it() {
    let launcher = launcher();
    let (server, other) = start(&launcher, TREES[3].1).await;
    for (what, script) in LEFTOVERS {
        let finished = run_script(&launcher, script).await;
        assert!(matches!(finished.ending, Ending::Exited(0 | 3)), "{what}: {finished:?}");
        let pids = pids(text(&finished.stdout));
        assert!(!pids.is_empty(), "{what}");
        Watched::new(&pids).assert_gone_within(SOON);
    }
    assert_eq!(other.running().len(), 3, "other runs go on");
    drop(server);
    launcher.shut_down().await;
}

#[tokio::test]
async fn what_a_call_leaves_running_can_handle_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, note) = (directory.path().join("ready"), directory.path().join("note"));
    mkfifoat(CWD, &ready, Mode::RUSR | Mode::WUSR).unwrap();
    let launcher = launcher();
    let script = format!(
        "(trap 'echo bye > {note}; exit 0' TERM; echo > {ready}; sleep 1000 & wait) >/dev/null 2>&1 & \
         read line < {ready}; echo $!",
        note = note.display(),
        ready = ready.display()
    );
    let finished = run_script(&launcher, &script).await;
    Watched::new(&pids(text(&finished.stdout))).assert_gone_within(SOON);
    assert_eq!(fs::read_to_string(note).unwrap(), "bye\n");
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_gateway_that_a_call_starts_in_the_background_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    mkfifoat(CWD, &ready, Mode::RUSR | Mode::WUSR).unwrap();
    let launcher = launcher();
    let ready = ready.display();
    // Detached, it is a child of the launcher before the call ends.
    let script = format!("({HELPER} detached >{ready} 2>/dev/null &); read id < {ready}; echo $id");
    let finished = run_script(&launcher, &script).await;
    let watched = Watched::new(&pids(text(&finished.stdout)));
    let leaving = run_script(&launcher, LEFTOVERS[0].1).await;
    Watched::new(&pids(text(&leaving.stdout))).assert_gone_within(SOON);
    assert_eq!(watched.running().len(), 1);
    launcher.shut_down().await;
    assert!(watched.running().is_empty());
}

#[tokio::test]
async fn a_kept_background_process_lives_until_shutdown() {
    let launcher = launcher();
    let script = "trap '' TERM; setsid sleep 1000 >/dev/null 2>&1 & echo $!";
    let limits =
        RunLimits { background_processes: BackgroundProcesses::Keep, ..RunLimits::default() };
    let finished = run(&launcher, sh(script), None, limits).await;
    assert_eq!(finished.ending, Ending::Exited(0));
    let watched = Watched::new(&pids(text(&finished.stdout)));
    // The end of another call does not end it.
    let leaving = run_script(&launcher, LEFTOVERS[0].1).await;
    Watched::new(&pids(text(&leaving.stdout))).assert_gone_within(SOON);
    assert_eq!(run_script(&launcher, "exit 0").await.ending, Ending::Exited(0));
    assert_eq!(watched.running().len(), 1);
    launcher.shut_down().await;
    assert!(watched.running().is_empty(), "shutdown waits until everything is gone");
}

#[tokio::test]
async fn orphans_leave_no_zombies() {
    let launcher = launcher();
    let finished = run_script(&launcher, "(setsid sh -c 'echo $$' &)").await;
    let orphans = pids(text(&finished.stdout));
    Watched::new(&orphans).assert_gone_within(SOON);
    // Exited orphans are reaped with the next command at the latest.
    assert_eq!(run_script(&launcher, "exit 0").await.ending, Ending::Exited(0));
    assert!(orphans.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_killed_child_reports_its_signal() {
    let launcher = launcher();
    let mut child = launcher.start(sh("exec sleep 1000")).await.unwrap();
    child.tree.kill();
    assert_eq!(child.exit().await, Exit::Signal(15));
    assert_eq!(child.exit().await, Exit::Signal(15));
    launcher.shut_down().await;
}

#[tokio::test]
async fn shutdown_ends_every_tree() {
    let launcher = launcher();
    let mut trees = Vec::new();
    for (_, script) in TREES {
        trees.push(start(&launcher, script).await);
    }
    let begin = Instant::now();
    launcher.shut_down().await;
    assert!(begin.elapsed() < PROMPT);
    for (mut child, watched) in trees {
        assert!(watched.running().is_empty());
        assert!(matches!(child.exit().await, Exit::Signal(_)));
    }
}
