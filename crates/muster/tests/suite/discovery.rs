//! What an agent finds, and what it is told is missing, through the real binary.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    client::Folder,
    desk::Desk,
    serve::{Gateway, MUSTER},
};

const MOCK: &str = "\
tools:
  - name: query
    description: Run a query on the database
    responses: [{response: {rows: 1}}]
";

/// The reply of a meta-tool as JSON.
fn meta(gateway: &Gateway, session: &str, tool: &str, arguments: Value) -> Value {
    let answer = gateway.ask(session, "tools/call", json!({"name": tool, "arguments": arguments}));
    serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn a_server_that_is_down_is_named_and_comes_back() {
    let home = Folder::new(&[("mock.yaml", MOCK)]);
    let (program, pid) = (home.file("sqlite"), home.file("pid"));
    let server = format!("name: sqlite\ntype: stdio\ncommand: {}\n", program.display());
    let files = [("mcpservers/sqlite.yaml", &*server)];
    let (gateway, log) = Gateway::start_logging(&files, &[]);
    let session = gateway.session();
    assert!(log.iter().any(|line| line.contains("failed: ") && line.contains("sqlite")));
    let search =
        || meta(&gateway, &session, "filter_tools", json!({"query": "query the database"}));
    let missing = search();
    assert_eq!(missing["unavailable"][0]["server"], "sqlite", "{missing}");
    let reason = missing["unavailable"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("not found"), "{reason}");

    let mut follow = Command::new(MUSTER)
        .args(["events", "--follow", "--resource-name", "sqlite"])
        .env("HOME", home.path())
        .env("MUSTER_ENDPOINT", format!("http://localhost:{}/mcp", gateway.port))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    let script = format!(
        "#!/bin/sh\necho $$ > {}\nexec {MUSTER} test --mock-mcp-server --mock-config {}\n",
        pid.display(),
        home.file("mock.yaml").display()
    );
    let draft = home.file("draft");
    fs::write(&draft, script).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(draft, &program).unwrap();
    assert!(events.any(|line| line.contains("MCPServerToolsDiscovered")), "it is tried again");
    let found = search();
    assert_eq!(found["tools"][0]["name"], "x_sqlite_query", "{found}");
    assert_eq!((&found["verdict"], &found["unavailable"]), (&json!("found"), &Value::Null));

    fs::remove_file(program).unwrap();
    let pid = fs::read_to_string(pid).unwrap();
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    assert!(events.any(|line| line.contains("MCPServerToolsUnavailable")));
    let lost = search();
    assert_eq!(lost["tools"][0]["name"], "x_sqlite_query", "{lost}");
    assert!(lost["tools"][0]["unavailable"].is_string(), "{lost}");
    assert_eq!(lost["unavailable"][0]["server"], "sqlite");
    let listed = meta(&gateway, &session, "list_tools", json!({}));
    assert_eq!(listed["tools"][0]["name"], "x_sqlite_query");
    let refused = gateway.call_tool(&session, "x_sqlite_query", json!({}));
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("server not connected: sqlite") && said.contains("hint: "), "{said}");
    drop(follow.kill());
    drop(follow.wait());
}

#[test]
fn the_menu_is_short_with_any_number_of_servers() {
    let servers: Vec<(String, String)> = (0..40)
        .map(|n| {
            let spec = "type: stdio\ncommand: none\nautoStart: false\ndescription: Issues, pull requests and more";
            (format!("mcpservers/server-{n}.yaml"), format!("name: server-{n}\n{spec}\n"))
        })
        .collect();
    let files: Vec<(&str, &str)> =
        servers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let (_, _, body) = gateway.post(Some(&session), &list);
    assert!(body.contains("Behind it: server-0, "), "{body}");
    assert!(body.len() <= 4_200, "{} bytes", body.len());
}

#[test]
fn core_tools_are_listed_briefly_and_last() {
    let cli = "name: demo\ncommand: printf\ntools: [{name: show, description: Prints a word}]\n";
    let gateway = Gateway::start(&[("clis/demo.yaml", cli)], &[]);
    let session = gateway.session();
    let listed = meta(&gateway, &session, "list_tools", json!({}));
    assert_eq!(listed["tools"][0]["name"], "cli_show");
    assert!(listed["tools"][1]["name"].as_str().unwrap().starts_with("core_"), "{listed}");
    let answer = gateway.ask(&session, "tools/call", json!({"name": "list_core_tools"}));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.len() < 12_000, "{} bytes", text.len());
    assert!(text.contains("core_workflow_list") && text.contains(r#""truncated":false"#), "{text}");
    // Nothing of the gateway takes a screenshot.
    let found = meta(&gateway, &session, "filter_tools", json!({"query": "take a screenshot"}));
    assert_ne!(found["verdict"], "found", "{found}");
    assert_eq!(found["unmatched_terms"], json!(["take", "screenshot"]), "{found}");
}

#[test]
fn a_search_on_the_command_line_shows_its_verdict() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    let said = desk.run(&["search", "greet", "a", "postgres", "database"]);
    assert!(said.contains("weak"), "{said}");
    // Tools of the gateway mention databases: they are not what was searched for.
    let doubt = "no tool matches; these are the nearest; no tool mentions `postgres`, `database`";
    assert!(said.contains(doubt), "{said}");
    let output = desk.command().args(["search", "greet somebody", "--output", "json"]).output();
    let found: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(found["verdict"], "found", "{found}");
    assert_eq!(found["tools"][0]["match"], "strong", "{found}");
    desk.run(&["stop", "service", "github"]);
    let said = desk.run(&["search", "greet somebody"]);
    assert!(said.contains("Warning: server github is unavailable (Stopped); to start it: `muster start service github`"), "{said}");
}

#[test]
fn tokens_compares_with_the_users_own_tools() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    let output = desk.command().args(["tokens", "--tools", "--output", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let costs = report["tools"].as_array().unwrap();
    let mut names: Vec<&str> = costs.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["x_github_greet"]);
    let sum: u64 = costs.iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
    assert_eq!((report["direct"].as_u64(), report["own_tools"].as_u64()), (Some(sum), Some(1)));
    assert!(report["added"]["tools"].as_u64().unwrap() > 30, "{report}");
    assert_eq!(report["break_even"], 0);
    let said = desk.run(&["tokens"]);
    assert!(
        said.contains("With so few tools of your own, listing them directly is cheaper."),
        "{said}"
    );
}

#[test]
fn climax_search_names_a_server_that_is_down() {
    let servers = r#"{"mcpServers": {"sqlite": {"command": "/no/such/program"}}}"#;
    let folder = Folder::new(&[("mcp.json", servers)]);
    let mut client = folder.serve(&["run", "mcp.json"]);
    client.initialize();
    for arguments in [json!({}), json!({"query": "query the database"})] {
        let answer = client.call("climax_search", arguments);
        let text = answer["content"][0]["text"].as_str().unwrap();
        let found: Value = serde_json::from_str(text).unwrap();
        assert_eq!(found["unavailable"][0]["server"], "sqlite", "{found}");
    }
}

/// The memory of a process that no file backs, in kB.
fn anonymous_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_first_search_does_not_double_memory() {
    const SERVER: &str = r#"
import json, sys
words = lambda n: " ".join(f"word{(n * 7 + k) % 900}" for k in range(25))
properties = lambda n: {f"argument{k}_{n % 30}": {"type": "string", "description": f"The value {k} of a resource"} for k in range(6)}
tools = [{"name": f"tool_{n}", "description": f"Manages resource {n}: {words(n)}",
          "inputSchema": {"type": "object", "properties": properties(n)}} for n in range(4000)]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answers = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                              "serverInfo": {"name": "many", "version": "1"}}, "tools/list": {"tools": tools}}
    answer = {"result": answers[message["method"]]} if message["method"] in answers else {"error": {"code": -32601, "message": ""}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;
    let home = Folder::new(&[("many.py", SERVER)]);
    let script = home.file("many.py");
    let server = format!(
        "name: many\ntype: stdio\nautoStart: false\ncommand: python3\nargs: [{}]\n",
        script.display()
    );
    let gateway = Gateway::start(&[("mcpservers/many.yaml", &server)], &[]);
    let session = gateway.session();
    let started = gateway.call_tool(&session, "core_service_start", json!({"name": "many"}));
    assert_eq!(started["isError"], false, "{started}");
    let all = meta(&gateway, &session, "filter_tools", json!({"pattern": "x_many_*"}));
    assert_eq!(all["total"], 4_000);
    let before = anonymous_memory(gateway.child.id());
    for query in ["manage a resource", "word17", "argument value"] {
        meta(&gateway, &session, "filter_tools", json!({"query": query}));
    }
    let grown = anonymous_memory(gateway.child.id()).saturating_sub(before);
    assert!(grown < 20_000, "{grown} kB");
}
