//! Every command of both programs in a pipe and on a terminal, with right and with wrong arguments. The expected output
//! is in `tests/transcripts`; `UPDATE_EXPECT=1` rewrites it.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use clap::CommandFactory as _;
use expect_test::{ExpectFile, expect_file};

use super::{
    client::{CLIMAX, Folder},
    desk::Desk,
    serve::MUSTER,
};

/// The command lines of `muster` beside a gateway. Commands that go on until they are stopped are only given wrong
/// arguments.
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
    "start service github",
    "list mcpservers",
    "list mcpservers --all --verbose",
    "list workflow-executions",
    "list rocket",
    "list tools --foo",
    "list tools --filter x_*",
    "get workflow deploy",
    "get mcpserver github",
    "get mcpserver githbu",
    "get mcpserver",
    "create",
    "create mcpserver",
    "create mcpserver notes --type stdio --command mcp-notes",
    "create service",
    "create service db port-forward",
    "create service db port-forward --namespace=db",
    "create serviceclass one",
    "create serviceclass one --start x_github_greet --stop x_github_greet",
    "create workflow one",
    "create workflow one --step core_service_list",
    "create rocket x",
    "apply",
    "apply -f nothing.yaml",
    "apply -f all.yaml",
    "edit mcpserver nobody",
    "edit rocket x",
    "edit workflow deploy --config-path GATEWAY",
    "delete workflow deploy",
    "delete workflow one --yes",
    "delete workflow nobody --yes",
    "delete workflow",
    "validate nothing.yaml",
    "validate all.yaml",
    "approve mcpserver nobody",
    "check mcpserver waits",
    "approve mcpserver waits",
    "start",
    "start service nobody",
    "start workflow nobody",
    "start workflow deploy",
    "start workflow deploy --environment=lab",
    "start workflow broken",
    "stop service nobody",
    "stop service db",
    "stop rocket x",
    "status --foo",
    "service --foo",
    "service install --foo",
    "service uninstall --foo",
    "restart mcpserver nobody",
    "restart service github",
    "restart rocket x",
    "check workflow deploy",
    "check workflow broken",
    "check serviceclass port-forward",
    "check mcpserver files -o yaml",
    "check rocket x",
    "search",
    "search x_github_greet --limit 1",
    "search x_github_greet --limit 1 --quiet",
    "tokens",
    "tokens --foo",
    "token --foo",
    "token create",
    "token create ci --expires soon",
    "token list",
    "token list --foo",
    "token create ci",
    "token list",
    "token revoke nobody",
    "token revoke ci",
    "session --foo",
    "session list",
    "session list --foo",
    "session end nobody",
    "policy --foo",
    "policy show",
    "policy show --foo",
    "policy check",
    "policy check x_github_nobody",
    "policy check x_github_greet",
    "policy check core_stats --user ann@example.com",
    "migrate",
    "migrate rocket",
    "migrate kubernetes",
    "migrate files --apply",
    "models --foo",
    "models add --foo",
    "models list",
    "models list --foo",
    "models remove nobody",
    "call",
    "call x_github_nobody",
    "call x_github_greet",
    "call x_github_greet name=Bo",
    "calls --tool nobody",
    "calls --limit few",
    "calls 7 --follow",
    "calls --since soon",
    "calls --limit 51 --draft again",
    "calls 99999",
    "stats --tool nobody",
    "stats --foo",
    "events --resource-name nobody",
    "events --limit few",
    "events --since soon",
    "logs mcpserver github",
    "logs mcpserver github --tail few",
    "auth --foo",
    "auth login --endpoint ENDPOINT",
    "auth login --server nobody --endpoint ENDPOINT",
    "auth login --foo",
    "auth logout --foo",
    "auth status --foo",
    "auth whoami --foo",
    "auth refresh --foo",
    "context delete nowhere --force",
    "context update nowhere",
    "context rename nowhere",
    "context show nowhere",
    "context add lab --endpoint foo",
    "context list --foo",
    "context current --foo",
    "context use nowhere",
    "schema",
    "schema rocket",
    "schema --crd rocket",
    "test --config nothing",
    "version",
    "version --foo",
    "self-update x",
    "climax list nothing.yaml",
    "man",
    "completion fish",
    "completion foo",
    "frob",
];

/// The command lines of a user's first hour, without a gateway.
const ALONE_LINES: &[&str] = &[
    "list tools",
    "check mcpserver files",
    "status",
    "stop",
    "doctor",
    "service install --dry-run",
    "service uninstall",
    "import --dry-run",
    "import --yes",
    "connect cursor --dry-run",
    "connect cursor",
    "connect cursor",
    "import --dry-run",
    "connect cursor --undo",
    "connect cursor --undo",
    "enable cli git",
    "disable cli git",
    "edit config",
    "edit mcpserver files",
    "validate .config/muster",
    "delete policy main --yes",
    "migrate kubernetes",
    "man pages",
    "schema --crd toolsets",
    "auth status",
    "auth whoami",
    "auth login",
    "auth logout",
    "auth refresh",
    "context add lab --endpoint http://lab.example/mcp --use",
    "context add lab --endpoint http://lab.example/mcp",
    "context",
    "context current",
    "context list",
    "context show lab",
    "context update lab --endpoint http://lab.example:81/mcp",
    "context rename lab prod",
    "context use prod",
    "context delete prod",
    "context delete prod --force",
    "version",
    "climax validate mine.yaml",
];

/// The command lines of `climax`.
const CLIMAX_LINES: &[&str] = &[
    "run nothing.yaml",
    "run good.yaml --port few",
    "run good.yaml --transport foo",
    "run good.yaml --foo",
    "run good.yaml",
    "validate good.yaml",
    "validate bad.yaml nothing.yaml",
    "validate",
    "list good.yaml",
    "list --foo",
    "show jq",
    "show good.yaml",
    "show nothing",
    "skill --foo",
    "skill",
    "tokens nothing.yaml",
    "tokens good.yaml",
    "completions foo",
    "completions fish",
    "frob",
];

const ALL: &str = "name: files\ncommand: mcp-files\nautoStart: false\n---\nname: flow\nsteps: [{id: a, tool: core_service_list}]\n";
const GOOD: &str =
    "name: demo\ncommand: sh\ntools:\n  - {name: alpha, description: First, effect: read}\n";
const BAD: &str = "command: sh\ncommand: sh\ntools:\n  - {name: tar list!, description: d, effect: read}\n  - {name: a, description: d, effect: read}\n  - {name: a, description: d, effect: read}\n";

const WAITS: &str = "name: waits\ncommand: mcp-waits\nautoStart: false\napproval: pending\n";
const CURSOR: &str = "{\"mcpServers\": {\"files\": {\"command\": \"no-such-server\", \"args\": [\"${workspaceFolder}\"]}}}\n";

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
        said.push_str(&shortened(&settle(&output)));
        if !said.ends_with('\n') {
            said.push('\n');
        }
        writeln!(said, "exit {}\n", code.unwrap()).unwrap();
    }
    said
}

/// The first lines: scripts, schemas and manuals have tests of their own.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 40;
    let more = text.lines().count().saturating_sub(LONGEST);
    if more == 0 {
        return text.to_owned();
    }
    let first: String = text.split_inclusive('\n').take(LONGEST).collect();
    format!("{first}[{more} more lines]\n")
}

fn check_muster(run: fn(Command) -> (String, Option<i32>), expected: ExpectFile) {
    let desk = Desk::new();
    fs::write(desk.home.file("all.yaml"), ALL).unwrap();
    fs::write(desk.gateway.folder.file("mcpservers/waits.yaml"), WAITS).unwrap();
    // The gateway has read the file when it answers.
    desk.run(&["call", "core_config_reload"]);
    let folder = desk.gateway.folder.path().display().to_string();
    let run = |line: &str| {
        let mut command = desk.command();
        command.current_dir(desk.home.path()).env("EDITOR", "true");
        // The flag selects a gateway by its folder.
        if line.contains("GATEWAY") {
            command.env_remove("MUSTER_ENDPOINT");
        }
        let word = |word: &str| word.replace("GATEWAY", &folder).replace("ENDPOINT", &desk.url());
        command.args(line.split(' ').map(word));
        run(command)
    };
    let settle = |text: &str| settled(&desk.settled(text.as_bytes()).replace(&folder, "GATEWAY"));
    expected.assert_eq(&transcript("muster", MUSTER_LINES, run, settle));
}

fn check_alone(run: fn(Command) -> (String, Option<i32>), expected: ExpectFile) {
    let home = Folder::new(&[("mine.yaml", GOOD)]);
    for (name, text) in [
        (".config/muster/config.yaml", "aggregator: {port: 9}\nclis: {bundled: none}\n"),
        (".config/muster/policies/main.yaml", "default: enabled\n"),
        (".cursor/mcp.json", CURSOR),
    ] {
        let path = home.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let run = |line: &str| {
        let mut command = Command::new(MUSTER);
        command.current_dir(home.path()).args(line.split(' '));
        command.env("HOME", home.path()).env("EDITOR", "true").env("PATH", "/usr/bin:/bin");
        for name in ["MUSTER_ENDPOINT", "MUSTER_CONTEXT", "MUSTER_STATE_PATH", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        run(command)
    };
    let settle = |text: &str| {
        let text = text.replace(&home.path().display().to_string(), "[HOME]");
        settled(&text.replace(MUSTER, "[MUSTER]"))
    };
    expected.assert_eq(&transcript("muster", ALONE_LINES, run, settle));
}

/// The text without what differs between two runs or two machines: identifiers, secrets, durations and costs.
fn settled(text: &str) -> String {
    let mut settled = String::new();
    for word in text.split_inclusive([' ', '\n', '"', '`', '\'', '/']) {
        let bare = word.trim_end_matches([' ', '\n', '"', '`', '\'', '/']);
        let is_id = bare.len() == 36 && bare.matches('-').count() == 4;
        let is_folder = bare.strip_prefix("muster-").is_some_and(|rest| {
            rest.len() == 12 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let shown = match bare {
            _ if is_id => "[ID]",
            _ if is_folder => "muster-[HASH]",
            _ if bare.starts_with("mst_") => "[TOKEN]",
            bare => bare,
        };
        settled.push_str(shown);
        settled.push_str(word.strip_prefix(bare).unwrap_or_default());
    }
    settled
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
fn muster_without_a_gateway_in_a_pipe() {
    check_alone(in_a_pipe, expect_file!["../transcripts/alone.pipe.txt"]);
}

#[test]
fn muster_without_a_gateway_on_a_terminal() {
    let run = |command: Command| on_a_terminal(&command);
    check_alone(run, expect_file!["../transcripts/alone.terminal.txt"]);
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

/// The commands without a line that succeeds, and why.
const NEVER_SUCCEED: &[(&str, &str)] = &[
    ("muster serve", "goes on until it is stopped"),
    ("muster agent", "goes on until it is stopped"),
    ("muster standalone", "goes on until it is stopped"),
    ("muster top", "goes on until it is stopped"),
    ("muster console", "opens a browser"),
    ("muster status", "needs a gateway of the same user; see one_gateway.rs"),
    ("muster models add", "downloads a model"),
    ("muster models remove", "needs a model that was downloaded"),
    ("muster session end", "needs a login; see operators.rs"),
    ("muster auth refresh", "needs a login; see login.rs"),
    ("muster test", "shows how long each scenario took; see `muster-scenario`"),
    ("muster self-update", "needs releases; see self_update.rs"),
];

/// The transcripts in a pipe. Those on a terminal have the same lines.
const TRANSCRIPTS: [&str; 3] = ["muster.pipe.txt", "alone.pipe.txt", "climax.pipe.txt"];

#[test]
fn every_command_is_run_with_right_and_with_wrong_arguments() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let texts = TRANSCRIPTS.map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let mut lines = Vec::new();
    for transcript in &texts {
        let mut line = "";
        for text in transcript.lines() {
            if let Some(started) = text.strip_prefix("$ ") {
                line = started;
            } else if let Some(code) = text.strip_prefix("exit ") {
                lines.push((line, code == "0"));
            }
        }
    }
    let mut missing = Vec::new();
    for (name, command) in [
        ("muster", muster::cli::Cli::command()),
        ("climax", muster::climax::args::ClimaxCli::command()),
    ] {
        add_missing(&command, name, &lines, &mut missing);
    }
    assert_eq!(missing, [""; 0]);
}

/// Adds the commands below one without a line that succeeds, or without one that fails.
fn add_missing(
    command: &clap::Command,
    path: &str,
    lines: &[(&str, bool)],
    missing: &mut Vec<String>,
) {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        // The help of a group is in docs/reference; `muster climax` has a transcript of its own.
        if inner.get_name() == "help" {
            continue;
        }
        let words = format!("{path} {}", inner.get_name());
        if words != "muster climax" && inner.has_subcommands() {
            add_missing(inner, &words, lines, missing);
            continue;
        }
        for wanted in [true, false] {
            let has = |(line, succeeds): &(&str, bool)| {
                *succeeds == wanted && format!("{line} ").starts_with(&format!("{words} "))
            };
            let excused = wanted && NEVER_SUCCEED.iter().any(|(command, _)| *command == words);
            // A line that succeeds makes the excuse void.
            if lines.iter().any(has) == excused {
                let how = if wanted { "right" } else { "wrong" };
                missing.push(format!("{words} with {how} arguments"));
            }
        }
    }
}
