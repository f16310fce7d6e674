//! What a gateway tells about its calls: metrics and the history.

use std::process::Command;

use serde_json::{Value, json};

use super::serve::{Gateway, MUSTER};

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
