//! What a gateway tells about its calls: metrics and the history.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};

use super::{
    console::Browser,
    serve::{Gateway, MUSTER},
};

fn scrape(gateway: &Gateway, more: &str) -> (u16, String) {
    let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost:{}{more}", gateway.port);
    let (status, _, body) = gateway.request(&head, "");
    (status, body)
}

fn muster(gateway: &Gateway, words: &[&str]) -> String {
    let output = Command::new(MUSTER)
        .env("HOME", gateway.folder.path())
        .env("MUSTER_ENDPOINT", format!("http://localhost:{}/mcp", gateway.port))
        .env_remove("XDG_STATE_HOME")
        .env_remove("MUSTER_CONTEXT")
        .env_remove("MUSTER_AUTH_MODE")
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn with_metrics(settings: &str) -> Gateway {
    let config = format!("aggregator: {{port: 0}}\nclis: {{bundled: none}}\nmetrics: {settings}\n");
    Gateway::start_private(&[("config.yaml", &config)], &[])
}

#[test]
fn metrics_are_for_operators_unless_the_settings_say_otherwise() {
    let gateway = with_metrics("{tokens: [prometheus]}");
    // A process of the gateway's own user is an agent.
    let (status, body) = scrape(&gateway, "");
    assert_eq!(status, 403);
    assert!(body.contains("`metrics.tokens`") && !body.contains("process_"), "{body}");
    let folder = gateway.folder.path().display().to_string();
    let with_token = |name: &str, more: &[&str]| {
        let words = ["token", "create", name, "--config-path", &folder];
        let secret = muster(&gateway, &[&words, more].concat());
        scrape(&gateway, &format!("\r\nauthorization: Bearer {}", secret.trim())).0
    };
    assert_eq!(with_token("prometheus", &[]), 200);
    assert_eq!(with_token("other", &[]), 403);
    assert_eq!(with_token("chief", &["--operator"]), 200);
    assert_eq!(scrape(&gateway, "\r\nauthorization: Bearer mst_x").0, 401);
    let head = format!("POST /metrics HTTP/1.1\r\nhost: localhost:{}", gateway.port);
    assert_eq!(gateway.request(&head, "").0, 405);

    let open = with_metrics("{loopback: true}");
    assert_eq!(scrape(&open, "").0, 200);
    // A page in a browser reaches it neither by another name of this machine nor from another origin.
    let head = "GET /metrics HTTP/1.1\r\nhost: evil.example";
    assert_eq!(open.request(head, "").0, 403);
}

#[test]
fn calls_are_counted_by_tool_and_status() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    for _ in 0..2 {
        gateway.call_tool(&session, "core_service_list", json!({}));
    }
    gateway.call_tool(&session, "core_service_get", json!({"name": "nobody"}));
    let nothing = json!({"name": "call_tool", "arguments": {"name": "x_nothing"}});
    gateway.ask(&session, "tools/call", nothing);
    let (status, page) = scrape(&gateway, "");
    assert_eq!(status, 200);
    for line in [
        r#"muster_calls_total{server="core",tool="core_service_list",status="ok"} 2"#,
        r#"muster_calls_total{server="core",tool="core_service_get",status="failed"} 1"#,
        r#"muster_calls_total{server="",tool="other",status="unknown"} 1"#,
        r#"muster_call_duration_seconds_count{server="core",tool="core_service_list"} 2"#,
        "muster_sessions 1",
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    let (_, page) = scrape(&gateway, "\r\naccept: application/openmetrics-text;version=1.0.0");
    assert!(page.ends_with("# EOF\n"), "{page}");
    // `muster top` shows the same numbers.
    let stats: Value = serde_json::from_str(&muster(&gateway, &["top", "-o", "json"])).unwrap();
    let core = &stats["backends"][0];
    assert_eq!((&core["name"], &core["failed"]), (&json!("core"), &json!(1)));
}

#[test]
fn the_history_survives_a_restart() {
    let config = "aggregator: {port: 0}\nclis: {bundled: none}\nhistory: {arguments: redacted}\n";
    let mut gateway = Gateway::start(&[("config.yaml", config)], &[]);
    let session = gateway.session();
    let arguments = json!({"name": "nobody", "token": "s3cret"});
    gateway.call_tool(&session, "core_service_get", arguments);
    let listed = |gateway: &Gateway, more: &[&str]| -> Vec<Value> {
        let words = [&["calls", "-o", "json"], more].concat();
        let reply: Value = serde_json::from_str(&muster(gateway, &words)).unwrap();
        reply["calls"].as_array().unwrap().clone()
    };
    let before = listed(&gateway, &["--status", "error"]);
    assert_eq!(before.len(), 1);
    let call = &before[0];
    assert_eq!((&call["tool"], &call["status"]), (&json!("core_service_get"), &json!("failed")));
    assert_eq!((&call["surface"], &call["rule"]), (&json!("meta"), &json!("operator")));
    gateway.restart();
    assert_eq!(listed(&gateway, &["--status", "error"]), before);
    let id = call["id"].to_string();
    let whole: Value =
        serde_json::from_str(&muster(&gateway, &["calls", &id, "-o", "json"])).unwrap();
    assert_eq!(whole["arguments"], json!({"name": "nobody", "token": "[REDACTED]"}));
    let stats: Value = serde_json::from_str(&muster(&gateway, &["stats", "-o", "json"])).unwrap();
    assert_eq!((&stats["total"]["calls"], &stats["total"]["errors"]), (&json!(1), &json!(1)));
}

/// Calls and errors by server and tool.
type Counts = BTreeMap<(String, String), (u64, u64)>;

/// What a metrics page says about all servers but the gateway's own tools, which every view of the others calls.
fn counted(page: &str) -> Counts {
    let mut counts = Counts::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("muster_calls_total{")) {
        let (labels, number) = line.rsplit_once("} ").unwrap();
        let values: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
        let [server, tool, status] = values[..] else { panic!("{line}") };
        if server != "core" {
            let number: u64 = number.parse().unwrap();
            let counts = counts.entry((server.to_owned(), tool.to_owned())).or_default();
            counts.0 += number;
            counts.1 += if status == "ok" { 0 } else { number };
        }
    }
    counts
}

/// The same of a reply with the calls of tools.
fn listed(tools: &Value) -> Counts {
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let count = |tool: &Value| (tool["calls"].as_u64().unwrap(), tool["errors"].as_u64().unwrap());
    let tools = tools.as_array().unwrap().iter().filter(|tool| tool["server"] != "core");
    tools.map(|tool| ((text(tool, "server"), text(tool, "tool")), count(tool))).collect()
}

/// The same of a list of calls.
fn summed(calls: &Value) -> Counts {
    let mut counts = Counts::new();
    for call in calls["calls"].as_array().unwrap() {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        if text("server") != "core" {
            let counts = counts.entry((text("server"), text("tool"))).or_default();
            counts.0 += 1;
            counts.1 += u64::from(text("status") != "ok");
        }
    }
    counts
}

#[test]
fn every_view_shows_the_same_numbers() {
    let config = "aggregator: {port: 0}\nclis: {bundled: none}\nmetrics: {loopback: true}\n";
    let show = "name: demo\ncommand: printf\ntools:\n  - {name: show, description: Prints, command: '%s', \
        args: [{name: word, positional: true, required: true}]}\n";
    let nope =
        "name: nope\ncommand: 'false'\ntools: [{name: nope, description: Fails, command: ''}]\n";
    let twice = "name: twice\nsteps: [{id: one, tool: cli_show, args: {word: a}}, {id: two, tool: cli_show, args: {word: b}}]\n";
    let files = [
        ("config.yaml", config),
        ("clis/demo.yaml", show),
        ("clis/nope.yaml", nope),
        ("workflows/twice.yaml", twice),
    ];
    let gateway = Gateway::start_private(&files, &[]);
    let session = gateway.session();
    for (tool, arguments, times) in [
        ("cli_show", json!({"word": "x"}), 3),
        ("cli_show", json!({}), 1),
        ("cli_nope", json!({}), 2),
        ("workflow_twice", json!({}), 1),
        ("x_absent", json!({}), 1),
    ] {
        let params =
            json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}});
        (0..times).for_each(|_| drop(gateway.ask(&session, "tools/call", params.clone())));
    }
    let browser = Browser::logged_in(&gateway);
    let command = |words: &[&str]| -> Value {
        let words = [words, &["-o", "json"]].concat();
        serde_json::from_str(&muster(&gateway, &words)).unwrap()
    };
    let page = |path: &str| -> Value {
        let (status, _, text) = browser.get(path, "\r\naccept: application/json");
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    };

    let by_name = |counts: &Counts, name: &str| {
        let mut found = counts.iter().filter(|((_, tool), _)| tool == name);
        found.next().map(|(_, counts)| *counts)
    };
    // The history has the names that clients invent; metrics do not.
    let history = listed(&command(&["stats"])["tools"]);
    for (tool, expected) in [
        ("cli_show", (6, 1)),
        ("cli_nope", (2, 2)),
        ("workflow_twice", (1, 0)),
        ("x_absent", (1, 1)),
    ] {
        assert_eq!(by_name(&history, tool), Some(expected), "{tool}: {history:?}");
    }
    assert_eq!(history.len(), 4, "{history:?}");
    assert_eq!(summed(&command(&["calls", "--limit", "100"])), history);
    assert_eq!(summed(&page("/console/calls")), history);
    let overview = page("/console");
    assert_eq!(listed(&overview["day"]["tools"]), history);
    let mut metrics = counted(&scrape(&gateway, "").1);
    let unknown = metrics.remove(&(String::new(), "other".to_owned()));
    assert_eq!(unknown, Some((1, 1)));
    metrics.insert((String::new(), "x_absent".to_owned()), (1, 1));
    assert_eq!(metrics, history);

    // By server, as `muster top` and the overview show them.
    let mut servers: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for ((server, _), (calls, errors)) in
        history.iter().filter(|((server, _), _)| !server.is_empty())
    {
        let counts = servers.entry(server).or_default();
        *counts = (counts.0 + calls, counts.1 + errors);
    }
    for stats in [command(&["top"]), overview["stats"].clone()] {
        let backends = stats["backends"].as_array().unwrap().iter();
        let backends: BTreeMap<&str, (u64, u64)> = backends
            .map(|one| {
                let counts = (one["calls"].as_u64().unwrap(), one["failed"].as_u64().unwrap());
                (one["name"].as_str().unwrap(), counts)
            })
            .filter(|(name, (calls, _))| *name != "core" && *calls > 0)
            .collect();
        assert_eq!(backends, servers);
    }
    let events = |shown: &Value| shown.as_array().unwrap().clone();
    assert_eq!(events(&page("/console/events")), events(&command(&["events", "--limit", "100"])));
}
