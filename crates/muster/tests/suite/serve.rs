//! `muster serve`, through the real binary and real HTTP.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use serde_json::{Value, json};

use super::client::Folder;

pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

#[test]
fn a_gateway_of_the_older_transport_is_found_by_the_bridge() {
    // Another program may take it in between; then the gateway says so, and the test fails.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!("aggregator: {{port: {port}, transport: sse}}\n");
    let folder = Folder::new(&[("config.yaml", &config)]);
    let mut child = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let sse = format!("http://localhost:{port}/sse");
    assert!(lines.any(|line| line.contains(&sse)), "the address is not told");
    std::thread::spawn(move || lines.for_each(drop));
    let ours = || {
        let mut command = Command::new(MUSTER);
        command.env("HOME", folder.path()).env_remove("MUSTER_CONTEXT");
        command
    };
    let mut bridge = ours();
    bridge.args(["agent", "--mcp-server", "--config-path"]).arg(folder.path());
    let mut bridge = super::bridge::Bridge::run(bridge);
    bridge.initialize();
    assert_eq!(bridge.leave(), Some(0));
    let agent = ours()
        .args(["agent", "--transport", "sse", "--endpoint"])
        .arg(format!("http://localhost:{port}/mcp"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&agent.stderr);
    assert!(said.contains("name the endpoint that ends in /sse"), "{said}");
    drop(child.kill());
    drop(child.wait());
}

/// A gateway on a free port, and what it said when it was up.
pub(crate) struct Gateway {
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) folder: Folder,
}

impl Gateway {
    /// The most memory that it has used, in kB. Without the pages of the program itself, of which a debug build has
    /// many.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kilobytes = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        kilobytes("VmHWM") - kilobytes("RssFile")
    }

    /// A gateway that everybody may change, without bundled CLIs: which are installed differs by machine.
    pub(crate) fn start(files: &[(&str, &str)], words: &[&str]) -> Self {
        Self::start_logging(files, words).0
    }

    /// A gateway that everybody may change, and what it logs after it listens.
    pub(crate) fn start_logging(
        files: &[(&str, &str)],
        words: &[&str],
    ) -> (Self, mpsc::Receiver<String>) {
        Self::start_with(&[MUSTER], files, words, |command, _| {
            command.env("MUSTER_ACCESS", "open");
        })
    }

    /// A gateway that everybody may change, started by a shell script that ends with `exec "$0" "$@"`.
    pub(crate) fn start_by(script: &str, files: &[(&str, &str)]) -> Self {
        let started = Self::start_with(&["sh", "-c", script, MUSTER], files, &[], |command, _| {
            command.env("MUSTER_ACCESS", "open");
        });
        started.0
    }

    /// A gateway with the default access, whose home is its folder.
    pub(crate) fn start_private(files: &[(&str, &str)], words: &[&str]) -> Self {
        Self::start_private_logging(files, words).0
    }

    /// A gateway with the default access, and what it prints after the line about its address.
    pub(crate) fn start_private_logging(
        files: &[(&str, &str)],
        words: &[&str],
    ) -> (Self, mpsc::Receiver<String>) {
        Self::start_with(&[MUSTER], files, words, |command, folder| {
            command.env("HOME", folder).env_remove("XDG_STATE_HOME").env_remove("MUSTER_ACCESS");
            command.env_remove("MUSTER_STATE_PATH");
        })
    }

    fn start_with(
        program: &[&str],
        files: &[(&str, &str)],
        words: &[&str],
        set_up: impl FnOnce(&mut Command, &Path),
    ) -> (Self, mpsc::Receiver<String>) {
        let config = "aggregator: {port: 0}\nclis: {bundled: none}\n";
        let folder = Folder::new(&[("config.yaml", config)]);
        for (name, text) in files {
            let path = folder.file(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (child, port, logged) = Self::launch(program, &folder, words, set_up);
        (Self { child, port, folder }, logged)
    }

    /// Kills it, and starts a gateway that everybody may change over the same files.
    pub(crate) fn restart(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        let open = |command: &mut Command, _: &Path| {
            command.env("MUSTER_ACCESS", "open");
        };
        (self.child, self.port, _) = Self::launch(&[MUSTER], &self.folder, &[], open);
    }

    fn launch(
        program: &[&str],
        folder: &Folder,
        words: &[&str],
        set_up: impl FnOnce(&mut Command, &Path),
    ) -> (Child, u16, mpsc::Receiver<String>) {
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .arg("serve")
            .arg("--config-path")
            .arg(folder.path())
            .args(words);
        command.env("MUSTER_STATE_PATH", folder.file("state"));
        set_up(&mut command, folder.path());
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said =
            lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("listening on ")));
        let said = said.unwrap().unwrap();
        // A line for people ends with the address; one of JSON goes on.
        let url = said.split_once("listening on ").unwrap().1.split("/mcp").next().unwrap();
        let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
        // What it logs later must not fill the pipe, whether anybody reads it or not.
        let (log, logged) = mpsc::channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| drop(log.send(line)));
        });
        (child, port, logged)
    }

    pub(crate) fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        stream
    }

    pub(crate) fn request(&self, head: &str, body: &str) -> (u16, String, String) {
        let mut stream = self.send(head, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    pub(crate) fn head(&self, session: Option<&str>) -> String {
        let session = session.map(|id| format!("\r\nmcp-session-id: {id}")).unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream{session}",
            self.port
        )
    }

    pub(crate) fn post(&self, session: Option<&str>, message: &Value) -> (u16, String, String) {
        self.request(&self.head(session), &message.to_string())
    }

    pub(crate) fn session(&self) -> String {
        let (_, head, _) = self.post(
            None,
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}}),
        );
        let line = head.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id"));
        line.unwrap().split_once(':').unwrap().1.trim().to_owned()
    }

    pub(crate) fn ask(&self, session: &str, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        let (status, _, body) = self.post(Some(session), &message);
        assert_eq!(status, 200, "{body}");
        // What takes its time comes as an event.
        let event = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(event.unwrap_or(&body)).unwrap()
    }

    /// The wrapped result of a tool behind `call_tool`.
    pub(crate) fn call_tool(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let params =
            json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}});
        let answer = self.ask(session, "tools/call", params);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let inner: Value = serde_json::from_str(text).unwrap();
        assert_eq!(inner["isError"], answer["result"]["isError"], "{answer}");
        inner
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const CLI: &str = "\
name: demo
command: printf
tools:
  - {name: show, description: Prints a word, command: '[%s]', args: [{name: word, positional: true, required: true}]}
  - {name: kubectl_delete, description: Deletes nothing, command: deleted}
";

#[test]
fn without_any_configuration_it_serves_installed_clis_behind_the_meta_tools() {
    let gateway = Gateway::start(&[("config.yaml", "aggregator: {port: 0}\n")], &[]);
    let session = gateway.session();
    let tools = gateway.ask(&session, "tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|t| t["name"].as_str())
        .collect();
    assert!(names.contains(&"call_tool"), "{names:?}");
    assert!(!names.iter().any(|name| muster_core::name::is_behind_meta_tools(name)), "{names:?}");
    let known = gateway.ask(
        &session,
        "tools/call",
        json!({"name": "filter_tools", "arguments": {"pattern": "cli_git_*", "limit": 20}}),
    );
    assert!(known["result"]["content"][0]["text"].as_str().unwrap().contains("cli_git_status"));
}

#[test]
fn clis_policies_and_the_deny_list_hold_behind_call_tool() {
    let policy = "default: enabled\ntools: {show: {args: {word: {pattern: '[a-z]+'}}}}\n";
    let files = [("clis/demo.yaml", CLI), ("policies/words.yaml", policy)];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let good = gateway.call_tool(&session, "cli_show", json!({"word": "abc"}));
    assert_eq!(good["content"][0]["text"], "[abc]");
    let refused = gateway.call_tool(&session, "cli_show", json!({"word": "a; b"}));
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("does not match pattern"));
    let blocked = gateway.call_tool(&session, "cli_kubectl_delete", json!({}));
    assert!(
        blocked["content"][0]["text"].as_str().unwrap().contains("blocked as it is destructive")
    );
    let allowed = Gateway::start(&[("clis/demo.yaml", CLI)], &["--yolo"]);
    let session = allowed.session();
    let done = allowed.call_tool(&session, "cli_kubectl_delete", json!({}));
    assert_eq!(done["content"][0]["text"], "deleted");
}

#[test]
fn a_policy_that_cannot_be_read_closes_everything() {
    let files = [
        ("clis/demo.yaml", CLI),
        ("policies/allow.yaml", "tools: {show: {}}\n"),
        (
            "policies/limits.yaml",
            "default: enabled\ntools: {show: {args: {word: {pattern: '[a-z]+'}}\n",
        ),
    ];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let answer = gateway.call_tool(&session, "cli_show", json!({"word": "EVIL"}));
    assert_eq!(answer["isError"], true, "{answer}");
}

#[test]
fn all_core_tools_are_listed_with_their_schemas() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    let arguments = json!({"include_schema": true});
    let params = json!({"name": "list_core_tools", "arguments": arguments});
    let answer = gateway.ask(&session, "tools/call", params);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let listed: Value = serde_json::from_str(text).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    assert!(tools.len() > 30, "{listed}");
    assert!(listed.get("next_offset").is_none_or(Value::is_null), "{listed}");
    assert!(tools.iter().all(|tool| tool["inputSchema"].is_object()), "{listed}");
}

#[test]
fn it_is_ready_once_its_servers_were_tried() {
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = slow.local_addr().unwrap();
    let server = format!("type: streamable-http\nurl: http://{address}/mcp\nautoStart: true\n");
    let idle = "type: streamable-http\nurl: http://127.0.0.1:9/mcp\nautoStart: false\n";
    let files = [("mcpservers/slow.yaml", &*server), ("mcpservers/idle.yaml", idle)];
    let gateway = Gateway::start(&files, &[]);
    let probe = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost:{}", gateway.port);
        let (status, _, body) = gateway.request(&head, "");
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    // Connected to, and never answered.
    let (held, _) = slow.accept().unwrap();
    let starting = json!({"status": "starting", "reason": "servers-starting", "starting": 1});
    assert_eq!(probe("/ready"), (503, starting));
    assert_eq!(probe("/health").0, 200);
    drop((held, slow));
    // Replies when the attempt is over.
    gateway.call_tool(&gateway.session(), "core_service_start", json!({"name": "slow"}));
    assert_eq!(probe("/ready"), (200, json!({"status": "ready"})));
}

#[test]
fn health_is_told_and_strangers_are_refused() {
    let gateway = Gateway::start(&[], &[]);
    let head = format!("GET /health HTTP/1.1\r\nhost: localhost:{}", gateway.port);
    let (status, _, body) = gateway.request(&head, "");
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["status"], "ok");
    for wrong in [
        "host: evil.example",
        "host: 192.0.2.7",
        "host: [2001:db8::7]:8090",
        "host: localhost\r\norigin: http://evil.example",
        "host: localhost\r\norigin: http://192.0.2.7",
    ] {
        let head = format!("POST /mcp HTTP/1.1\r\n{wrong}\r\ncontent-type: application/json");
        assert_eq!(gateway.request(&head, "{}").0, 403, "{wrong}");
    }
}

#[test]
fn a_gateway_that_cannot_listen_says_so_and_fails() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = Folder::new(&[(
        "config.yaml",
        &format!("aggregator:\n  host: 127.0.0.1\n  port: {port}\n"),
    )]);
    let output = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{words}");
    assert!(words.contains("hint: "), "{words}");
}

#[test]
fn the_two_tools_of_climax_can_be_shown_instead() {
    let gateway = Gateway::start(&[("clis/demo.yaml", CLI)], &["--surface", "climax"]);
    let session = gateway.session();
    let tools = gateway.ask(&session, "tools/list", json!({}));
    assert_eq!(tools["result"]["tools"][0]["name"], "climax_search");
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 2);
    let params = json!({"name": "climax_call", "arguments": {"tool_name": "cli_show", "args": {"word": "x"}}});
    let answer = gateway.ask(&session, "tools/call", params);
    assert_eq!(answer["result"]["content"][0]["text"], "[x]");
}

#[test]
fn events_reach_the_client_that_follows_them() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    let follow = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "call_tool", "arguments": {"name": "core_events", "arguments": {
            "follow": true, "resourceName": "made", "limit": 1, "duration": "1m"}}}});
    let answer = std::thread::scope(|scope| {
        let following = scope.spawn(|| gateway.post(Some(&session), &follow).2);
        let server = json!({"name": "made", "type": "sse", "url": "http://localhost:1/sse"});
        // When it began to follow nobody knows, so things happen until it has heard one.
        while !following.is_finished() {
            gateway.call_tool(&session, "core_mcpserver_create", server.clone());
            gateway.call_tool(&session, "core_mcpserver_delete", json!({"name": "made"}));
        }
        following.join().unwrap()
    });
    let messages: Vec<Value> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let told = messages.iter().find(|message| message["method"] == "notifications/muster/event");
    let told = told.unwrap_or_else(|| panic!("nothing was told: {answer}"));
    assert_eq!(told["params"]["resource_name"], "made");
    let result = messages.iter().find(|message| message["id"] == 7).unwrap();
    let text = result["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(told["params"]["reason"].as_str().unwrap()), "{text}");
}

#[test]
fn following_returns_at_once_and_new_events_reach_the_session() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    let server = json!({"name": "made", "type": "sse", "url": "http://localhost:1/sse"});
    gateway.call_tool(&session, "core_mcpserver_create", server);
    let past = |name: &str| {
        let follow = json!({"follow": true, "resourceName": name});
        let answer = gateway.call_tool(&session, "core_events", follow);
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(past("other"), "[]");
    // The second follow replaces the first.
    assert!(past("made").contains("MCPServerCreated"));
    gateway.call_tool(
        &session,
        "core_mcpserver_create",
        json!({"name": "other", "type": "sse", "url": "http://localhost:1/sse"}),
    );
    gateway.call_tool(&session, "core_mcpserver_delete", json!({"name": "made"}));
    let head = gateway.head(Some(&session)).replace("POST", "GET");
    let mut stream = gateway.send(&head, "");
    let mut heard = BufReader::new(&mut stream).lines().map(Result::unwrap);
    let event = heard.find(|line| line.contains("notifications/muster/event")).unwrap();
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["params"]["resource_name"], "made");
    assert_eq!(event["params"]["reason"], "MCPServerDeleted");
}

const LONG: &str = "\
name: long
command: sh
tools:
  - name: lines
    description: Prints a lot
    command: -c
    args: [{name: script, positional: true, required: true}]
";

const SCRIPT: &str = "yes 0123456789abcdef | head -n 11764706; echo the end";

#[cfg(target_os = "linux")]
#[test]
fn who_follows_events_is_answered_when_the_gateway_ends() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    let follow = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "call_tool", "arguments": {"name": "core_events", "arguments": {
            "follow": true, "duration": "1h"}}}});
    let head = gateway.head(Some(&session));
    let mut stream = gateway.send(&head, &follow.to_string());
    let mut heard = BufReader::new(&mut stream).lines().map(Result::unwrap);
    // From here on it follows.
    heard.find(|line| line.contains("notifications/muster/events")).unwrap();
    let id = rustix::process::Pid::from_child(&gateway.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let answer = heard.find(|line| line.contains(r#""id":7"#)).unwrap();
    assert!(answer.contains("result"), "{answer}");
}

#[test]
fn two_hundred_megabytes_are_kept_and_hardly_touch_memory() {
    let gateway = Gateway::start(&[("clis/long.yaml", LONG)], &[]);
    let session = gateway.session();
    let answer = gateway.call_tool(&session, "cli_lines", json!({"script": SCRIPT}));
    let output = &answer["_meta"]["muster/output"];
    assert_eq!(output["bytes"], 200_000_010, "{answer}");
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("0123456789abcdef\n") && text.contains("\nthe end"), "{text}");
    let look = |mut arguments: Value| {
        arguments["handle"] = output["handle"].clone();
        let params = json!({"name": "get_output", "arguments": arguments});
        let answer = gateway.ask(&session, "tools/call", params);
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert!(look(json!({"tail": 1})).ends_with("the end"));
    assert!(look(json!({"offset": 200_000_000})).ends_with("the end\n"));
    assert_eq!(look(json!({"count": true})), "11764707");
    let most = gateway.peak_memory();
    assert!(most < 40 * 1024, "{most} kB");
}
