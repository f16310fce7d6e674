//! Who is admitted to a gateway, through the real binary.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

use super::{
    client::{CLIMAX, Folder},
    serve::{Gateway, MUSTER},
};

const NOBODY: u32 = 65534;

fn muster(gateway: &Gateway) -> Command {
    let mut command = Command::new(MUSTER);
    command
        .env("HOME", gateway.folder.path())
        .env("MUSTER_ENDPOINT", format!("http://localhost:{}/mcp", gateway.port))
        .env_remove("XDG_STATE_HOME")
        .env_remove("MUSTER_CONTEXT")
        .env_remove("MUSTER_AUTH_MODE");
    command
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

fn token(gateway: &Gateway, words: &[&str]) -> String {
    let output = muster(gateway)
        .arg("token")
        .args(words)
        .arg("--config-path")
        .arg(gateway.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends a request that every admitted caller may send.
fn post(gateway: &Gateway, path: &str, more: &str) -> (u16, String) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream{more}",
        gateway.port
    );
    let (status, _, body) = gateway.request(&head, &message.to_string());
    (status, body)
}

fn protected() -> String {
    // Its provider is not there: nobody can log in.
    let server = json!({"enabled": true, "baseUrl": "https://muster.example", "provider": "dex",
        "dex": {"issuerUrl": "http://127.0.0.1:9", "clientId": "muster", "clientSecret": "s"}});
    json!({"aggregator": {"port": 0, "oauth": {"server": server}}}).to_string()
}

#[test]
fn an_unknown_access_mode_is_refused() {
    let folder = Folder::new(&[("config.yaml", "aggregator: {port: 0}\n")]);
    let output = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_ACCESS", "closed")
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .output()
        .unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("MUSTER_ACCESS is `closed`, which is not an access mode"), "{said}");
    assert!(said.contains("set it to `private`, `token` or `open`"), "{said}");
}

#[test]
fn commands_of_the_same_user_need_no_login() {
    let mut gateway = Gateway::start_private(&[("config.yaml", &protected())], &[]);
    assert_eq!(post(&gateway, "/mcp", "").0, 401);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = gateway.folder.file(".local/state/muster");
    let file = state.join(format!("gateways/{}.json", gateway.port));
    assert_eq!((mode(&state), mode(file.parent().unwrap()), mode(&file)), (0o700, 0o700, 0o600));
    let list = || muster(&gateway).args(["list", "services", "--auth", "none"]).output().unwrap();
    let listed = list();
    assert!(listed.status.success(), "{}", said(&listed));

    // The token is not sent to whatever else listens on that port.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("127.0.0.1", "127.0.0.2").replace("::1", "::2")).unwrap();
    assert!(!list().status.success());
    // Nor believed from a file that others could read.
    fs::write(&file, &text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!list().status.success());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(list().status.success());

    // Agents behind the bridge are not operators.
    let mut bridge = muster(&gateway);
    bridge.args(["agent", "--mcp-server", "--auth", "none", "--endpoint"]);
    bridge.arg(format!("http://localhost:{}/mcp", gateway.port));
    let mut bridge = super::bridge::Bridge::run(bridge);
    bridge.initialize();
    bridge.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#);
    let (answer, _) = bridge.answer(&json!(1));
    assert!(!answer.to_string().contains("call_tool"), "{answer}");
    assert_eq!(bridge.leave(), Some(0));

    let pid = rustix::process::Pid::from_raw(gateway.child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    gateway.child.wait().unwrap();
    assert!(!file.exists(), "the file ends with its gateway");
}

#[test]
fn other_users_of_the_machine_are_refused() {
    let gateway = Gateway::start_private(&[], &[]);
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let list = |user: Option<u32>| {
        let mut command = muster(&gateway);
        command.env("HOME", home.path()).args(["list", "services", "--auth", "none"]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output()
    };
    let own = list(None).unwrap();
    assert!(own.status.success(), "{}", said(&own));
    match list(Some(NOBODY)) {
        Ok(refused) if said(&refused).contains("belongs to user 65534") => (),
        Ok(refused) => panic!("{}", said(&refused)),
        Err(err) => eprintln!("not checked: only root can act as another user ({err})"),
    }
}

#[test]
fn the_users_own_clients_are_known_by_the_token_in_their_file() {
    let config = "aggregator: {port: 0}\naccess: {mode: token}\n";
    let gateway = Gateway::start_private(&[("config.yaml", config)], &[]);
    // A process of the same user, without the token.
    let (status, refused) = post(&gateway, "/mcp", "");
    assert_eq!(status, 401, "{refused}");
    assert!(refused.contains("muster agent --mcp-server"), "{refused}");
    let list = muster(&gateway).args(["list", "services", "--auth", "none"]).output().unwrap();
    assert!(list.status.success(), "{}", said(&list));
    let secret = token(&gateway, &["create", "ci"]);
    assert_eq!(post(&gateway, "/mcp", &format!("\r\nauthorization: Bearer {secret}")).0, 200);

    let shown_by_bridge = |home: &Path| {
        let mut bridge = muster(&gateway);
        bridge.env("HOME", home).args(["agent", "--mcp-server", "--auth", "none", "--endpoint"]);
        bridge.arg(format!("http://localhost:{}/mcp", gateway.port));
        let mut bridge = super::bridge::Bridge::run(bridge);
        bridge.send(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        );
        let (begun, _) = bridge.answer(&json!(1));
        if begun.get("error").is_some() {
            return begun.to_string();
        }
        let params = json!({"name": "list_core_tools", "arguments": {"include_schema": false}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        bridge.send(&call.to_string());
        let (answer, _) = bridge.answer(&json!(2));
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let shown = shown_by_bridge(gateway.folder.path());
    assert!(shown.contains("core_mcpserver_list"), "{shown}");
    assert!(!shown.contains("core_mcpserver_create"), "an agent is no operator: {shown}");
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = shown_by_bridge(elsewhere.path());
    assert!(refused.contains("error"), "{refused}");
}

#[test]
fn a_token_is_accepted_until_it_is_revoked() {
    let config = protected();
    let gateway = Gateway::start_private(&[("config.yaml", &config)], &[]);
    let secret = token(&gateway, &["create", "ci", "--expires", "30d", "--toolset", "build"]);
    let bearer = format!("\r\nauthorization: Bearer {secret}");
    assert_eq!(post(&gateway, "/mcp", &bearer).0, 200);
    assert_eq!(post(&gateway, "/mcp", "\r\nauthorization: Bearer mst_x").0, 401);

    assert_eq!(post(&gateway, "/mcp/build", &bearer).0, 200);
    let (status, body) = post(&gateway, "/mcp/other", &bearer);
    assert_eq!(status, 403);
    assert!(body.contains("`build`"), "{body}");
    let header = format!("{bearer}\r\nmuster-toolset: other");
    assert_eq!(post(&gateway, "/mcp", &header).0, 403);
    assert_eq!(post(&gateway, "/mcp/build", &header).0, 400);
    assert_eq!(post(&gateway, "/mcp/a/b", &bearer).0, 404);

    let listed: Value = serde_json::from_str(&token(&gateway, &["list", "-o", "json"])).unwrap();
    let first = &listed[0];
    assert_eq!(
        (&first["name"], &first["role"], &first["toolset"], &first["expired"]),
        (&json!("ci"), &json!("agent"), &json!("build"), &json!(false))
    );
    assert!(!fs::read_to_string(gateway.folder.file("tokens.json")).unwrap().contains(&secret));
    assert!(token(&gateway, &["revoke", "ci"]).contains("ci"));
    assert_eq!(post(&gateway, "/mcp", &bearer).0, 401);
    assert_eq!(token(&gateway, &["list", "-o", "json"]), "[]");
}

#[test]
fn the_last_use_of_a_token_is_listed() {
    let gateway = Gateway::start_private(&[], &[]);
    let secret = token(&gateway, &["create", "ci"]);
    let listed = || -> Value {
        let tokens: Value =
            serde_json::from_str(&token(&gateway, &["list", "-o", "json"])).unwrap();
        tokens[0]["lastUsed"].clone()
    };
    assert_eq!(listed(), Value::Null);
    assert!(token(&gateway, &["list"]).contains("never"));
    assert_eq!(post(&gateway, "/mcp", &format!("\r\nauthorization: Bearer {secret}")).0, 200);
    // It is written in the background.
    while listed().is_null() {}
    assert!(listed().as_str().unwrap().ends_with('Z'), "{}", listed());
    let usage = fs::read_to_string(gateway.folder.file("token-usage.json")).unwrap();
    assert!(!usage.contains(&secret), "{usage}");
}

/// Ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn other_users_cannot_call_the_tools_of_climax() {
    let cli = "{name: demo, command: 'true', tools: [{name: t, description: d, command: ''}]}";
    let folder = Folder::new(&[("demo.yaml", cli)]);
    let child = Command::new(CLIMAX)
        .args(["run", "--transport", "streamable-http", "--port", "0"])
        .arg(folder.file("demo.yaml"))
        .env("HOME", folder.path())
        .env_remove("MUSTER_ACCESS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains(" listening on ")).unwrap();
    let url = line.rsplit_once(' ').unwrap().1.to_owned();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let list = |user: Option<u32>| {
        let mut command = Command::new(MUSTER);
        command.args(["list", "tools", "--auth", "none", "--endpoint", &url]);
        command.env("HOME", home.path()).env_remove("MUSTER_CONTEXT").stdin(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output()
    };
    let own = said(&list(None).unwrap());
    assert!(!own.contains("belongs to user"), "{own}");
    match list(Some(NOBODY)) {
        Ok(refused) => {
            let refused = said(&refused);
            assert!(refused.contains("belongs to user 65534"), "{refused}");
        }
        Err(err) => eprintln!("not checked: only root can act as another user ({err})"),
    }
}

#[test]
fn an_address_for_other_machines_needs_logins_tokens_or_insistence() {
    let config = "aggregator: {port: 0, host: 0.0.0.0}\n";
    let folder = Folder::new(&[("config.yaml", config)]);
    let child = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env_remove("MUSTER_ACCESS")
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let mut refused = String::new();
    for line in BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap) {
        assert!(!line.contains("/mcp"), "it listens: {line}");
        refused = refused + &line + "\n";
    }
    assert_eq!(child.0.wait().unwrap().code(), Some(1), "{refused}");
    assert!(refused.contains("refusing to listen on 0.0.0.0:"), "{refused}");
    for fix in ["aggregator.host", "muster token create", "--insecure-bind", "access.insecureBind"]
    {
        assert!(refused.contains(fix), "{fix}: {refused}");
    }
    drop(Gateway::start_private(&[("config.yaml", config)], &["--insecure-bind"]));
    let tokens = json!({"tokens": [{"name": "a", "digest": "x", "created": 1}]}).to_string();
    let gateway = Gateway::start_private(&[("config.yaml", config), ("tokens.json", &tokens)], &[]);
    assert_eq!(post(&gateway, "/mcp", "").0, 200, "processes of this user need none");
}

#[test]
fn a_gateway_without_logins_answers_to_the_names_it_is_given() {
    let config = "aggregator: {port: 0}\naccess: {allowedHosts: [gate.example]}\n";
    let gateway = Gateway::start_private(&[("config.yaml", config)], &[]);
    for (host, expected) in [("gate.example", 404), ("evil.example", 403), ("192.0.2.7", 403)] {
        let head = format!("GET /nothing HTTP/1.1\r\nhost: {host}");
        assert_eq!(gateway.request(&head, "").0, expected, "{host}");
    }
}

#[test]
fn the_client_of_a_pipe_is_an_agent() {
    let folder = Folder::new(&[("config.yaml", "aggregator: {transport: stdio}\n")]);
    let mut client =
        folder.serve_by(MUSTER, &["serve", "--silent", "--config-path", ".", "--state-path", "s"]);
    client.initialize();
    let mut call = |tool: &str| {
        let params = json!({"name": "call_tool", "arguments": {"name": tool}});
        let id = client.send("tools/call", params);
        client.receive_answer_line(id)
    };
    assert!(call("core_mcpserver_list").contains("mcpServers"));
    for tool in ["core_mcpserver_create", "core_workflow_create", "core_token_create"] {
        let refused = call(tool);
        assert!(refused.contains("not found"), "{tool}: {refused}");
    }
}

#[test]
fn the_gateway_says_at_its_start_whom_it_admits() {
    let protected = protected();
    let token = json!({"tokens": [{"name": "a", "digest": "x", "created": 1}]}).to_string();
    for (config, token, words, expected) in [
        ("{}", None, &[][..], "processes of this user on this machine"),
        ("{}", Some(&token), &[], "processes of this user on this machine, or a token"),
        ("access: {mode: token}", None, &[], "the user's own clients on this machine, by a token"),
        (
            "access: {mode: open}",
            None,
            &[],
            "every process on this machine, also to change the gateway (open)",
        ),
        (
            "aggregator: {host: 0.0.0.0}",
            None,
            &["--insecure-bind"],
            "ANYONE who reaches this address, without a login (insecureBind)",
        ),
        (protected.as_str(), None, &[], "users who log in"),
    ] {
        let mut files = vec![("config.yaml", config)];
        files.extend(token.map(|token| ("tokens.json", token.as_str())));
        let words = [words, &["--port", "0"]].concat();
        let (gateway, printed) = Gateway::start_private_logging(&files, &words);
        let admitted =
            printed.iter().find_map(|line| line.strip_prefix("admitted: ").map(str::to_owned));
        assert_eq!(admitted.as_deref(), Some(expected), "{config}");
        drop(gateway);
    }
}
