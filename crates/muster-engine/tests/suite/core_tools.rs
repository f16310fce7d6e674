//! The replies of core tools, word for word.

use muster_core::{
    backend::ToolCaller as _,
    call::{Call, Caller, Checking, Outcome},
    client::NoClient,
    json::raw,
    name::ToolName,
};
use serde_json::{Value, json};

use crate::{
    fake::{Fake, permanent},
    rig::{REMOTE, Rig},
};

#[track_caller]
fn contains(said: &str, parts: &[&str]) {
    let lower = said.to_lowercase();
    for part in parts {
        assert!(lower.contains(&part.to_lowercase()), "`{part}` is not in: {said}");
    }
}

/// The calls of the scenarios about server definitions, and the texts that each reply must contain.
#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "it is a table")]
async fn the_scenarios_of_definitions() {
    let rig = Rig::new(&[]);
    let url = "https://mcp-server.teleport.example.com/mcp";
    let teleport = |teleport: Value| json!({"type": "teleport", "teleport": teleport});
    let remote = |name: &str, auth: Value| json!({"name": name, "type": "streamable-http", "url": url, "timeout": 30, "auth": auth});
    let both = teleport(json!({"identityDir": "/d", "identitySecretName": "s"}));
    let dir =
        teleport(json!({"identityDir": "/var/run/tbot/identity", "appName": "mcp-kubernetes"}));
    let exchange = json!({"type": "teleport", "teleport": {"identityDir": "/d"}, "tokenExchange": {
        "enabled": true, "dexTokenEndpoint": "https://dex/token", "expectedIssuer": "https://dex",
        "connectorID": "central-cluster-dex", "scopes": "openid mcp:admin"}});
    let stdio = json!({"name": "s", "type": "stdio", "command": "echo", "args": ["test"], "autoStart": false});
    let table: Vec<(&str, Value, &str, &[&str])> = vec![
        ("list", json!({}), "", &[r#""total":0"#]),
        ("create", stdio.clone(), "MCP server 's' created successfully", &[]),
        ("create", stdio.clone(), "E: MCP server 's' already exists", &[]),
        (
            "list",
            json!({}),
            "",
            &[r#""name":"s""#, r#""mode":"filesystem""#, r#""state":"Stopped""#],
        ),
        (
            "get",
            json!({"name": "s"}),
            "",
            &[
                r#"{"name":"s","type":"stdio","command":"echo","args":["test"],"registeredBy":"default-user","state":"Stopped","since":""#,
            ],
        ),
        (
            "update",
            json!({"name": "s", "type": "stdio", "command": "echo", "args": ["other"], "autoStart": true}),
            "MCP server 's' updated successfully",
            &[],
        ),
        ("get", json!({"name": "s"}), "", &[r#""args":["other"]"#, r#""autoStart":true"#]),
        ("delete", json!({"name": "s"}), "MCP server 's' deleted successfully", &[]),
        ("get", json!({"name": "s"}), "E: Failed to get MCP server: MCP server s not found", &[]),
        (
            "update",
            json!({"name": "s", "command": "x"}),
            "E: Failed to update MCP server: MCP server s not found",
            &[],
        ),
        (
            "delete",
            json!({"name": "s"}),
            "E: Failed to delete MCP server: MCP server s not found",
            &[],
        ),
        ("create", json!({}), "E: Invalid MCP server definition: name is required", &[]),
        (
            "create",
            json!({"name": "i", "type": "invalidType", "command": "echo"}),
            "E: Invalid MCP server definition: unsupported MCP server type: invalidType (supported: stdio, streamable-http, sse)",
            &[],
        ),
        ("create", json!({"name": "i"}), "E: Invalid MCP server definition: type is required", &[]),
        (
            "create",
            json!({"name": "i", "type": "stdio"}),
            "E: Invalid MCP server definition: command is required for stdio type",
            &[],
        ),
        (
            "create",
            json!({"name": "i", "type": "sse"}),
            "E: Invalid MCP server definition: url is required for streamable-http and sse types",
            &[],
        ),
        (
            "create",
            json!({"name": "../i", "type": "sse", "url": "u"}),
            "",
            &["E: Invalid MCP server definition: invalid name '../i'"],
        ),
        (
            "create",
            json!({"name": "i", "colour": "red"}),
            "",
            &["E: unknown args: [colour]. Allowed args: [name type"],
        ),
        (
            "create",
            json!({"name": "i", "timeout": "30"}),
            "",
            &["E: failed to parse request: json: cannot unmarshal string into"],
        ),
        (
            "validate",
            json!({"name": "v", "type": "sse"}),
            "E: Validation failed: url is required for streamable-http and sse types",
            &[],
        ),
        (
            "validate",
            json!({"name": "v", "type": "stdio", "command": "echo", "args": ["x"], "autoStart": false}),
            "Validation successful for mcpserver v",
            &[],
        ),
        (
            "validate",
            remote("v", both.clone()),
            "E: Validation failed: teleport auth: identityDir and identitySecretName are mutually exclusive",
            &[],
        ),
        (
            "validate",
            remote("v", teleport(json!({"identitySecretName": "s"}))),
            "Validation successful for mcpserver v",
            &[],
        ),
        ("create", remote("t", both), "", &["E: Invalid", "mutually exclusive"]),
        (
            "create",
            remote("t", teleport(json!({"appName": "a"}))),
            "",
            &["E: Invalid", "identityDir", "identitySecretName"],
        ),
        ("create", remote("t", json!({"type": "teleport"})), "", &["E: Invalid", "teleport"]),
        (
            "create",
            json!({"name": "t", "type": "stdio", "command": "echo", "auth": dir}),
            "",
            &["E: Invalid", "auth configuration is only supported"],
        ),
        ("create", remote("t", exchange), "MCP server 't' created successfully", &[]),
        (
            "get",
            json!({"name": "t"}),
            "",
            &[
                "teleport",
                "identityDir",
                "tokenExchange",
                "expectedIssuer",
                "connectorID",
                "mcp:admin",
            ],
        ),
        ("update", remote("t", dir), "MCP server 't' updated successfully", &[]),
        ("get", json!({"name": "t"}), "", &["identityDir", "mcp-kubernetes"]),
        (
            "update",
            remote("t", json!({"type": "none"})),
            "MCP server 't' updated successfully",
            &[],
        ),
        (
            "get",
            json!({"name": "t"}),
            "",
            &[r#""auth":{"type":"none"}"#, r#""timeout":30"#, r#""state":"Disconnected""#],
        ),
        ("get", json!({}), "E: name argument is required", &[]),
        ("delete", json!({}), "E: name argument is required", &[]),
        ("update", json!({}), "E: Invalid MCP server definition: name is required", &[]),
    ];
    for (tool, args, exact, parts) in table {
        let said = rig.call(&format!("core_mcpserver_{tool}"), args.clone()).await;
        if !exact.is_empty() {
            assert_eq!(said, exact, "{tool} {args}");
        }
        contains(&said, parts);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_servers_are_hidden_by_default() {
    let fake = Fake::default();
    fake.plan("bad", [permanent()]);
    let rig = Rig::with(
        fake,
        &[("mcpservers/bad.yaml", "command: x\n"), ("mcpservers/good.yaml", "command: y\n")],
    );
    rig.until_is("bad", "failed").await;
    rig.until_is("good", "running").await;
    let said = rig.call("core_mcpserver_list", json!({})).await;
    contains(
        &said,
        &[
            r#"{"hiddenFailed":1,"hint":"(1 failed servers hidden, use --all to show, --verbose for details)\n  bad: command not found","mcpServers":[{"name":"good","type":"stdio","autoStart":true,"command":"y","state":"Running""#,
            r#""mode":"filesystem","total":1}"#,
        ],
    );
    let all = rig.ask("core_mcpserver_list", json!({"showAll": true})).await;
    assert_eq!(all["total"], 2);
    assert_eq!(all.get("hint"), None);
    let bad = &all["mcpServers"][0];
    assert_eq!(bad["statusMessage"], "Command not found - check the executable path");
    assert_eq!(bad.get("error"), None);
    let got = rig.ask("core_mcpserver_get", json!({"name": "bad"})).await;
    assert_eq!(got["error"], "command not found");
}

#[tokio::test(start_paused = true)]
async fn secrets_are_hidden_and_survive_an_update() {
    let rig = Rig::new(&[]);
    let secret = json!({"name": "a", "type": "streamable-http", "url": "https://u:pw@h/mcp",
        "headers": {"Authorization": "Bearer abc", "X-Team": "blue"}});
    rig.call("core_mcpserver_create", secret).await;
    let got = rig.ask("core_mcpserver_get", json!({"name": "a"})).await;
    assert_eq!(got["headers"], json!({"Authorization": "[REDACTED]", "X-Team": "blue"}));
    assert_eq!(got["url"], "https://[REDACTED]@h/mcp");
    let status = rig.call("core_service_status", json!({"name": "a"})).await;
    assert!(!status.contains("abc") && !status.contains("pw@"), "{status}");
    let headers = json!({"Authorization": "[REDACTED]", "X-Team": "red"});
    rig.call("core_mcpserver_update", json!({"name": "a", "headers": headers})).await;
    let file = rig.read("mcpservers/a.yaml");
    contains(&file, &["Authorization: Bearer abc", "X-Team: red", "u:pw@h"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_with_an_empty_text_clears_the_field() {
    let rig = Rig::new(&[]);
    let server = json!({"name": "a", "type": "streamable-http", "url": "https://h/mcp", "timeout": 7,
        "toolPrefix": "short", "description": "words", "headers": {"Authorization": "Bearer abc"}});
    rig.call("core_mcpserver_create", server).await;
    // A program was never set: clearing it does not move the server.
    let update =
        json!({"name": "a", "toolPrefix": "", "description": "", "timeout": 0, "command": ""});
    rig.call("core_mcpserver_update", update).await;
    let got = rig.ask("core_mcpserver_get", json!({"name": "a"})).await;
    assert_eq!((&got["toolPrefix"], &got["description"]), (&json!(null), &json!(null)), "{got}");
    let file = rig.read("mcpservers/a.yaml");
    assert!(!file.contains("timeout"), "{file}");
    contains(&file, &["Authorization: Bearer abc"]);
}

#[tokio::test(start_paused = true)]
async fn the_configuration_is_shown_changed_and_read_again() {
    let rig = Rig::new(&[("mcpservers/a.yaml", "command: x\n")]);
    rig.until_is("a", "running").await;
    let config = rig.ask("core_config_get", json!({})).await;
    assert_eq!(config["Aggregator"]["Port"], 8090);
    assert_eq!(config["Kubernetes"], false);
    assert_eq!(
        rig.call("core_config_update_aggregator", json!({})).await,
        "E: aggregator is required"
    );
    let said =
        rig.call("core_config_update_aggregator", json!({"aggregator": {"port": "x"}})).await;
    contains(
        &said,
        &["E: Failed to parse aggregator config: port: Input should be a valid number"],
    );
    let update = json!({"aggregator": {"port": 8091, "MusterPrefix": "m"}});
    assert_eq!(
        rig.call("core_config_update_aggregator", update).await,
        "Successfully updated aggregator configuration"
    );
    assert_eq!(rig.tools(), ["m_a_echo"], "the prefix counts at once");
    let aggregator = rig.ask("core_config_get_aggregator", json!({})).await;
    assert_eq!((&aggregator["Port"], &aggregator["Host"]), (&json!(8091), &json!("localhost")));
    assert!(rig.read("config.yaml").contains("port: 8091"));
    assert_eq!(rig.call("core_config_save", json!({})).await, "Configuration saved successfully");
    rig.put("config.yaml", "aggregator: {musterPrefix: z}\n");
    assert_eq!(
        rig.call("core_config_reload", json!({})).await,
        "Configuration reloaded successfully"
    );
    assert_eq!(rig.tools(), ["z_a_echo"]);
    rig.put("config.yaml", "aggregator: 1\n");
    let said = rig.call("core_config_reload", json!({})).await;
    contains(
        &said,
        &["E: failed to reload configuration: ", "config.yaml:1: aggregator: Input should"],
    );
    assert_eq!(rig.tools(), ["z_a_echo"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_changes_of_the_configuration_are_not_lost() {
    let rig = Rig::new(&[("config.yaml", "aggregator: {port: 8091}\n")]);
    let update = |aggregator: Value| {
        rig.call("core_config_update_aggregator", json!({"aggregator": aggregator}))
    };
    let said =
        tokio::join!(update(json!({"musterPrefix": "m"})), update(json!({"host": "h.example"})));
    let done = "Successfully updated aggregator configuration";
    assert_eq!(said.0, done);
    contains(&said.1, &[done, "warning: after a restart other machines reach `h.example`"]);
    contains(&rig.read("config.yaml"), &["port: 8091", "musterPrefix: m", "host: h.example"]);

    let by_hand = "aggregator: {port: 8092}\n";
    rig.put("config.yaml", by_hand);
    assert_eq!(rig.call("core_config_save", json!({})).await, "Configuration saved successfully");
    assert_eq!(rig.read("config.yaml"), by_hand);

    rig.put("config.yaml", "aggregator: 1\n");
    let said = update(json!({"port": 1})).await;
    contains(
        &said,
        &["E: Failed to update aggregator config: ", "config.yaml:1:", "correct it first"],
    );
    assert_eq!(rig.read("config.yaml"), "aggregator: 1\n");
}

#[tokio::test(start_paused = true)]
async fn the_gateway_itself_is_a_service() {
    let rig = Rig::new(&[("mcpservers/a.yaml", "command: x\n")]);
    rig.until_is("a", "running").await;
    rig.engine().listening("http://127.0.0.1:1/mcp");
    let list = rig.ask("core_service_list", json!({})).await;
    assert_eq!(list["total"], 2);
    let gateway = &list["services"][0];
    assert_eq!(gateway["name"], "mcp-aggregator");
    assert_eq!(gateway["service_type"], "Aggregator");
    assert_eq!(gateway["state"], "running");
    assert_eq!(
        gateway["metadata"],
        json!({"blocked_tools": 0, "endpoint": "http://127.0.0.1:1/mcp", "event_handler_running": true,
            "host": "localhost", "port": 8090, "prompts": 0, "resources": 1, "servers_connected": 1,
            "servers_total": 1, "service_type": "aggregator", "tools": 1, "tools_with_status": [],
            "yolo": false})
    );
    let said = rig.call("core_service_stop", json!({"name": "mcp-aggregator"})).await;
    contains(&said, &["E: Failed to stop service: mcp-aggregator is the gateway"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_filtered() {
    let rig = Rig::new(&[("mcpservers/a.yaml", "command: x\n")]);
    rig.until_is("a", "running").await;
    rig.call("core_mcpserver_create", json!({"name": "b", "type": "sse", "url": "u"})).await;
    rig.call("core_mcpserver_delete", json!({"name": "b"})).await;
    let events =
        rig.ask("core_events", json!({"resourceName": "b", "resourceType": "MCPServer"})).await;
    let reasons: Vec<&Value> =
        events.as_array().unwrap().iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["MCPServerDeleted", "MCPServerCreated"]);
    let one = &events[0];
    assert_eq!(one["message"], "MCPServer b was deleted");
    assert_eq!((&one["type"], &one["namespace"]), (&json!("Normal"), &json!("default")));
    assert_eq!(one["timestamp"].as_str().unwrap().len(), 19);
    let last = rig.ask("core_events", json!({"limit": 1, "since": "1h"})).await;
    assert_eq!(last.as_array().unwrap().len(), 1);
    assert_eq!(rig.call("core_events", json!({"until": "1h"})).await, "[]");
    assert_eq!(
        rig.call("core_events", json!({"resourceType": "Workflow", "follow": true})).await,
        "[]"
    );
    let said = rig.call("core_events", json!({"since": "yesterday"})).await;
    contains(
        &said,
        &[
            "E: Invalid 'since' time format: unsupported time format 'yesterday'. Supported formats: ",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn followed_events_are_those_that_the_caller_may_see_now() {
    let rig = Rig::new(&[("mcpservers/a.yaml", REMOTE)]);
    rig.until_is("a", "connected").await;
    let args = json!({"follow": true, "duration": "10m", "resourceName": "a"});
    let call = Call::new(ToolName::new("core_events"), raw(&args), Checking::Strict);
    let (agent, client) = (Caller::local(), NoClient::shared());
    let following = rig.dispatcher.call(&agent, &client, call);
    let (mut views, mut states) = (rig.engine().view(), rig.engine().state());
    let crashes = async {
        rig.fake.link("a").crash();
        drop(views.wait_for(|view| view.servers["a"].status.failures > 0).await.unwrap());
        rig.until_is("a", "connected").await;
        rig.put("policies/p.yaml", "default: disabled\ntools: {core_events: {}}\n");
        drop(states.wait_for(|state| !state.policy.is_open()).await.unwrap());
        rig.fake.link("a").crash();
        drop(views.wait_for(|view| view.servers["a"].status.failures > 0).await.unwrap());
    };
    let (reply, ()) = tokio::join!(following, crashes);
    let Ok(Outcome::Text { text, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(text.matches("\"MCPServerFailed\"").count(), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn every_tool_describes_itself() {
    let rig = Rig::new(&[]);
    let state = rig.dispatcher.snapshot(&Caller::local());
    let names: Vec<String> = state.catalog.sorted().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names.len(), 55, "{names:?}");
    for entry in state.catalog.sorted() {
        assert!(entry.name.as_str().starts_with("core_"), "{}", entry.name);
        assert!(!entry.description.contains("  "), "{}", entry.description);
        let schema: Value = serde_json::from_str(entry.input_schema.get()).unwrap();
        assert_eq!(schema["type"], "object", "{}", entry.name);
    }
}
