//! Every command of both programs in a pipe and on a terminal, with wrong arguments too. The expected output is in
//! `tests/transcripts`; `UPDATE_EXPECT=1` rewrites it.

use std::{
    fmt::Write as _,
    process::{Command, Stdio},
};

use clap::CommandFactory as _;
use expect_test::{ExpectFile, expect_file};

use super::{
    client::{CLIMAX, Folder},
    desk::Desk,
};

/// The command lines of `muster`. Commands that go on until they are stopped are only given wrong arguments.
const MUSTER_LINES: &[&str] = &[
    "serve --foo",
    "serve x",
    "serve --direct-tokens 100",
    "serve --surface climax --read-tool",
    "agent --transport foo",
    "agent --repl --mcp-server",
    "standalone --foo",
    "import --from foo",
    "connect crusor",
    "enable",
    "enable cli nobody",
    "disable cli nobody",
    "disable nobody --foo",
    "doctor --timeout soon",
    "doctor --yes",
    "console --foo",
    "top --foo",
    "list",
    "list mcpservers",
    "list mcpservers --all -o wide",
    "list workflow-executions",
    "list rocket",
    "list tools --foo",
    "get workflow deploy",
    "get mcpserver githbu",
    "get mcpserver",
    "create",
    "create mcpserver",
    "create service",
    "create serviceclass one",
    "create workflow one",
    "create rocket x",
    "apply",
    "apply -f nothing.yaml",
    "apply -f all.yaml",
    "edit mcpserver nobody",
    "edit rocket x",
    "delete workflow deploy",
    "delete workflow nobody --yes",
    "delete workflow",
    "validate nothing.yaml",
    "validate all.yaml",
    "approve mcpserver nobody",
    "start",
    "start service nobody",
    "start workflow nobody",
    "stop service nobody",
    "stop rocket x",
    "status --foo",
    "service --foo",
    "service install --foo",
    "service uninstall --foo",
    "restart mcpserver nobody",
    "restart rocket x",
    "check workflow deploy",
    "check mcpserver github -o yaml",
    "check rocket x",
    "search",
    "tokens --foo",
    "token --foo",
    "token create",
    "token create ci --expires soon",
    "token list",
    "token revoke nobody",
    "session --foo",
    "session list",
    "session end nobody",
    "policy --foo",
    "policy show",
    "policy check",
    "policy check x_github_nobody",
    "policy check core_stats --user ann@example.com",
    "migrate",
    "migrate rocket",
    "migrate kubernetes",
    "migrate files --apply",
    "models --foo",
    "models add --foo",
    "models list",
    "models remove nobody",
    "call",
    "call x_github_nobody",
    "calls --limit few",
    "calls 7 --follow",
    "calls --since soon",
    "calls --limit 51 --draft again",
    "calls 99999",
    "stats --foo",
    "events --limit few",
    "events --since soon",
    "logs mcpserver github",
    "logs mcpserver github --tail few",
    "auth --foo",
    "auth login --foo",
    "auth logout --foo",
    "auth status --foo",
    "auth whoami --foo",
    "auth refresh --foo",
    "context",
    "context list",
    "context current",
    "context delete nowhere --force",
    "context update nowhere",
    "context rename nowhere",
    "context show nowhere",
    "context add lab --endpoint foo",
    "context use nowhere",
    "schema",
    "schema rocket",
    "schema --crd rocket",
    "test --config nothing",
    "version --foo",
    "self-update x",
    "climax list nothing.yaml",
    "man",
    "completion foo",
    "frob",
];

/// The command lines of `climax`.
const CLIMAX_LINES: &[&str] = &[
    "run nothing.yaml",
    "run good.yaml --port few",
    "run good.yaml --transport foo",
    "run good.yaml --foo",
    "validate good.yaml",
    "validate bad.yaml nothing.yaml",
    "validate",
    "list good.yaml",
    "list --foo",
    "show good.yaml",
    "show nothing",
    "skill --foo",
    "tokens nothing.yaml",
    "completions foo",
    "frob",
];

const ALL: &str = "name: files\ncommand: mcp-files\nautoStart: false\n---\nname: flow\nsteps: [{id: a, tool: core_service_list}]\n";
const GOOD: &str =
    "name: demo\ncommand: sh\ntools:\n  - {name: alpha, description: First, effect: read}\n";
const BAD: &str = "command: sh\ncommand: sh\ntools:\n  - {name: tar list!, description: d, effect: read}\n  - {name: a, description: d, effect: read}\n  - {name: a, description: d, effect: read}\n";

/// Runs a command in a pipe. Standard error follows standard output.
fn in_a_pipe(mut command: Command) -> (String, Option<i32>) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut said = text(&output.stdout);
    for line in text(&output.stderr).lines() {
        writeln!(said, "{}", format!("stderr: {line}").trim_end()).unwrap();
    }
    (said, output.status.code())
}

/// Runs a command on a terminal of its own, which is 100 columns wide.
fn on_a_terminal(command: &Command) -> (String, Option<i32>) {
    let (text, status) = raw_terminal(command);
    (without_spinner(&text).replace('\u{1b}', "␛"), status)
}

/// The same, with every byte that reaches the terminal.
pub(crate) fn raw_terminal(command: &Command) -> (String, Option<i32>) {
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy());
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let line = format!("stty cols 100 rows 40; exec {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
    if let Some(folder) = command.get_current_dir() {
        script.current_dir(folder);
    }
    let output = script.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    (text, output.status.code())
}

/// How often a spinner is drawn depends on the machine.
fn without_spinner(text: &str) -> String {
    let mut shown = String::new();
    for part in text.split_inclusive('\n') {
        let last = part.rsplit('\r').next().unwrap();
        shown.push_str(last.strip_prefix("\u{1b}[K").unwrap_or(last));
    }
    // Closed input is echoed as the key that closes it.
    shown.replace("^D\u{8}\u{8}", "")
}

fn transcript(
    program: &str,
    lines: &[&str],
    run: impl Fn(&str) -> (String, Option<i32>),
    settle: impl Fn(&str) -> String,
) -> String {
    let mut said = String::new();
    for line in lines {
        let (output, code) = run(line);
        writeln!(said, "$ {program} {line}").unwrap();
        said.push_str(&settle(&output));
        if !said.ends_with('\n') {
            said.push('\n');
        }
        writeln!(said, "exit {}\n", code.unwrap()).unwrap();
    }
    said
}

fn check_muster(run: fn(Command) -> (String, Option<i32>), expected: ExpectFile) {
    let desk = Desk::new();
    std::fs::write(desk.home.file("all.yaml"), ALL).unwrap();
    let run = |line: &str| {
        let mut command = desk.command();
        command.current_dir(desk.home.path()).args(line.split(' '));
        run(command)
    };
    let said = transcript("muster", MUSTER_LINES, run, |text| desk.settled(text.as_bytes()));
    expected.assert_eq(&said);
}

fn check_climax(run: fn(Command) -> (String, Option<i32>), expected: ExpectFile) {
    let folder = Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let run = |line: &str| {
        let mut command = Command::new(CLIMAX);
        command.current_dir(folder.path()).env("HOME", folder.path()).args(line.split(' '));
        run(command)
    };
    let settle = |text: &str| text.replace(&folder.path().display().to_string(), "[FOLDER]");
    expected.assert_eq(&transcript("climax", CLIMAX_LINES, run, settle));
}

#[test]
fn muster_in_a_pipe() {
    check_muster(in_a_pipe, expect_file!["../transcripts/muster.pipe.txt"]);
}

#[test]
fn muster_on_a_terminal() {
    let run = |command: Command| on_a_terminal(&command);
    check_muster(run, expect_file!["../transcripts/muster.terminal.txt"]);
}

#[test]
fn climax_in_a_pipe() {
    check_climax(in_a_pipe, expect_file!["../transcripts/climax.pipe.txt"]);
}

#[test]
fn climax_on_a_terminal() {
    let run = |command: Command| on_a_terminal(&command);
    check_climax(run, expect_file!["../transcripts/climax.terminal.txt"]);
}

#[test]
fn no_command_is_left_out() {
    let mut missing = Vec::new();
    for (command, lines) in [
        (muster::cli::Cli::command(), MUSTER_LINES),
        (muster::climax::args::Cli::command(), CLIMAX_LINES),
    ] {
        add_missing(&command, "", lines, &mut missing);
    }
    assert_eq!(missing, [""; 0]);
}

/// Adds the commands below one that no line runs.
fn add_missing(command: &clap::Command, path: &str, lines: &[&str], missing: &mut Vec<String>) {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let words = format!("{path}{} ", inner.get_name());
        let is_run = |line: &&str| format!("{line} ").starts_with(&words);
        if inner.get_name() != "help" && !lines.iter().any(is_run) {
            missing.push(words.clone());
        }
        add_missing(inner, &words, lines, missing);
    }
}
