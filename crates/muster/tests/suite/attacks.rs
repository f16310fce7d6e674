//! Attacks on a protected gateway, by callers that it admits: users who log in, static tokens, and a token that is bound to
//! a toolset. Through the real binary, with a provider that knows the users.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

use muster_scenario::oauth::{
    config::{Feature, MockProviderConfig},
    provider::Provider,
    records::UserIdentity,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    client::{CLIMAX, Folder},
    serve::{Gateway, MUSTER},
};

const CLI: &str = "\
name: demo
command: printf
tools:
  - {name: demo_show, description: Shows, command: shown, effect: read}
  - {name: demo_write, description: Writes, command: written, effect: write}
";

/// A gateway with logins, whose provider knows everybody.
struct Site {
    gateway: Gateway,
    provider: Provider,
    config: Value,
    _runtime: Runtime,
}

impl Site {
    fn new(access: &Value, files: &[(&str, &str)]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let config = MockProviderConfig {
            client_id: "muster".to_owned(),
            client_secret: Some("secret".to_owned()),
            scopes: ["openid", "email", "groups"].map(str::to_owned).to_vec(),
            features: vec![Feature::SignTokens],
            ..MockProviderConfig::new("idp")
        };
        let provider = runtime.block_on(Provider::start(&config, None)).unwrap();
        let server = json!({"enabled": true, "baseUrl": "http://localhost:1", "provider": "dex",
            "dex": {"issuerUrl": provider.state().issuer(), "clientId": "muster", "clientSecret": "secret"}});
        let config = json!({"aggregator": {"port": 0, "oauth": {"server": server}},
            "access": access, "clis": {"bundled": "none"}});
        let text = config.to_string();
        let mut all = vec![("config.yaml", text.as_str()), ("clis/demo.yaml", CLI)];
        all.extend_from_slice(files);
        let gateway = Gateway::start_private(&all, &[]);
        let health = format!("GET /health HTTP/1.1\r\nhost: localhost:{}", gateway.port);
        while gateway.request(&health, "").2.contains("degraded") {}
        Self { gateway, provider, config, _runtime: runtime }
    }

    /// Somebody who has logged in at the provider.
    fn user(&self, name: &str) -> Caller<'_> {
        let tokens = self.provider.state().mint(&UserIdentity::named(name), "openid email groups");
        Caller::new(self, tokens.access)
    }

    /// Somebody with a static token.
    fn token(&self, words: &[&str]) -> Caller<'_> {
        let output = Command::new(MUSTER)
            .args(["token", "create"])
            .args(words)
            .arg("--config-path")
            .arg(self.gateway.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Caller::new(self, String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    fn set_access(&self, access: &Value) {
        let mut config = self.config.clone();
        config["access"] = access.clone();
        fs::write(self.gateway.folder.file("config.yaml"), config.to_string()).unwrap();
    }
}

/// A kind of stream that a client leaves open.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Session,
    Sse,
    Listen,
}

/// One caller, with a session if it is admitted.
struct Caller<'a> {
    gateway: &'a Gateway,
    bearer: String,
    session: String,
}

impl<'a> Caller<'a> {
    fn new(site: &'a Site, bearer: String) -> Self {
        let mut caller = Self { gateway: &site.gateway, bearer, session: String::new() };
        let (status, head, body) = caller.begin();
        assert_eq!(status, 200, "{body}");
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let session = lines.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        session.unwrap().1.clone_into(&mut caller.session);
        caller
    }

    fn post(&self, message: &Value) -> (u16, String, String) {
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("\r\nmcp-session-id: {session}"),
        };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream{session}",
            self.gateway.port, self.bearer
        );
        self.gateway.request(&head, &message.to_string())
    }

    fn begin(&self) -> (u16, String, String) {
        self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}))
    }

    /// Calls a tool of the protocol.
    fn direct(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let (status, _, body) = self.post(&message);
        assert_eq!(status, 200, "{body}");
        let event = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(event.unwrap_or(&body)).unwrap()
    }

    /// Calls a tool behind `call_tool`: whether it failed, and what it said.
    fn call(&self, tool: &str, arguments: &Value) -> (bool, String) {
        let answer = self.direct("call_tool", &json!({"name": tool, "arguments": arguments}));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let inner: Value = serde_json::from_str(text).unwrap();
        let said = inner["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (inner["isError"] == true, said)
    }

    /// Opens a stream, and waits until it is open.
    fn open(&self, stream: Stream) -> TcpStream {
        let head = |first: &str, more: &str| {
            format!(
                "{first} HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {}\r\n\
                 content-type: application/json\r\naccept: application/json, text/event-stream{more}",
                self.gateway.port, self.bearer
            )
        };
        let opened = match stream {
            Stream::Session => {
                let session = format!("\r\nmcp-session-id: {}", self.session);
                self.gateway.send(&head("GET /mcp", &session), "")
            }
            Stream::Sse => self.gateway.send(&head("GET /sse", ""), ""),
            Stream::Listen => {
                let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}});
                let message = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
                    "params": {"_meta": meta, "notifications": {"toolsListChanged": true}}});
                let more =
                    "\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen";
                self.gateway.send(&head("POST /mcp", more), &message.to_string())
            }
        };
        let (mut opened, mut head) = (opened, String::new());
        while !head.contains("\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(opened.read(&mut byte).unwrap(), 1, "{head}");
            head.push(char::from(byte[0]));
        }
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("event-stream"), "{head}");
        opened
    }

    /// The core tools that the caller is shown.
    fn core_tools(&self) -> Vec<String> {
        let answer = self.direct("list_core_tools", &json!({"include_schema": false}));
        let listed = answer["result"]["content"][0]["text"].as_str().unwrap();
        let listed: Value = serde_json::from_str(listed).unwrap();
        let tools = listed["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether the caller is shown a tool.
    fn sees(&self, tool: &str) -> bool {
        self.direct("describe_tool", &json!({"name": tool}))["result"]["isError"] != true
    }
}

fn changes(tool: &str) -> bool {
    let ends =
        ["create", "update", "delete", "approve", "start", "stop", "restart", "save", "reload"];
    tool == "core_config_update_aggregator" || ends.iter().any(|end| tool.ends_with(end))
}

#[test]
fn only_admins_change_a_protected_gateway() {
    let policy = "default: enabled\ncallers: [{users: [root@example.com], operator: true}]\n";
    let toolset = "tools: ['core_*', 'workflow_*', 'cli_*']\n";
    let steps: Vec<(String, String)> = ["core_mcpserver_create", "core_config_update_aggregator"]
        .iter()
        .map(|tool| {
            let args = "args: {name: evil, type: stdio, command: 'true', autoStart: true}";
            let text = format!("steps: [{{id: a, tool: {tool}, {args}}}]\n");
            (format!("workflows/by-{tool}.yaml"), text)
        })
        .collect();
    let mut files = vec![("policies/p.yaml", policy), ("toolsets/all.yaml", toolset)];
    files.extend(steps.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let site = Site::new(&json!({"operators": {"users": ["ada@example.com"]}}), &files);
    let before = fs::read_to_string(site.gateway.folder.file("config.yaml")).unwrap();

    let admin = site.user("ada");
    let changing: Vec<String> =
        admin.core_tools().into_iter().filter(|tool| changes(tool)).collect();
    assert!(changing.len() >= 18, "{changing:?}");
    let others = [
        ("a user", site.user("eve")),
        ("a token", site.token(&["ci"])),
        ("a token with a toolset", site.token(&["bound", "--toolset", "all"])),
    ];
    let attacks = [
        json!({"name": "evil", "type": "stdio", "command": "sh", "args": ["-c", "id"], "autoStart": true}),
        json!({"name": "evil", "type": "streamable-http", "url": "http://evil.example/mcp",
            "auth": {"forwardToken": true}}),
        json!({"aggregator": {"host": "0.0.0.0", "oauth": {"server": {"enabled": false}}}}),
        json!({}),
    ];
    for (who, caller) in &others {
        let shown = caller.core_tools();
        let wrong: Vec<&String> = shown.iter().filter(|tool| changes(tool)).collect();
        assert_eq!(wrong, [""; 0], "{who}");
        assert!(shown.iter().any(|tool| tool == "core_mcpserver_list"), "{who}: {shown:?}");
        for tool in &changing {
            assert!(!caller.sees(tool), "{who} {tool}");
            for arguments in &attacks {
                let (failed, said) = caller.call(tool, arguments);
                assert!(failed && said.contains("tool not found"), "{who} {tool}: {said}");
            }
            let direct = caller.direct(tool, &attacks[0]);
            assert!(direct["error"]["message"].as_str().unwrap().contains("not found"), "{direct}");
        }
        for (name, _) in &steps {
            let workflow = name.replace("workflows/", "workflow_").replace(".yaml", "");
            assert!(caller.call(&workflow, &json!({})).0, "{who} {workflow}");
        }
    }
    assert!(!site.gateway.folder.file("mcpservers/evil.yaml").exists());
    assert_eq!(fs::read_to_string(site.gateway.folder.file("config.yaml")).unwrap(), before);

    // Admins by the settings, by a policy and by a token can, all in the same way.
    let operators =
        [admin, site.user("root"), site.token(&["deploy", "--operator", "--expires", "1d"])];
    for (number, operator) in operators.iter().enumerate() {
        let server =
            json!({"name": format!("s{number}"), "type": "sse", "url": "http://localhost:1/sse"});
        let (failed, said) = operator.call("core_mcpserver_create", &server);
        assert!(!failed, "{number}: {said}");
    }
}

/// What agents may do to the gateway itself: their own logins, and workflows, whose steps are called as their caller.
const NOT_READING: [&str; 2] = ["core_auth_login", "core_auth_logout"];

#[test]
fn ordinary_users_see_only_core_tools_that_read() {
    let site = Site::new(&json!({"operators": {"users": ["ada@example.com"]}}), &[]);
    let effects = |caller: &Caller<'_>| -> Vec<(String, String)> {
        let tools = caller.core_tools().into_iter();
        let effect = |name: &String| {
            let said = caller.direct("describe_tool", &json!({"name": name})).to_string();
            let (_, after) =
                said.split_once(r#"\"effect\":\""#).unwrap_or_else(|| panic!("{said}"));
            after.split('\\').next().unwrap().to_owned()
        };
        tools.map(|name| (effect(&name), name)).map(|(effect, name)| (name, effect)).collect()
    };
    let all = effects(&site.user("ada"));
    assert!(all.iter().filter(|(_, effect)| effect != "read").count() >= 18, "{all:?}");
    for caller in [site.user("eve"), site.token(&["ci"])] {
        let shown = effects(&caller);
        assert!(shown.len() >= 10, "{shown:?}");
        for (name, effect) in shown {
            assert!(effect == "read" || NOT_READING.contains(&name.as_str()), "{name}: {effect}");
        }
    }
}

#[test]
fn callers_learn_only_of_servers_that_they_can_use() {
    let tool = "name: e\ncommand: echo\ntools: [{name: shout, description: d}]\n";
    let folder = Folder::new(&[("e.yaml", tool)]);
    let config = folder.file("e.yaml");
    let server = json!({"type": "stdio", "command": CLIMAX, "autoStart": true,
        "args": ["run", config.to_str().unwrap(), "--classic"]})
    .to_string();
    let policy = "default: disabled\ncallers:\n\
                  - {users: [eve@example.com], tokens: [ci], tools: {mine/*: {}, core/*: {}}}\n";
    let files = [
        ("mcpservers/mine.yaml", server.as_str()),
        ("mcpservers/hidden.yaml", server.as_str()),
        ("policies/p.yaml", policy),
    ];
    let site = Site::new(&json!({"operators": {"users": ["ada@example.com"]}}), &files);
    let asked = |caller: &Caller<'_>, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params});
        caller.post(&message).2
    };
    let requests = [
        ("core_mcpserver_list", json!({"showAll": true})),
        ("core_service_list", json!({})),
        ("core_stats", json!({})),
        ("core_events", json!({})),
    ];
    let admin = site.user("ada");
    while admin.call("core_mcpserver_list", &json!({})).1.matches("\"connected\"").count() < 2 {}
    for caller in [site.user("eve"), site.token(&["ci"])] {
        for (tool, arguments) in &requests {
            let (failed, said) = caller.call(tool, arguments);
            assert!(!failed && !said.contains("hidden"), "{tool}: {said}");
            assert!(admin.call(tool, arguments).1.contains("hidden"), "{tool}");
        }
        for (tool, arguments) in [
            ("list_tools", json!({"limit": 100})),
            ("filter_tools", json!({"query": "shout"})),
            ("filter_tools", json!({"pattern": "*shout*"})),
            ("list_resources", json!({})),
        ] {
            let said = caller.direct(tool, &arguments).to_string();
            assert!(!said.contains("hidden"), "{tool}: {said}");
        }
        let status = json!({"uri": "auth://status"});
        let said = asked(&caller, "resources/read", status.clone());
        assert!(said.contains("mine") && !said.contains("hidden"), "{said}");
        assert!(asked(&admin, "resources/read", status).contains("hidden"));
        // A server that is hidden is answered for like one that does not exist.
        for (tool, argument) in [
            ("core_mcpserver_get", "name"),
            ("core_service_status", "name"),
            ("core_auth_login", "server"),
        ] {
            let of = |name: &str| {
                let (_, said) = caller.call(tool, &json!({argument: name}));
                said.replace(name, "NAME")
            };
            assert_eq!(of("hidden"), of("absent"), "{tool}");
        }
        let of = |name: &str| {
            let tool = format!("x_{name}_shout");
            caller.call(&tool, &json!({})).1.replace(&tool, "TOOL")
        };
        assert_eq!(of("hidden"), of("absent"));
        let of = |name: &str| {
            let tool = format!("x_{name}_shout");
            let described = caller.direct("describe_tool", &json!({"name": tool}));
            described.to_string().replace(&tool, "TOOL")
        };
        assert_eq!(of("hidden"), of("absent"));
        assert!(caller.sees("x_mine_shout"));
    }
}

#[test]
fn what_a_service_class_calls_is_called_as_its_caller() {
    let class = "serviceConfig:\n  lifecycleTools:\n    start: {tool: core_mcpserver_create, args: {name: evil, \
                 type: stdio, command: sh}}\n    stop: {tool: core_service_list}\n";
    let policy = "default: enabled\ncallers: [{users: [eve@example.com], tools: {core_service_create: {}}}]\n";
    let site =
        Site::new(&json!({}), &[("serviceclasses/evil.yaml", class), ("policies/p.yaml", policy)]);
    let service = json!({"serviceClassName": "evil", "name": "mine"});
    let (failed, said) = site.user("eve").call("core_service_create", &service);
    assert!(failed && said.contains("tool core_mcpserver_create is not available"), "{said}");
    let (failed, said) = site.user("bob").call("core_service_create", &service);
    assert!(failed && said.contains("tool not found"), "{said}");
    assert!(!site.gateway.folder.file("mcpservers/evil.yaml").exists());
}

#[test]
fn a_toolset_binds_a_token_on_every_path() {
    let workflow = "steps: [{id: a, tool: cli_demo_write}]\n";
    let site = Site::new(
        &json!({}),
        &[
            ("toolsets/reading.yaml", "{servers: ['*'], tools: ['workflow_*'], effect: read}\n"),
            ("toolsets/all.yaml", "tools: ['*']\n"),
            ("workflows/writes.yaml", workflow),
        ],
    );
    let (free, bound) = (site.token(&["free"]), site.token(&["bound", "--toolset", "reading"]));
    for (caller, may_write) in [(&free, true), (&bound, false)] {
        assert!(caller.sees("cli_demo_show"));
        assert_eq!(caller.sees("cli_demo_write"), may_write);
        assert!(!caller.call("cli_demo_show", &json!({})).0);
        for tool in ["cli_demo_write", "workflow_writes"] {
            let (failed, said) = caller.call(tool, &json!({}));
            assert_eq!(!failed, may_write, "{tool}: {said}");
        }
        let calls = json!({"calls": [{"name": "cli_demo_show"}, {"name": "cli_demo_write"}]});
        let answer = caller.direct("call_tools", &calls);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let results: Value = serde_json::from_str(text).unwrap();
        assert_eq!(results[0]["isError"], false, "{text}");
        assert_eq!(results[1]["isError"], !may_write, "{text}");
        let steps = json!({"steps": [{"id": "a", "tool": "cli_demo_write"}]});
        let answer = caller.direct("run_steps", &steps);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["result"]["isError"], !may_write, "{text}");
        assert_eq!(text.starts_with("nothing ran: "), !may_write, "{text}");
    }
    // Neither the path nor a header leads out of it.
    for (path, header) in [("/mcp/all", ""), ("/mcp", "\r\nmuster-toolset: all")] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}{header}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream",
            bound.bearer
        );
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        assert_eq!(site.gateway.request(&head, &ping).0, 403, "{path}{header}");
    }
}

#[test]
fn lists_of_users_change_while_the_gateway_runs() {
    let site = Site::new(&json!({}), &[]);
    let (eve, ada) = (site.user("eve"), site.user("ada"));
    let create = json!({"name": "s", "type": "sse", "url": "http://localhost:1/sse"});
    assert!(ada.call("core_mcpserver_create", &create).1.contains("tool not found"));

    site.set_access(
        &json!({"allowedUsers": ["ada@example.com"], "operators": {"users": ["ada@example.com"]}}),
    );
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // The session that she has is no longer of use, nor would be a new one.
    let (status, _, said) = loop {
        match eve.post(&ping) {
            (200, _, _) => (),
            refused => break refused,
        }
    };
    assert_eq!(status, 403, "{said}");
    assert!(said.contains("eve@example.com may not use this gateway. Ask its operator"), "{said}");
    let (failed, said) = ada.call("core_mcpserver_create", &create);
    assert!(!failed, "{said}");

    // An editor that empties the file for a moment lets nobody in.
    fs::write(site.gateway.folder.file("config.yaml"), "").unwrap();
    assert!(!ada.call("core_config_reload", &json!({})).0);
    assert_eq!(eve.post(&ping).0, 403);
    site.set_access(&json!({}));
    while eve.post(&ping).0 != 200 {}
    let delete = json!({"name": "s"});
    let (failed, said) = ada.call("core_mcpserver_delete", &delete);
    assert!(failed && said.contains("tool not found"), "{said}");
}

#[test]
fn no_single_request_of_a_user_delays_the_others() {
    let site = Site::new(&json!({}), &[]);
    let (eve, honest) = (site.user("eve"), site.user("ann"));
    let long = "n".repeat(1_000_000);
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let nested: Value = serde_json::from_str(&nested).unwrap();
    let pattern = "*a".repeat(2_000);
    let requests = [
        ("call_tool", json!({"name": long, "arguments": {}})),
        ("call_tool", json!({"name": "cli_demo_show", "arguments": {long.clone(): 1}})),
        ("call_tool", json!({"name": "cli_demo_show", long.clone(): 1})),
        ("call_tool", json!({"name": "cli_demo_show", "arguments": {"a": nested}})),
        ("call_tool", json!({"name": "core_service_status", "arguments": {"name": long}})),
        ("call_tool", json!({"name": "core_events", "arguments": {long.clone(): long}})),
        ("describe_tool", json!({"name": long})),
        ("describe_resource", json!({"uri": long})),
        ("get_prompt", json!({"name": long})),
        ("filter_tools", json!({"query": long})),
        ("filter_tools", json!({"pattern": pattern})),
        ("get_output", json!({"handle": long, "jsonpath": "$..[?@..[?@..a]]"})),
        (
            "call_tool",
            json!({"name": "core_workflow_validate", "arguments": {"name": "w",
                "steps": [{"id": "a", "tool": long}]}}),
        ),
        (
            "call_tool",
            json!({"name": "core_workflow_validate", "arguments": {"name": "w",
                "steps": [{"id": "a", "tool": "cli_demo_show", "args": {"x": "{{ repeat 999999999 \"a\" }}"}}]}}),
        ),
    ];
    let health = format!("GET /health HTTP/1.1\r\nhost: localhost:{}", site.gateway.port);
    let direct = eve.direct(&long, &json!({})).to_string();
    assert!(direct.len() < 2_000, "{}", direct.len());
    for (number, (tool, arguments)) in requests.iter().enumerate() {
        std::thread::scope(|scope| {
            let attack = scope.spawn(|| eve.direct(tool, arguments));
            let began = Instant::now();
            assert_eq!(site.gateway.request(&health, "").0, 200);
            assert!(!honest.call("cli_demo_show", &json!({})).0);
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(2), "{number} {tool}: {waited:?}");
            let answer = attack.join().unwrap().to_string();
            // The gateway is not optimized, and not alone.
            let took = began.elapsed();
            assert!(took < Duration::from_secs(30), "{number} {tool}: {took:?}");
            assert!(answer.len() < 20_000, "{number} {tool}: {} bytes", answer.len());
            assert!(!answer.contains("crashed"), "{number} {tool}: {answer}");
        });
    }
}

#[test]
fn streams_end_with_the_right_to_use_the_gateway() {
    let site = Site::new(&json!({}), &[]);
    let (eve, ada) = (site.user("eve"), site.user("ada"));
    let (revoked, valid) = (site.token(&["revoked"]), site.token(&["valid"]));
    let kinds = [Stream::Session, Stream::Sse, Stream::Listen];
    let of = |caller: &Caller<'_>| kinds.map(|kind| (kind, caller.open(kind)));
    let (of_eve, of_ada, of_revoked, of_valid) = (of(&eve), of(&ada), of(&revoked), of(&valid));

    site.set_access(&json!({"allowedUsers": ["ada@example.com"]}));
    let revoking = Command::new(MUSTER)
        .args(["token", "revoke", "revoked", "--config-path"])
        .arg(site.gateway.folder.path())
        .output()
        .unwrap();
    assert!(revoking.status.success(), "{revoking:?}");
    for (whose, streams) in [("a removed user", of_eve), ("a revoked token", of_revoked)] {
        for (kind, mut stream) in streams {
            // Shorter than the interval of keep-alive comments.
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let ended = stream.read_to_end(&mut Vec::new());
            assert!(ended.is_ok(), "{whose} {kind:?}: {ended:?}");
        }
    }
    for (kind, mut stream) in of_ada.into_iter().chain(of_valid) {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let open = stream.read_to_end(&mut Vec::new()).unwrap_err().kind();
        assert!(matches!(open, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind:?}: {open}");
    }
}
