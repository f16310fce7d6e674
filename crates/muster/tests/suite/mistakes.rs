//! What was typed wrong, and gateways that are not there.

use std::process::{Command, Stdio};

use expect_test::expect;

use super::{client::Folder, desk::Desk, serve::MUSTER};

#[test]
#[expect(clippy::too_many_lines, reason = "one conversation")]
fn what_was_typed_wrong() {
    let desk = Desk::new();
    desk.check(
        &[
            &["frob"],
            &["lst", "tools"],
            &["list"],
            &["list", "a", "b"],
            &["list", "tols"],
            &["get", "mcpserver"],
            &["get", "rocket", "x"],
            &["check", "rocket", "x"],
            &["stop", "workflow", "x"],
            &["list", "tools", "--frob"],
            &["list", "tools", "-o", "xml"],
            &["list", "tools", "--auth", "maybe"],
            &["list", "tools", "--filter", "["],
            &["stop", "--endpoint", "https://prod.example/mcp"],
            &["stop"],
            &["status", "--context", "prod"],
            &["serve", "x"],
            &["context", "add", "lab"],
            &["context", "add", "--endpoint", "x"],
            &["connect", "crusor"],
            &["import", "--from", "foo"],
            &["completion", "foo"],
            &["serve", "--surface", "foo"],
            &["doctor", "-o", "yaml"],
            &["agent", "--transport", "foo"],
            &["agent", "--repl", "--mcp-server"],
            &["import", "--yes", "--dry-run"],
            &["call"],
            &["search"],
            &["version", "a"],
            &["self-update", "a"],
            &["context", "rename", "a"],
            &["events", "--limit", "-1"],
            &["events", "--type", "loud"],
            &["events", "--resource-type", "rocket"],
            &["events", "--since", "soon"],
        ],
        expect![[r#"
            $ muster frob
            stderr: Error: unknown command "frob" for "muster"
            stderr:
            stderr: hint: see `muster --help`
            exit 1
            $ muster lst tools
            stderr: Error: unknown command "lst" for "muster"
            stderr:
            stderr: hint: did you mean `list`?
            stderr:
            stderr: hint: see `muster --help`
            exit 1
            $ muster list
            stderr: Error: accepts 1 arg(s), received 0
            stderr:
            stderr: hint: see `muster list --help`
            exit 1
            $ muster list a b
            stderr: Error: accepts 1 arg(s), received 2
            stderr:
            stderr: hint: see `muster list --help`
            exit 1
            $ muster list tols
            stderr: Error: unknown resource type 'tols'. Available types: mcpserver, mcpservers, prompt, prompts, resource, resources, service, serviceclass, serviceclasses, services, tool, tools, workflow, workflow-execution, workflow-executions, workflows
            stderr:
            stderr: hint: did you mean `tools`?
            exit 1
            $ muster get mcpserver
            stderr: Error: accepts 2 arg(s), received 1
            stderr:
            stderr: hint: see `muster get --help`
            exit 1
            $ muster get rocket x
            stderr: Error: unknown resource type 'rocket'. Available types: mcpserver, prompt, prompts, resource, resources, service, serviceclass, tool, tools, workflow, workflow-execution
            exit 1
            $ muster check rocket x
            stderr: Error: unknown resource type 'rocket'. Available types: serviceclass, mcpserver, workflow
            exit 1
            $ muster stop workflow x
            stderr: Error: unknown resource type 'workflow'. Available types: service
            exit 1
            $ muster list tools --frob
            stderr: Error: unknown flag: --frob
            stderr:
            stderr: hint: see `muster list --help`
            exit 1
            $ muster list tools -o xml
            stderr: Error: unsupported output format: "xml" (valid: table, wide, json, yaml)
            exit 1
            $ muster list tools --auth maybe
            stderr: Error: invalid auth mode "maybe": must be one of 'auto', 'prompt', or 'none'
            exit 1
            $ muster list tools --filter [
            stderr: Error: syntax error in pattern `[`
            exit 1
            $ muster stop --endpoint https://prod.example/mcp
            stderr: Error: --endpoint selects a gateway by its address, but `muster stop` needs that of a directory on this machine
            stderr:
            stderr: hint: name the directory with --config-path
            exit 1
            $ muster stop
            stderr: Error: MUSTER_ENDPOINT selects a gateway by its address, but `muster stop` needs that of a directory on this machine
            stderr:
            stderr: hint: name the directory with --config-path
            exit 1
            $ muster status --context prod
            stderr: Error: --context selects a gateway by its address, but `muster status` needs that of a directory on this machine
            stderr:
            stderr: hint: name the directory with --config-path
            exit 1
            $ muster serve x
            stderr: Error: unknown command "x" for "muster serve"
            stderr:
            stderr: hint: see `muster serve --help`
            exit 1
            $ muster context add lab
            stderr: Error: required flag(s) "endpoint" not set
            stderr:
            stderr: hint: see `muster context add --help`
            exit 1
            $ muster context add --endpoint x
            stderr: Error: accepts 1 arg(s), received 0
            stderr:
            stderr: hint: see `muster context add --help`
            exit 1
            $ muster connect crusor
            stderr: Error: invalid value 'crusor' for '<CLIENT>' (valid: claude-desktop, claude-code, cursor, vscode, windsurf, codex, gemini)
            stderr:
            stderr: hint: did you mean `cursor`?
            stderr:
            stderr: hint: see `muster connect --help`
            exit 1
            $ muster import --from foo
            stderr: Error: invalid value 'foo' for '--from <CLIENT>' (valid: claude-desktop, claude-code, cursor, vscode, windsurf, codex, gemini)
            stderr:
            stderr: hint: see `muster import --help`
            exit 1
            $ muster completion foo
            stderr: Error: invalid value 'foo' for '<SHELL>' (valid: bash, zsh, fish, powershell)
            stderr:
            stderr: hint: see `muster completion --help`
            exit 1
            $ muster serve --surface foo
            stderr: Error: invalid value 'foo' for '--surface <SURFACE>' (valid: muster, climax, auto)
            stderr:
            stderr: hint: see `muster serve --help`
            exit 1
            $ muster doctor -o yaml
            stderr: Error: invalid value 'yaml' for '--output <OUTPUT>' (valid: table, json)
            stderr:
            stderr: hint: see `muster doctor --help`
            exit 1
            $ muster agent --transport foo
            stderr: Error: unsupported transport: foo (supported: streamable-http, sse)
            stderr:
            stderr: hint: see `muster agent --help`
            exit 1
            $ muster agent --repl --mcp-server
            stderr: Error: if any flags in the group [repl mcp-server] are set none of the others can be; [mcp-server repl] were all set
            stderr:
            stderr: hint: see `muster agent --help`
            exit 1
            $ muster import --yes --dry-run
            stderr: Error: if any flags in the group [dry-run yes] are set none of the others can be; [dry-run yes] were all set
            stderr:
            stderr: hint: see `muster import --help`
            exit 1
            $ muster call
            stderr: Error: requires at least 1 arg(s), only received 0
            stderr:
            stderr: hint: see `muster call --help`
            exit 1
            $ muster search
            stderr: Error: requires at least 1 arg(s), only received 0
            stderr:
            stderr: hint: see `muster search --help`
            exit 1
            $ muster version a
            stderr: Error: unknown command "a" for "muster version"
            stderr:
            stderr: hint: see `muster version --help`
            exit 1
            $ muster self-update a
            stderr: Error: unknown command "a" for "muster self-update"
            stderr:
            stderr: hint: see `muster self-update --help`
            exit 1
            $ muster context rename a
            stderr: Error: accepts 2 arg(s), received 1
            stderr:
            stderr: hint: see `muster context rename --help`
            exit 1
            $ muster events --limit -1
            stderr: Error: limit must be a positive number, got -1
            exit 1
            $ muster events --type loud
            stderr: Error: invalid event type 'loud'. Valid types: Normal, Warning
            exit 1
            $ muster events --resource-type rocket
            stderr: Error: invalid resource type 'rocket'. Valid types: mcpserver, serviceclass, workflow, service
            exit 1
            $ muster events --since soon
            stderr: Error: invalid --since value 'soon': unsupported time format 'soon'. Supported formats: a duration before now (30m, 1h30m), RFC 3339 ([TIME]Z), YYYY-MM-DD, YYYY-MM-DD HH:MM:SS
            exit 1
        "#]],
    );
}

#[test]
fn nobody_there() {
    let home = Folder::new(&[]);
    let run = |words: &[&str]| {
        let output = Command::new(MUSTER)
            .args(words)
            .env("HOME", home.path())
            .env("MUSTER_ENDPOINT", "http://127.0.0.1:9/mcp")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        format!(
            "{}{}exit {}\n",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status.code().unwrap()
        )
    };
    let said = [
        run(&["list", "services"]),
        run(&["version"]),
        run(&["auth", "status", "--endpoint", "http://127.0.0.1:9/mcp"]),
        run(&["auth", "login", "--endpoint", "http://127.0.0.1:9/mcp"]),
        run(&["auth", "whoami", "--endpoint", "http://127.0.0.1:9/mcp"]),
        run(&["auth", "refresh", "--endpoint", "http://127.0.0.1:9/mcp"]),
        run(&["auth", "logout", "--endpoint", "http://127.0.0.1:9/mcp"]),
        run(&["auth", "logout", "--all"]),
        run(&["self-update"]),
    ];
    expect![[r#"
        Error: muster server is not running. Start it with: muster serve
        exit 1
        muster version 0.1.0

        Server: (not running)
        exit 0
        Muster Aggregator
          Endpoint:  http://127.0.0.1:9/mcp
          Status:    Connection failed
                     Network error: connect: connection refused
        exit 0
        Error: failed to check connection: muster server is not running. Start it with: muster serve
        exit 1
        Not authenticated to http://127.0.0.1:9/mcp

        To authenticate, run:
          muster auth login --endpoint http://127.0.0.1:9/mcp
        exit 0
        Error: failed to refresh token: not authenticated. Run 'muster auth login --endpoint http://127.0.0.1:9/mcp' first
        exit 1
        Logged out from http://127.0.0.1:9/mcp
        exit 0
        No stored tokens to clear.
        exit 0
        Error: cannot self-update: this build has no key to verify releases with

        hint: update muster the way it was installed
        exit 1
    "#]].assert_eq(&said.concat());
}

#[test]
fn about_the_gateway() {
    let desk = Desk::new();
    let url = desk.url();
    desk.check(
        &[
            &["--version"],
            &["version"],
            &["version", "-o", "json"],
            &["version", "-o", "yaml"],
            &["version", "-o", "xml"],
            &["auth", "status", "--endpoint", &url],
            &["auth", "login", "--endpoint", &url],
            &["auth", "login", "--server", "nobody", "--endpoint", &url],
        ],
        expect![[r#"
            $ muster --version
            muster version 0.1.0
            $ muster version
            muster version 0.1.0

            Server: 0.1.0 (muster-aggregator)
            $ muster version -o json
            {"client":"0.1.0","server":{"name":"muster-aggregator","version":"0.1.0"}}
            $ muster version -o yaml
            client: 0.1.0
            server:
                name: muster-aggregator
                version: 0.1.0
            $ muster version -o xml
            stderr: Error: unsupported output format: "xml" (valid: table, wide, json, yaml)
            exit 1
            $ muster auth status --endpoint http://localhost:[PORT]/mcp
            Muster Aggregator
              Endpoint:  http://localhost:[PORT]/mcp
              Status:    No authentication required
            $ muster auth login --endpoint http://localhost:[PORT]/mcp
            http://localhost:[PORT]/mcp does not require you to log in
            $ muster auth login --server nobody --endpoint http://localhost:[PORT]/mcp
            stderr: Error: server 'nobody' not found. Use 'muster auth status' to see available servers
            exit 1
        "#]],
    );
}
