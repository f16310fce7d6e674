//! Logins at servers behind a gateway that wants a login itself.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    bridge::Bridge,
    world::{World, agree},
};

#[test]
fn a_login_at_one_server() {
    let world = World::new(&["vault"]);
    let said = [
        world.browse(&["auth", "login", "--server", "vault"], 2),
        world.run(&["auth", "status"]),
        world.run(&["auth", "status", "--server", "vault"]),
        world.run(&["call", "x_vault_open"]),
        world.run(&["auth", "login", "--server", "vault"]),
        world.run(&["auth", "login", "--all"]),
        world.run(&["auth", "login", "--server", "nobody"]),
    ];
    expect![[r#"
        Authenticating to aggregator first...
        Opening browser for authentication... done
        Waiting for authentication to complete...

        Successfully authenticated to http://localhost:[PORT]/mcp
        Authenticating to vault...
        Opening browser for authentication...
        Waiting for vault authentication to complete...
        ✓ vault authenticated successfully.
        exit 0
        Muster Aggregator
          Endpoint:  http://localhost:[PORT]/mcp
          Status:    Authenticated
          Expires:   in 29 minutes
          Refresh:   Available
          Issuer:    http://localhost:[PORT]

        MCP Servers
          vault                Connected
        exit 0
        MCP Server: vault
          Status:   Connected
        exit 0
        PROPERTY   VALUE
        vault      open
        exit 0
        Server 'vault' is already connected and does not require authentication.
        exit 0
        No MCP servers require authentication.
        All authentication complete.
        exit 0
        stderr: Error: server 'nobody' not found. Use 'muster auth status' to see available servers
        exit 1
    "#]]
    .assert_eq(&said.concat());
}

/// The state of the server is that of everybody: a login is one user's own.
#[test]
fn a_server_that_the_user_is_logged_in_to_can_be_used() {
    let world = World::new(&["vault"]);
    world.browse(&["auth", "login"], 1);
    let (check, get) = (["check", "mcpserver", "vault"], ["get", "mcpserver", "vault"]);
    let (list, service) = (["list", "mcpservers"], ["get", "service", "vault"]);
    let login = "log in with `muster auth login --server vault`";
    let said = world.run(&check);
    assert!(said.contains(login) && said.ends_with("exit 1\n"), "{said}");
    for words in [&get[..], &list, &service] {
        let said = world.run(words);
        assert!(said.contains(login) && said.ends_with("exit 0\n"), "{said}");
    }
    world.browse(&["auth", "login", "--server", "vault"], 1);
    for words in [&check[..], &get, &list, &service] {
        let said = world.run(words);
        assert!(!said.contains("log in with") && said.ends_with("exit 0\n"), "{said}");
    }
}

#[test]
fn a_logout_ends_the_login_at_the_gateway() {
    let world = World::new(&["vault"]);
    world.browse(&["auth", "login", "--server", "vault"], 2);
    let folder = world.home.file(".config/muster/tokens");
    let stored = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let token = fs::read(&stored).unwrap();
    let out = world.run(&["auth", "logout"]);
    assert_eq!(out, "Logged out from http://localhost:[PORT]/mcp\nexit 0\n");
    // A copy of the token is worth nothing.
    fs::write(&stored, &token).unwrap();
    let status = world.run(&["auth", "status"]);
    assert!(status.contains("Token invalidated"), "{status}");

    // Everywhere: also the login at the server behind the gateway is over.
    world.browse(&["auth", "login"], 1);
    let still = world.run(&["auth", "status", "--server", "vault"]);
    assert!(still.contains("Status:   Connected"), "{still}");
    // With an access token that has expired, which is refreshed for this.
    let mut token: Value = serde_json::from_slice(&fs::read(&stored).unwrap()).unwrap();
    token["access_token"] = json!("old");
    token["expiry"] = json!("2020-01-01T00:00:00Z");
    fs::write(&stored, token.to_string()).unwrap();
    let out = world.run(&["auth", "logout", "--all", "--yes"]);
    assert_eq!(out, "Cleared 1 stored token(s).\nexit 0\n");
    world.browse(&["auth", "login"], 1);
    let over = world.run(&["auth", "status", "--server", "vault"]);
    assert!(over.contains("Status:   Not authenticated"), "{over}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one conversation")]
fn logins_at_all_servers() {
    let world = World::new(&["safe", "vault"]);
    let said = [
        world.browse(&["auth", "login"], 1),
        world.run(&["auth", "status"]),
        world.run(&["auth", "status", "--server", "safe"]),
        world.browse(&["auth", "login", "--all"], 1),
        world.run(&["auth", "status"]),
        world.run(&["auth", "whoami"]),
        world.run(&["context", "add", "here", "--use"]),
        world.run(&["auth", "logout", "--server", "safe"]),
        world.run_bare(&["auth", "logout", "--server", "nobody"]),
        world.run(&["call", "core_auth_logout", "server=safe"]),
        world.run(&["auth", "status", "--server", "safe"]),
        world.run(&["auth", "logout"]),
        world.run_bare(&["auth", "logout", "--server", "safe"]),
        world.run(&["auth", "status", "--server", "safe"]),
    ];
    expect![[r#"
        Opening browser for authentication... done
        Waiting for authentication to complete...

        Successfully authenticated to http://localhost:[PORT]/mcp
        exit 0
        Muster Aggregator
          Endpoint:  http://localhost:[PORT]/mcp
          Status:    Authenticated
          Expires:   in 29 minutes
          Refresh:   Available
          Issuer:    http://localhost:[PORT]

        MCP Servers
          (2 pending authentication)
          safe                 Not authenticated  Run: muster auth login --server safe
          vault                Not authenticated  Run: muster auth login --server vault
        exit 0
        MCP Server: safe
          Status:   Not authenticated
          Action:   Run: muster auth login --server safe
        exit 0
        Found 2 MCP server(s) requiring authentication:
          - safe
          - vault
        [1/2] Authenticating to safe
        Opening browser for authentication...
        Waiting for safe authentication to complete...
        ✓ safe authenticated successfully.
        [2/2] Authenticating to vault
        ✓ vault is already connected.
        Authentication complete. 2/2 servers authenticated.
        exit 0
        Muster Aggregator
          Endpoint:  http://localhost:[PORT]/mcp
          Status:    Authenticated
          Expires:   in 29 minutes
          Refresh:   Available
          Issuer:    http://localhost:[PORT]

        MCP Servers
          safe                 Connected
          vault                Connected
        exit 0
        Identity:  test@example.com
        Endpoint:  http://localhost:[PORT]/mcp
        Issuer:    http://localhost:[PORT]
        Expires:   in 29 minutes
        exit 0
        Context "here" added.
        Switched to context "here"
        exit 0
        Server 'safe' keeps a login of its own at the gateway.
        End it with: muster call core_auth_logout server=safe
        exit 0
        stderr: Error: server 'nobody' not found. Use 'muster auth status' to see available servers
        exit 1
        Successfully logged out from 'safe'.

        Use core_auth_login with server='safe' to log in again.
        exit 0
        MCP Server: safe
          Status:   Not authenticated
          Issuer:   http://localhost:[IDP]
          Action:   Run: muster auth login --server safe
        exit 0
        Logged out from http://localhost:[PORT]/mcp
        exit 0
        Not authenticated to http://localhost:[PORT]/mcp.
        There is no login at 'safe' to end.
        exit 0
        stderr: Error: not authenticated to aggregator. Run 'muster auth login' first
        exit 1
    "#]]
    .assert_eq(&said.concat());
}

#[test]
fn an_agent_is_taken_to_the_servers_after_its_login() {
    let world = World::new(&["vault"]);
    let mut bridge = Bridge::run(world.command(&["agent", "--mcp-server"]));
    bridge.initialize();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": "authenticate_muster"}});
    bridge.send(&call.to_string());
    agree(&world.opened());
    // The page of the server comes by itself.
    agree(&world.opened());
    let status = loop {
        let status = world.run(&["auth", "status", "--server", "vault"]);
        if !status.contains("Not authenticated") {
            break status;
        }
    };
    assert!(status.contains("Status:   Connected"), "{status}");
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn an_agent_may_be_left_alone_after_its_login() {
    let world = World::new(&["vault"]);
    let words = ["agent", "--mcp-server", "--disable-auto-sso"];
    let mut bridge = Bridge::run(world.command(&words));
    bridge.initialize();
    let call = |id: u32, tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    bridge.send(&call(1, "authenticate_muster"));
    agree(&world.opened());
    while bridge.next()["method"] != "notifications/prompts/list_changed" {}
    bridge.send(&call(2, "list_tools"));
    let (answer, _) = bridge.answer(&json!(2));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("core_"), "{answer}");
    assert_eq!(bridge.leave(), Some(0));
    // Whatever the browser was given would be read here first.
    let status = world.browse(&["auth", "login", "--server", "vault"], 1);
    assert!(status.contains("vault authenticated successfully"), "{status}");
}

#[test]
fn an_agent_logs_in_anew_without_a_page() {
    let mut world = World::new(&[]);
    world.browse(&["auth", "login"], 1);
    world.restart_gateway();
    let mut agent = world.command(&["agent", "--mcp-server", "--silent"]);
    let mut child = agent.stdout(std::process::Stdio::null()).spawn().unwrap();
    let page = world.opened();
    assert!(page.contains("prompt=none"), "{page}");
    agree(&page);
    assert!(child.wait().unwrap().success());
    let status = world.run(&["auth", "status"]);
    assert!(status.contains("Status:    Authenticated"), "{status}");
}

const FAILING: &str = "\
tools:
  - {name: ask, description: Never answers, responses: [{fault: {kind: status, status: 503}}]}
  - {name: refuse, description: Refuses, responses: [{error: no}]}
";

#[test]
fn a_server_that_stops_answering_is_not_tried_for_a_while() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = super::client::Folder::new(&[("mock.yaml", FAILING)]);
    let mock = muster_scenario::mock::config::read_file(&folder.file("mock.yaml")).unwrap().config;
    let transport = muster_scenario::scenario::MockTransport::StreamableHttp;
    let mock = muster_scenario::mock::remote::RemoteMock::start("far", &mock, transport);
    let mock = runtime.block_on(mock).unwrap();
    let server = format!("type: streamable-http\nurl: {}\nautoStart: true\n", mock.url());
    let config = "aggregator: {port: 0, limits: {callFailures: 3}}\nclis: {bundled: none}\n";
    let gateway = super::serve::Gateway::start(
        &[("config.yaml", config), ("mcpservers/far.yaml", &server)],
        &[],
    );
    let session = gateway.session();
    let get = || {
        let answer = gateway.call_tool(&session, "core_mcpserver_get", json!({"name": "far"}));
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    while !get().contains("Connected") {}
    let call = |tool: &str| {
        let said = gateway.call_tool(&session, tool, json!({}));
        assert_eq!(said["isError"], true, "{said}");
        said["content"][0]["text"].as_str().unwrap().to_owned()
    };
    for tool in ["ask", "ask", "refuse", "ask", "ask", "ask"] {
        let said = call(&format!("x_far_{tool}"));
        assert!(!said.contains("in a row"), "{tool}: {said}");
    }
    let said = call("x_far_refuse");
    assert!(said.contains("it failed 3 times in a row; next attempt in "), "{said}");
    let shown = get();
    assert!(shown.contains("Calls fail at once: it failed 3 times in a row"), "{shown}");
    assert!(shown.contains(r#""callFailures":3"#), "{shown}");
    // Another threshold takes effect at once.
    fs::write(gateway.folder.file("config.yaml"), config.replace("3}", "0}")).unwrap();
    while get().contains("callFailures") {}
    let said = call("x_far_refuse");
    assert!(!said.contains("in a row"), "{said}");
}
