//! Logins at servers behind a gateway that wants a login itself.

use expect_test::expect;
use serde_json::json;

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
        Servers that share this login connect with the first request.
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
        world.run_bare(&["auth", "logout", "--server", "safe"]),
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
        Servers that share this login connect with the first request.
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
