//! Killing the gateway or the launcher leaves no process behind.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    thread,
};

use muster_exec::{
    child::Exit,
    launcher::{Launcher, StartError, StartStep},
    run::{Ending, run},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader as AsyncBufReader};

use crate::support::{HELPER, SOON, Watched, launcher, run_script, sh, within};

/// Each prints the process id of the launcher, then those of three processes.
const SCRIPTS: [&str; 4] = [
    "echo $PPID; sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & echo $$; wait",
    "trap '' TERM; echo $PPID; sleep 1000 & echo $!; sleep 1000 & echo $!; echo $$; wait",
    "trap '' TERM; echo $PPID; setsid sh -c 'echo $$; exec sleep 1000' & \
     (setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) & echo $$; wait",
    "echo $PPID; (setsid sh -c 'trap \"\" TERM; (sleep 1000 & echo $!); echo $$; exec sleep 1000' &); \
     echo $$; exec sleep 1000",
];

#[expect(clippy::disallowed_methods, reason = "this is the gateway, from outside")]
fn gateway(script: &str) -> Child {
    Command::new(HELPER)
        .args(["gateway", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the helper can be started")
}

fn kill_gateway(script: &str, lines: usize) {
    let mut gateway = gateway(script);
    let mut stdout = BufReader::new(gateway.stdout.take().unwrap());
    let mut numbers = Vec::new();
    for _ in 0..lines {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        numbers.push(line.trim_end().parse().unwrap());
    }
    let watched = Watched::new(&numbers);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    watched.assert_gone_within(SOON);
    // Processes that started after the kill must be gone as well.
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    for line in rest.lines() {
        Watched::new(&[line.parse().unwrap()]).assert_gone_within(SOON);
    }
}

#[test]
fn no_process_survives_a_killed_gateway() {
    let cycles: Vec<_> = (0..10)
        .map(|worker: usize| {
            thread::spawn(move || {
                for cycle in 0..5 {
                    let number = worker * 5 + cycle;
                    kill_gateway(SCRIPTS[number % 4], number * 7 % 5);
                }
            })
        })
        .collect();
    for cycle in cycles {
        cycle.join().unwrap();
    }
}

#[tokio::test]
async fn what_a_gateway_and_its_launcher_left_is_ended_by_the_next_launcher() {
    for script in SCRIPTS {
        let mut gateway = gateway(script);
        let stdout = BufReader::new(gateway.stdout.take().unwrap());
        let numbers: Vec<i32> =
            stdout.lines().take(4).map(|line| line.unwrap().trim_end().parse().unwrap()).collect();
        let left = Watched::new(&numbers[1..]);
        let killed = Pid::from_raw(numbers[0]).unwrap();
        // Stopped, it cannot notice that its gateway is gone.
        kill_process(killed, Signal::STOP).unwrap();
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        kill_process(killed, Signal::KILL).unwrap();
        let next = launcher();
        assert_eq!(run_script(&next, "exit 0").await.ending, Ending::Exited(0));
        left.assert_gone_within(SOON);
        next.shut_down().await;
    }
}

#[tokio::test]
async fn a_killed_launcher_is_cleaned_up_and_replaced() {
    let launcher = launcher();
    for script in SCRIPTS {
        let mut child = launcher.start(sh(script)).await.unwrap();
        let mut lines = AsyncBufReader::new(&mut child.stdout).lines();
        let mut numbers = Vec::new();
        while numbers.len() < 4 {
            numbers.push(lines.next_line().await.unwrap().unwrap().parse().unwrap());
        }
        let watched = Watched::new(&numbers);
        kill_process(Pid::from_raw(numbers[0]).unwrap(), Signal::KILL).unwrap();
        assert_eq!(child.exit().await, Exit::Lost);
        // A task kills the orphans, so the runtime must not be blocked.
        let gone = tokio::task::spawn_blocking(move || watched.assert_gone_within(SOON));
        gone.await.unwrap();
        assert_eq!(run_script(&launcher, "exit 7").await.ending, Ending::Exited(7));
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_run_whose_launcher_dies_is_lost() {
    let launcher = launcher();
    let script = "echo said; kill -9 $PPID; exec sleep 1000";
    let finished = run(&launcher, sh(script), None, within(30.0)).await;
    assert_eq!(finished.ending, Ending::Lost);
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_program_that_is_not_a_launcher_is_an_error() {
    let launcher = Launcher::with_program("/bin/false", [""; 0]);
    assert_eq!(launcher.start(sh("exit 0")).await.unwrap_err(), StartError::Lost);
    launcher.shut_down().await;
    let launcher = Launcher::with_program("/no/such/program", [""; 0]);
    assert!(matches!(
        launcher.start(sh("exit 0")).await.unwrap_err(),
        StartError::Refused { errno: 2, step: StartStep::Prepare }
    ));
    launcher.shut_down().await;
}
