//! Agents do not change a gateway: every tool that does, tried through the real binary.

use serde_json::{Value, json};

use super::serve::Gateway;

/// The tools of `list_core_tools`.
fn listed(gateway: &Gateway, session: &str) -> Vec<String> {
    let arguments = json!({"include_schema": false});
    let params = json!({"name": "list_core_tools", "arguments": arguments});
    let answer = gateway.ask(session, "tools/call", params);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let listed: Value = serde_json::from_str(text).unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn changes(tool: &str) -> bool {
    let ends =
        ["create", "update", "delete", "approve", "start", "stop", "restart", "save", "reload"];
    tool == "core_config_update_aggregator" || ends.iter().any(|end| tool.ends_with(end))
}

#[test]
fn only_operators_change_a_gateway() {
    let open = Gateway::start(&[], &[]);
    let session = open.session();
    let all = listed(&open, &session);
    let changing: Vec<String> = all.iter().filter(|tool| changes(tool)).cloned().collect();
    assert!(changing.len() >= 18, "{changing:?}");
    for tool in &changing {
        let said = open.call_tool(&session, tool, json!({})).to_string();
        assert!(!said.contains("not found: core_"), "{tool}: {said}");
    }
    // The same as an agent, with and without a policy.
    let workflows: Vec<(String, String)> = changing
        .iter()
        .map(|tool| {
            let args = "args: {name: evil, type: stdio, command: 'true', autoStart: true}";
            let step = format!("steps: [{{id: a, tool: {tool}, {args}}}]\n");
            (format!("workflows/by-{tool}.yaml"), step)
        })
        .collect();
    let mut files: Vec<(&str, &str)> =
        workflows.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    for policy in [None, Some("default: enabled\n"), Some("tools: {core/*: {}, workflow_*: {}}\n")]
    {
        files.extend(policy.map(|policy| ("policies/p.yaml", policy)));
        let gateway = Gateway::start_private(&files, &[]);
        let session = gateway.session();
        let seen = listed(&gateway, &session);
        assert_eq!(seen.iter().filter(|tool| changes(tool)).collect::<Vec<_>>(), [""; 0]);
        assert!(seen.iter().any(|tool| tool == "core_mcpserver_list"), "{seen:?}");
        for tool in &changing {
            let arguments =
                json!({"name": "evil", "type": "stdio", "command": "true", "autoStart": true});
            let said = gateway.call_tool(&session, tool, arguments.clone()).to_string();
            assert!(said.contains(&format!("tool not found: {tool}")), "{said}");
            assert!(said.contains("is for operators"), "{said}");
            let direct =
                gateway.ask(&session, "tools/call", json!({"name": tool, "arguments": arguments}));
            assert!(direct["error"]["message"].as_str().unwrap().contains("not found"), "{direct}");
            let step = gateway.call_tool(&session, &format!("workflow_by-{tool}"), json!({}));
            assert_eq!(step["isError"], true, "{step}");
        }
        assert!(!gateway.folder.file("mcpservers/evil.yaml").exists());
        files.truncate(workflows.len());
    }
}

#[test]
fn an_agents_server_runs_when_an_operator_approves_it() {
    let policy = "default: enabled\ntools: {core_mcpserver_create: {}}\n";
    let mut gateway = Gateway::start_private(&[("policies/p.yaml", policy)], &[]);
    let session = gateway.session();
    let ran = gateway.folder.file("ran");
    let server = json!({"name": "agents", "type": "stdio", "command": "touch",
        "args": [ran.to_str().unwrap()], "autoStart": true});
    let said = gateway.call_tool(&session, "core_mcpserver_create", server);
    assert!(said.to_string().contains("muster approve mcpserver agents"), "{said}");
    let list =
        gateway.call_tool(&session, "core_mcpserver_list", json!({"showAll": true})).to_string();
    assert!(list.contains("Awaiting Approval"), "{list}");
    drop(gateway.child.kill());
    drop(gateway.child.wait());
    assert!(!ran.exists());
    let file = std::fs::read_to_string(gateway.folder.file("mcpservers/agents.yaml")).unwrap();
    assert!(file.contains("approval: pending"), "{file}");
}
