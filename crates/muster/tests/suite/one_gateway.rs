//! One gateway for all clients: joined, started once, ended when nobody needs it.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
};

use rustix::{
    fs::{FlockOperation, fcntl_lock},
    process::{Pid, Signal, kill_process},
};
use serde_json::{Value, json};

use super::{client::Folder, serve::MUSTER};

/// A server that writes down when it starts and what it does. `hold` never returns.
const SERVER: &str = r#"
import json, sys
log = open(sys.argv[1], "a", buffering=1)
print("start", file=log)
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("mark", "hold")]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    result = {"content": [{"type": "text", "text": "done"}]}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "marks", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        print(params["name"], params["arguments"].get("word", ""), file=log)
        if params["name"] == "hold":
            open(sys.argv[2]).read()
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

const WORKFLOW: &str = "\
name: once
steps:
  - {id: a, tool: x_marks_mark, args: {word: first}}
  - {id: b, tool: x_marks_mark, args: {word: second}}
";

/// A run that does not end until the pipe is written to.
const HELD: &str = "\
name: held
steps:
  - {id: a, tool: x_marks_mark, args: {word: before}}
  - {id: b, tool: x_marks_hold}
  - {id: c, tool: x_marks_mark, args: {word: after}}
";

/// A user with a configuration directory. The gateway ends with it.
struct User {
    home: Folder,
}

impl User {
    fn new() -> Self {
        let home = Folder::new(&[("server.py", SERVER), ("log", "")]);
        let config = home.file(".config/muster");
        for folder in ["mcpservers", "workflows"] {
            fs::create_dir_all(config.join(folder)).unwrap();
        }
        assert!(Command::new("mkfifo").arg(home.file("never")).status().unwrap().success());
        let server = json!({"command": "python3",
            "args": [home.file("server.py"), home.file("log"), home.file("never")]});
        fs::write(config.join("mcpservers/marks.yaml"), server.to_string()).unwrap();
        fs::write(config.join("workflows/once.yaml"), WORKFLOW).unwrap();
        fs::write(config.join("workflows/held.yaml"), HELD).unwrap();
        let settings = "aggregator: {port: 0}\nclis: {bundled: none}\n";
        fs::write(config.join("config.yaml"), settings).unwrap();
        Self { home }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("HOME", self.home.path()).stdin(Stdio::null());
        let variables = ["XDG_STATE_HOME", "MUSTER_STATE_PATH", "MUSTER_CONTEXT", "MUSTER_ACCESS"];
        for name in variables {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(MUSTER).args(words).output().unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "-o", "json"]).stdout).unwrap()
    }

    /// Connects a client as `muster connect` does, and starts what it wrote as the client does.
    fn connect(&self, client: &str, file: &str) -> Bridge {
        let connected = self.run(&["connect", client]);
        assert!(connected.status.success(), "{connected:?}");
        let text = fs::read_to_string(self.home.file(file)).unwrap();
        let entry = &serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["muster"];
        let mut command = self.command(entry["command"].as_str().unwrap());
        command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        Bridge::start(command)
    }

    fn standalone(&self, words: &[&str]) -> Bridge {
        let mut command = self.command(MUSTER);
        command.arg("standalone").args(words);
        Bridge::start(command)
    }

    /// The lines that the server wrote.
    fn log(&self, line: &str) -> usize {
        let log = fs::read_to_string(self.home.file("log")).unwrap();
        log.lines().filter(|said| said.trim() == line).count()
    }

    fn state(&self) -> PathBuf {
        self.status()["stateFolder"].as_str().unwrap().into()
    }

    /// Waits until no gateway owns the state folder.
    fn wait_for_end(&self) {
        let lock = File::options().read(true).write(true).open(self.state().join("gateway.lock"));
        fcntl_lock(lock.unwrap(), FlockOperation::LockExclusive).unwrap();
    }

    fn kill_gateway(&self) -> u64 {
        let pid = self.status()["pid"].as_u64().unwrap();
        let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(process, Signal::KILL).unwrap();
        self.wait_for_end();
        pid
    }
}

impl Drop for User {
    fn drop(&mut self) {
        drop(self.run(&["stop", "--now"]));
    }
}

/// A client on standard input and output.
struct Bridge {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Bridge {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout), last_id: 0 }
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin, "{message}").unwrap();
        id
    }

    fn receive(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the bridge left");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.receive(id)
    }

    fn initialize(&mut self) -> Value {
        let answer = self.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}),
        );
        writeln!(self.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)
            .unwrap();
        answer
    }

    /// Starts a call of a tool.
    fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        let params =
            json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}});
        self.send("tools/call", params)
    }

    /// The text of a tool's answer, once its server has started.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        loop {
            let id = self.begin(tool, &arguments);
            let answer = self.receive(id).to_string();
            let is_early = ["still starting", "not available (missing", "not found"]
                .iter()
                .any(|words| answer.contains(words));
            if !is_early {
                return answer;
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Leaves, and returns what the bridge wrote to standard error.
    fn leave(mut self) -> String {
        drop(self.stdin);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

#[test]
fn three_clients_share_one_gateway_and_nothing_is_lost_or_done_twice() {
    let user = User::new();
    let mut cursor = user.connect("cursor", ".cursor/mcp.json");
    let mut claude = user.connect("claude-code", ".claude.json");
    let mut gemini = user.connect("gemini", ".gemini/settings.json");
    // All at once, before there is a gateway.
    for client in [&mut cursor, &mut claude, &mut gemini] {
        client.send("ping", json!({}));
    }
    for client in [&mut cursor, &mut claude, &mut gemini] {
        assert!(client.initialize()["result"].is_object());
        assert!(client.call("x_marks_mark", json!({"word": "hello"})).contains("done"));
    }
    assert_eq!((user.log("start"), user.log("mark hello")), (1, 3), "one copy of the server");
    let first = user.status()["pid"].clone();
    // A client that is killed takes nothing with it.
    claude.kill();
    let ran = cursor.call("workflow_once", json!({}));
    assert!(ran.contains("completed"), "{ran}");
    assert_eq!((user.log("mark first"), user.log("mark second")), (1, 1));
    assert_eq!(user.status()["pid"], first);
    // A call in flight when the gateway is killed: its outcome is unknown, and it is not repeated.
    let held = gemini.begin("x_marks_hold", &json!({}));
    while user.log("hold") == 0 {
        cursor.ask("ping", json!({}));
    }
    user.kill_gateway();
    let answer = gemini.receive(held);
    let error = answer["error"]["message"].as_str().unwrap();
    assert!(error.contains("may have been carried out, so it was not repeated"), "{answer}");
    // The next message starts it again, once, and the sessions go on.
    assert!(gemini.ask("tools/list", json!({}))["result"]["tools"].is_array());
    assert!(cursor.call("x_marks_mark", json!({"word": "again"})).contains("done"));
    assert_ne!(user.status()["pid"], first);
    assert_eq!((user.log("start"), user.log("hold"), user.log("mark again")), (2, 1, 1));
    assert_eq!((user.log("mark first"), user.log("mark second")), (1, 1));
    let executions = cursor.call("core_workflow_execution_list", json!({}));
    assert!(executions.contains("completed"), "{executions}");
    let said = gemini.leave();
    assert_eq!(said.matches("starting the gateway").count(), 2, "{said}");
    assert!(said.contains("connected to the gateway at http://"), "{said}");
}

#[test]
fn a_run_goes_on_while_other_clients_come_and_go() {
    let user = User::new();
    let mut runs = user.connect("cursor", ".cursor/mcp.json");
    runs.initialize();
    runs.call("x_marks_mark", json!({"word": "ready"}));
    let held = runs.begin("workflow_held", &json!({}));
    while user.log("hold") == 0 {
        runs.ask("ping", json!({}));
    }
    // None of them takes the run for one that was left behind.
    let mut killed = user.connect("claude-code", ".claude.json");
    killed.initialize();
    let mut leaves = user.connect("gemini", ".gemini/settings.json");
    leaves.initialize();
    killed.kill();
    leaves.leave();
    drop(File::options().write(true).open(user.home.file("never")).unwrap());
    let ran = runs.receive(held).to_string();
    assert!(ran.contains("completed"), "{ran}");
    assert_eq!((user.log("mark before"), user.log("hold"), user.log("mark after")), (1, 1, 1));
    let executions = runs.call("core_workflow_execution_list", json!({}));
    assert_eq!(executions.matches("execution_id").count(), 1, "{executions}");
}

#[test]
fn a_gateway_that_was_stopped_is_started_by_the_next_message_only() {
    let user = User::new();
    let mut client = user.standalone(&[]);
    client.initialize();
    assert_eq!(user.status()["running"], true);
    let stopped = user.run(&["stop"]);
    assert!(String::from_utf8_lossy(&stopped.stdout).starts_with("Stopped the gateway for "));
    let status = user.run(&["status"]);
    assert_eq!(status.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&status.stdout).contains("not running"));
    assert!(client.ask("tools/list", json!({}))["result"]["tools"].is_array());
    assert_eq!(user.status()["running"], true);
}

#[test]
fn a_gateway_for_clients_ends_after_the_last_one() {
    let user = User::new();
    let mut client = user.standalone(&["--idle-timeout", "300ms"]);
    client.initialize();
    let first = user.status()["pid"].clone();
    let mut second = user.standalone(&["--idle-timeout", "300ms", "--yolo"]);
    second.initialize();
    client.leave();
    assert_eq!(user.status()["pid"], first, "one client is still there");
    let said = second.leave();
    assert!(said.contains("was started with other options (none)"), "{said}");
    user.wait_for_end();
}

#[test]
fn a_gateway_that_cannot_start_says_why_to_the_client() {
    let user = User::new();
    fs::write(user.home.file(".config/muster/config.yaml"), "aggregator: {port: many}\n").unwrap();
    let mut client = user.standalone(&[]);
    let answer = client.initialize();
    let error = answer["error"]["message"].as_str().unwrap();
    assert!(
        error.contains("the gateway did not start") && error.contains("config.yaml"),
        "{error}"
    );
}

#[test]
fn a_gateway_with_a_state_folder_of_its_own() {
    let user = User::new();
    let state = user.home.file("my state");
    let started = user.run(&["serve", "--background", "--state-path", state.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&started.stdout).into_owned();
    let (_, command) = said.trim_end().rsplit_once("Stop it with: ").unwrap();
    let mut shell = user.command("sh");
    let stopped = shell.arg("-c").arg(command.replacen("muster", MUSTER, 1)).output().unwrap();
    let said = String::from_utf8_lossy(&stopped.stdout);
    assert!(said.starts_with("Stopped the gateway for "), "{command}: {stopped:?}");

    // A service does not have the variables of the shell that installs it.
    for (name, value, expected) in [
        ("MUSTER_STATE_PATH", "/var/s", "\"--state-path\" \"/var/s\""),
        ("XDG_STATE_HOME", "/var/x", "\"--state-path\" \"/var/x/muster/"),
    ] {
        let mut install = user.command(MUSTER);
        let unit = install.args(["service", "install", "--dry-run"]).env(name, value).output();
        let unit = String::from_utf8(unit.unwrap().stdout).unwrap();
        assert!(unit.contains(expected) || cfg!(target_os = "macos"), "{name}: {unit}");
    }
}

#[test]
fn a_client_without_a_folder_for_state_gets_a_gateway_of_its_own() {
    let user = User::new();
    let temporary = user.home.file("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = user.command(MUSTER);
    command.arg("standalone").env("XDG_STATE_HOME", "/proc/none").env("TMPDIR", &temporary);
    let mut client = Bridge::start(command);
    assert!(client.initialize()["result"].is_object());
    assert!(client.call("x_marks_mark", json!({"word": "hello"})).contains("done"));
    let lock = fs::read_dir(&temporary).unwrap().find_map(|entry| {
        File::options().read(true).write(true).open(entry.unwrap().path().join("gateway.lock")).ok()
    });
    let said = client.leave();
    assert!(said.contains("this client gets a gateway of its own"), "{said}");
    // It ends with its client.
    fcntl_lock(lock.unwrap(), FlockOperation::LockExclusive).unwrap();
}

#[test]
fn a_gateway_in_the_background() {
    let user = User::new();
    let started = user.run(&["serve", "--background"]);
    let said = String::from_utf8_lossy(&started.stdout);
    assert!(started.status.success(), "{started:?}");
    let status = user.status();
    assert!(said.starts_with("Started the gateway: http://localhost:"), "{said}");
    assert!(said.contains(&format!("(pid {})", status["pid"])), "{said}");
    assert!(PathBuf::from(status["log"].as_str().unwrap()).exists());
    let again = user.run(&["serve", "--background"]);
    assert!(again.status.success(), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("A gateway is already running: "));
    // Commands find it, although its port is not in config.yaml.
    let listed = user.run(&["list", "mcpservers"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("marks"), "{listed:?}");
    // Secrets on the command line do not end up in the file of the server.
    let created = user.run(&[
        "create",
        "mcpserver",
        "extra",
        "--type",
        "stdio",
        "--command",
        "true",
        "--env",
        "API_TOKEN=canary",
    ]);
    let said = String::from_utf8_lossy(&created.stdout);
    assert!(said.contains("API_TOKEN is stored as secret://extra.API_TOKEN"), "{created:?}");
    assert!(
        said.contains("It is not started. Start it with: muster start service extra"),
        "{said}"
    );
    let config = user.home.file(".config/muster");
    assert!(!fs::read_to_string(config.join("mcpservers/extra.yaml")).unwrap().contains("canary"));
    assert_eq!(
        fs::read_to_string(config.join("secrets/extra.API_TOKEN")).unwrap().trim(),
        "canary"
    );
    let stopped = user.run(&["stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    let nothing = user.run(&["stop"]);
    assert!(nothing.status.success());
    assert!(String::from_utf8_lossy(&nothing.stdout).starts_with("No gateway is running for "));
}
