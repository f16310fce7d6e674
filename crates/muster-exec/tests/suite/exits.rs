//! Exit statuses of commands, and the environment they start in.

use std::collections::BTreeSet;

use muster_exec::{
    command::{Command, Inherit},
    run::{Ending, RunLimits, run},
};

use crate::support::{launcher, run_script, sh, text};

#[tokio::test]
async fn exit_codes_and_signals_are_distinguished() {
    let launcher = launcher();
    let cases = [
        ("exit 0", Ending::Exited(0)),
        ("exit 3", Ending::Exited(3)),
        ("exit 255", Ending::Exited(255)),
        ("kill -9 $$", Ending::Signalled(9)),
        ("kill -15 $$", Ending::Signalled(15)),
        // A Rust program ignores SIGPIPE, but its children must not.
        ("kill -PIPE $$; echo survived", Ending::Signalled(13)),
    ];
    for (script, expected) in cases {
        assert_eq!(run_script(&launcher, script).await.ending, expected, "{script}");
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_command_leads_its_process_group_and_has_no_input() {
    let launcher = launcher();
    let script = "cut -d' ' -f5 /proc/$$/stat; echo $$; cat";
    let finished = run_script(&launcher, script).await;
    let pid = finished.pid.unwrap().to_string();
    assert_eq!(text(&finished.stdout), format!("{pid}\n{pid}\n"));
    assert_eq!(finished.ending, Ending::Exited(0));
    launcher.shut_down().await;
}

#[tokio::test]
async fn the_environment_is_inherited_with_the_commands_own_on_top() {
    let launcher = launcher();
    let env = vec![("MUSTER_A".to_owned(), "$HOME ü".to_owned())];
    let command = Command { env, ..Command::new(["env"]) };
    let finished = run(&launcher, command, None, RunLimits::default()).await;
    let seen: BTreeSet<&str> = text(&finished.stdout).lines().collect();
    let ours: Vec<String> = std::env::vars().map(|(key, value)| format!("{key}={value}")).collect();
    let mut expected: BTreeSet<&str> = ours.iter().flat_map(|line| line.lines()).collect();
    expected.insert("MUSTER_A=$HOME ü");
    assert_eq!(seen, expected);
    launcher.shut_down().await;
}

#[tokio::test]
async fn a_clean_environment_holds_only_what_is_named() {
    // Cargo sets these for tests.
    let (secret, named) = ("CARGO_PKG_NAME", "CARGO_PKG_VERSION");
    let seen = async |inherit: Inherit| {
        let launcher = launcher();
        let env = vec![("MUSTER_A".to_owned(), "a".to_owned())];
        let command = Command { env, inherit, ..Command::new(["env"]) };
        let finished = run(&launcher, command, None, RunLimits::default()).await;
        launcher.shut_down().await;
        let lines = text(&finished.stdout).lines().map(|line| line.split('=').next().unwrap_or(""));
        lines.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let basic = seen(Inherit::Basic(vec![named.to_owned()])).await;
    assert!(basic.contains("PATH") && basic.contains("MUSTER_A") && basic.contains(named));
    assert!(!basic.contains(secret), "{basic:?}");
    let all = seen(Inherit::Basic(vec!["*".to_owned()])).await;
    assert!(all.contains(secret), "{all:?}");
}

#[tokio::test]
async fn a_command_runs_in_its_working_directory() {
    let launcher = launcher();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let command = Command { working_dir: Some(directory.clone()), ..sh("pwd -P") };
    let finished = run(&launcher, command, None, RunLimits::default()).await;
    assert_eq!(text(&finished.stdout).trim_end(), directory.to_str().unwrap());
    launcher.shut_down().await;
}

#[tokio::test]
async fn two_hundred_commands_run_at_once() {
    let launcher = launcher();
    let runs: Vec<_> = (0..200)
        .map(|number: i32| {
            let launcher = launcher.clone();
            let script = format!("echo {number}; exit {}", number % 100);
            tokio::task::JoinSet::from_iter([async move { run_script(&launcher, &script).await }])
        })
        .collect();
    for (number, mut run) in (0..200).zip(runs) {
        let finished = run.join_next().await.unwrap().unwrap();
        assert_eq!(finished.ending, Ending::Exited(number % 100));
        assert_eq!(text(&finished.stdout), format!("{number}\n"));
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn large_requests_are_queued() {
    let launcher = launcher();
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let launcher = launcher.clone();
        runs.spawn(async move {
            let mut command = sh("echo $#");
            command.argv.push("sh".to_owned());
            command.argv.extend(std::iter::repeat_n("x".repeat(100_000), 12));
            run(&launcher, command, None, RunLimits::default()).await
        });
    }
    while let Some(finished) = runs.join_next().await {
        assert_eq!(text(&finished.unwrap().stdout), "12\n");
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn nothing_starts_after_shutdown() {
    let launcher = launcher();
    launcher.shut_down().await;
    assert_eq!(run_script(&launcher, "exit 0").await.ending, Ending::Lost);
}
