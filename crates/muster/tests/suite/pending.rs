//! `muster agent --mcp-server` while the gateway wants a login: the agent is served all the same.

use serde_json::{Value, json};

use super::{
    bridge::{Bridge, INITIALIZE, INITIALIZED, META},
    world::World,
};

fn request(id: u32, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// Reads until a notification of this name.
fn heard(bridge: &mut Bridge, method: &str) -> Value {
    loop {
        let message = bridge.next();
        if message["method"] == method {
            return message;
        }
    }
}

const CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn the_one_tool_begins_the_login_and_the_gateway_takes_over() {
    let world = World::new(&[]);
    let mut bridge = Bridge::run(world.command(&["agent", "--mcp-server"]));
    bridge.send(INITIALIZE);
    let (introduced, _) = bridge.answer(&json!(0));
    let result = &introduced["result"];
    assert_eq!(result["serverInfo"]["name"], "muster-agent", "{introduced}");
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    bridge.send(INITIALIZED);
    bridge.send(&request(1, "tools/list", json!({})));
    assert_eq!(names(&bridge.answer(&json!(1)).0), ["authenticate_muster"]);
    for (id, method, key) in
        [(2, "resources/list", "resources"), (3, "prompts/list", "prompts"), (4, "ping", "")]
    {
        bridge.send(&request(id, method, json!({})));
        let (answer, _) = bridge.answer(&json!(id));
        assert!(answer["result"].is_object(), "{answer}");
        assert!(key.is_empty() || answer["result"][key] == json!([]), "{answer}");
    }
    bridge.send(&request(5, "tools/call", json!({"name": "list_tools"})));
    let (refused, _) = bridge.answer(&json!(5));
    assert_eq!(refused["result"]["isError"], true);
    assert!(text(&refused).contains("authenticate_muster"), "{refused}");

    bridge.send(&request(6, "tools/call", json!({"name": "authenticate_muster"})));
    let opened = world.opened();
    let (answer, _) = bridge.answer(&json!(6));
    let told: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(told["status"], "auth_required");
    assert_eq!(told["auth_url"], *opened);
    assert_eq!(told["clickable_url"], format!("[Authenticate with Muster]({opened})"));
    let page = world.agree(&opened);
    assert!(page.contains("Authentication Successful"), "{page}");

    heard(&mut bridge, CHANGED);
    bridge.send(&request(7, "tools/list", json!({})));
    let (answer, _) = bridge.answer(&json!(7));
    let names = names(&answer);
    assert!(names.contains(&"call_tool") && !names.contains(&"authenticate_muster"), "{names:?}");
    bridge.send(&request(8, "tools/call", json!({"name": "list_core_tools", "arguments": {}})));
    assert!(text(&bridge.answer(&json!(8)).0).contains("core_"));
    assert_eq!(bridge.leave(), Some(0));
    let who = world.run(&["auth", "whoami"]);
    assert!(who.starts_with("Identity:  "), "{who}");
}

#[test]
fn a_modern_client_is_served_the_same_way() {
    let world = World::new(&[]);
    let mut bridge = Bridge::run(world.command(&["agent", "--mcp-server"]));
    let ask = |id: u32, method: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}{}{META}}}}}"#,
            if more.is_empty() { "" } else { "," }
        )
    };
    bridge.send(&ask(1, "server/discover", ""));
    let (answer, _) = bridge.answer(&json!(1));
    assert!(answer["result"]["supportedVersions"].is_array(), "{answer}");
    bridge.send(&ask(2, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#));
    heard(&mut bridge, "notifications/subscriptions/acknowledged");
    bridge.send(&ask(3, "tools/list", ""));
    assert_eq!(names(&bridge.answer(&json!(3)).0), ["authenticate_muster"]);
    // Another program logs in; that is as good.
    let said = world.browse(&["auth", "login"], 1);
    assert!(said.contains("Successfully authenticated"), "{said}");
    let change = heard(&mut bridge, CHANGED);
    let meta = &change["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], 2, "{change}");
    // From now on the gateway itself tells of changes.
    heard(&mut bridge, "notifications/subscriptions/acknowledged");
    bridge.send(&ask(4, "tools/list", ""));
    assert!(names(&bridge.answer(&json!(4)).0).contains(&"call_tool"));
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn a_login_that_ends_while_the_agent_works_is_asked_for_again() {
    let mut world = World::new(&[]);
    world.browse(&["auth", "login"], 1);
    let mut bridge = Bridge::run(world.command(&["agent", "--mcp-server"]));
    bridge.initialize();
    let call = |id| request(id, "tools/call", json!({"name": "list_tools", "arguments": {}}));
    bridge.send(&call(1));
    assert!(text(&bridge.answer(&json!(1)).0).contains("core_"));
    world.restart_gateway();
    bridge.send(&call(2));
    let opened = world.opened();
    let (answer, _) = bridge.answer(&json!(2));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(text(&answer).starts_with("Authentication token expired"), "{answer}");
    assert!(text(&answer).contains(&opened), "{answer}");
    bridge.send(&call(3));
    let (answer, _) = bridge.answer(&json!(3));
    assert!(text(&answer).starts_with("Re-authentication is already in progress."), "{answer}");
    world.agree(&opened);
    heard(&mut bridge, CHANGED);
    bridge.send(&call(4));
    assert!(text(&bridge.answer(&json!(4)).0).contains("core_"));
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn nobody_is_asked_where_logins_are_not_wanted() {
    let world = World::new(&[]);
    let mut bridge = Bridge::run(world.command(&["agent", "--mcp-server", "--auth", "none"]));
    bridge.send(INITIALIZE);
    let (answer, _) = bridge.answer(&json!(0));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("muster auth login --endpoint"), "{said}");
    assert_eq!(bridge.leave(), Some(0));
}
