//! What a gateway has, listed, shown, made, started and called.

use expect_test::expect;
use serde_json::Value;

use super::desk::Desk;

#[test]
fn servers_and_services() {
    let desk = Desk::new();
    desk.check(
        &[
            &["list", "mcpservers"],
            &["start", "service", "github"],
            &["start", "service", "github"],
            &["list", "mcpserver", "--no-headers"],
            &["list", "services", "-o", "table"],
            &["check", "mcpserver", "github"],
            &["stop", "service", "github"],
            &["stop", "service", "nobody"],
            &["get", "service", "nobody"],
            &["get", "mcpserver", "githbu"],
            &["get", "mcpserver", "githbu", "--quiet"],
        ],
        expect![[r#"
            $ muster list mcpservers
            NAME     STATE     SINCE                 TYPE    AUTOSTART
            github   Stopped   [TIME]   stdio   No
            $ muster start service github
            Successfully started service 'github'
            $ muster start service github
            Service 'github' is already running
            $ muster list mcpserver --no-headers
            github   Running   [TIME]   stdio   No
            $ muster list services -o table
            NAME             HEALTH    STATE     SERVICE_TYPE
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            $ muster check mcpserver github
            PROPERTY              VALUE
            name                  github
            service_type          MCPServer
            state                 Running
            health                healthy
            args                  test, --mock-mcp-server, --mock-config, [HOME]/mock.yaml
            autoStart             false
            clientReady           true
            command               [MUSTER]
            consecutiveFailures   0
            timeout               0
            type                  stdio
            lastAttempt           [TIME]Z
            protocolVersion       2025-11-25
            restartCount          0
            tools                 1
            $ muster stop service github
            Successfully stopped service 'github'
            $ muster stop service nobody
            stderr: ❌ Command returned error
            stderr: Error: Failed to stop service: service nobody not found
            exit 1
            $ muster get service nobody
            stderr: ❌ Command returned error
            stderr: Error: Failed to get service status: service nobody not found
            exit 1
            $ muster get mcpserver githbu
            stderr: ❌ Command returned error
            stderr: Error: Failed to get MCP server: MCP server githbu not found
            stderr:
            stderr: hint: did you mean `github`?
            exit 1
            $ muster get mcpserver githbu --quiet
            stderr: Error: Failed to get MCP server: MCP server githbu not found
            stderr:
            stderr: hint: did you mean `github`?
            exit 1
        "#]],
    );
}

#[test]
fn new_servers() {
    let desk = Desk::new();
    desk.check(
        &[
            &[
                "create",
                "mcpserver",
                "files",
                "--type",
                "stdio",
                "--command",
                "mcp-files",
                "--args",
                "/srv, -x",
                "--env",
                "TOKEN=canary",
                "--timeout",
                "3",
                "--description",
                "Files",
            ],
            &["get", "mcpserver", "files", "-o", "yaml"],
            &["create", "mcpserver", "files", "--type", "stdio", "--command", "x"],
            &["create", "mcpserver", "odd", "--type", "carrier-pigeon"],
            &["create", "mcpserver", "odd", "--env", "canary"],
            &["create", "mcpserver", "odd", "--forward-token", "maybe"],
            &["create", "service", "lonely"],
            &["create", "rocket", "x"],
            &["events", "--limit", "1", "--no-headers"],
            &["events", "--resource-type", "MCPSERVER", "--resource-name", "nobody", "-o", "json"],
        ],
        expect![[r#"
            $ muster create mcpserver files --type stdio --command mcp-files --args /srv, -x --env TOKEN=canary --timeout 3 --description Files
            MCP server 'files' created successfully
            It is not started. Start it with: muster start service files
            $ muster get mcpserver files -o yaml
            args:
                - /srv
                - "-x"
            command: mcp-files
            description: Files
            env:
                TOKEN: "[REDACTED]"
            name: files
            registeredBy: default-user
            since: "[TIME]Z"
            state: Stopped
            timeout: 3
            type: stdio
            $ muster create mcpserver files --type stdio --command x
            stderr: ❌ Command returned error
            stderr: Error: MCP server 'files' already exists
            exit 1
            $ muster create mcpserver odd --type carrier-pigeon
            stderr: ❌ Command returned error
            stderr: Error: Invalid MCP server definition: unsupported MCP server type: carrier-pigeon (supported: stdio, streamable-http, sse)
            exit 1
            $ muster create mcpserver odd --env canary
            stderr: Error: a value of --env has no `=`
            stderr:
            stderr: hint: write --env KEY=VALUE
            exit 1
            $ muster create mcpserver odd --forward-token maybe
            stderr: Error: invalid value 'maybe' for '--forward-token [<BOOL>]' (valid: true, false)
            stderr:
            stderr: hint: see `muster create mcpserver --help`
            exit 1
            $ muster create service lonely
            stderr: Error: service creation requires: muster create service <instance-name> <serviceclass-name> [--arg=value...]
            exit 1
            $ muster create rocket x
            stderr: Error: unknown resource type 'rocket'. Available types: serviceclass, workflow, service, mcpserver
            exit 1
            $ muster events --limit 1 --no-headers
            [TIME]   Warning   MCPServer   files   MCPServerFailed   MCPServer files failed: its definition was not changed: MCP server 'files' already exists
            $ muster events --resource-type MCPSERVER --resource-name nobody -o json
            []
        "#]],
    );
}

#[test]
fn tools_resources_prompts() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    desk.check(
        &[
            &["list", "tools", "--filter", "*greet*"],
            &["list", "tool", "--server", "X_GIT", "-o", "wide"],
            &["list", "tools", "--description", "greet SOME", "-o", "json"],
            &["list", "tools", "--filter", "["],
            &["list", "resources", "--filter", "nothing"],
            &["list", "prompts", "-o", "yaml"],
            &["list", "tools", "--filter", "core_events", "--all"],
            &["list", "services", "--filter", "x", "--server", "y", "--quiet", "--no-headers"],
            &["list", "services", "--description", "x", "--no-headers"],
            &["get", "tool", "x_github_greet"],
            &["get", "tool", "x_github_greet", "-o", "yaml"],
            &["get", "tool", "x_github_gret"],
            &["get", "resource", "file:///nowhere"],
            &["get", "prompt", "nothing"],
        ],
        expect![[r#"
            $ muster list tools --filter *greet*
            NAME             DESCRIPTION
            x_github_greet   Greet somebody

            1 tool
            $ muster list tool --server X_GIT -o wide
            NAME             DESCRIPTION      SERVER
            x_github_greet   Greet somebody   github

            1 tool
            $ muster list tools --description greet SOME -o json
            [
              {
                "name": "x_github_greet",
                "description": "Greet somebody"
              }
            ]
            $ muster list tools --filter [
            stderr: Error: syntax error in pattern `[`
            exit 1
            $ muster list resources --filter nothing
            No resources found
            $ muster list prompts -o yaml
            []
            $ muster list tools --filter core_events --all
            NAME          DESCRIPTION
            core_events   Show what happened in the gateway, newest first: servers ...

            1 tool
            stderr: Warning: --all ignored for 'tools' (only works with mcpserver)
            $ muster list services --filter x --server y --quiet --no-headers
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            $ muster list services --description x --no-headers
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            stderr: Warning: --description ignored for 'services' (only works with tools, resources, prompts)
            $ muster get tool x_github_greet
            Name:         x_github_greet
            Description:  Greet somebody
            $ muster get tool x_github_greet -o yaml
            description: Greet somebody
            inputSchema:
                properties: {}
                type: object
            name: x_github_greet
            $ muster get tool x_github_gret
            stderr: Error: tool not found: x_github_gret
            stderr:
            stderr: hint: nearest names: x_github_greet
            exit 1
            $ muster get resource file:///nowhere
            stderr: Error: resource not found: file:///nowhere
            exit 1
            $ muster get prompt nothing
            stderr: Error: prompt not found: nothing
            exit 1
        "#]],
    );
}

#[test]
fn the_schema_for_scenarios_has_every_core_tool() {
    let desk = Desk::new();
    let file = desk.home.file("schema.json");
    let said = desk.run(&["test", "--generate-schema", "--schema-output", file.to_str().unwrap()]);
    let schema: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    // Meta-tools are written too.
    let written: Vec<&str> =
        schema["tools"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(written.contains(&"call_tool"), "{said}");
    let written: Vec<&str> = written.into_iter().filter(|name| name.starts_with("core_")).collect();
    let listed =
        desk.command().args(["list", "tools", "--filter", "core_*", "-o", "json"]).output();
    let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
    let listed = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    assert_eq!(written, listed.collect::<Vec<_>>(), "{said}");
}

#[test]
fn calls_and_searches() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    desk.check(
        &[
            &["call", "x_github_greet", "name=Ada"],
            &["call", "x_github_greet", "--name", "Ada", "--output", "json"],
            &["call", "x_github_greet", "--json", "{\"name\": \"Ada\"}", "-o", "yaml"],
            &["call", "x_github_greet"],
            &["call", "x_github_greet", "Ada"],
            &["call", "x_github_greet", "--json", "[]"],
            &["call", "x_github_gret", "--quiet"],
            &["call", "describe_tool", "name=core_service_stop", "-o", "json"],
            &["search", "greet", "somebody", "--limit", "1"],
            &["search", "greet", "--limit", "1", "--no-headers"],
            &["search", "zzzz"],
            &["start", "workflow", "nothing", "a=1"],
            &["start", "rocket"],
        ],
        expect![[r#"
            $ muster call x_github_greet name=Ada
            PROPERTY   VALUE
            greeting   hello Ada
            $ muster call x_github_greet --name Ada --output json
            {"greeting":"hello Ada"}
            $ muster call x_github_greet --json {"name": "Ada"} -o yaml
            greeting: hello Ada
            $ muster call x_github_greet
            stderr: ❌ Command returned error
            stderr: Error: Tool execution failed: failed to call tool: failed to render response: error in key 'greeting': missing template variables: name
            exit 1
            $ muster call x_github_greet Ada
            stderr: Error: unexpected argument `Ada`
            stderr:
            stderr: hint: write arguments as key=value or --key=value
            exit 1
            $ muster call x_github_greet --json []
            stderr: Error: --json expects a JSON object: the value is not an object
            stderr:
            stderr: hint: quote it for the shell: --json '{"key": "value"}'
            exit 1
            $ muster call x_github_gret --quiet
            stderr: Error: Tool execution failed: tool not found: x_github_gret
            stderr:
            stderr: hint: nearest names: x_github_greet
            exit 1
            $ muster call describe_tool name=core_service_stop -o json
            {"name":"core_service_stop","description":"Stop a service. Its tools are gone until it is started again.","inputSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string","description":"Name of the service"}}},"effect":"write"}
            $ muster search greet somebody --limit 1
            NAME             MATCH    DESCRIPTION
            x_github_greet   strong   Greet somebody
            $ muster search greet --limit 1 --no-headers
            x_github_greet   strong   Greet somebody
            $ muster search zzzz
            No tools found
            stderr: hint: no tool matches; no tool mentions `zzzz`
            $ muster start workflow nothing a=1
            stderr: ❌ Command returned error
            stderr: Error: Tool execution failed: workflow nothing not found
            stderr:
            stderr: hint: find its name with `muster search`
            exit 1
            $ muster start rocket
            stderr: Error: unknown resource type 'rocket'. Available types: service, workflow
            exit 1
        "#]],
    );
}

#[test]
fn workflows_and_service_classes() {
    let desk = Desk::new();
    let before = ["check", "workflow", "deploy"];
    desk.check(
        &[
            &before,
            &["start", "service", "github"],
            &["list", "workflows"],
            &["check", "workflow", "deploy", "--no-headers"],
            &["get", "workflow", "deploy"],
            &["list", "serviceclasses", "-o", "json"],
            &["check", "serviceclass", "port-forward", "-o", "yaml"],
            &["create", "service", "db", "port-forward", "--namespace=lab", "--port", "1", "-q"],
            &["list", "services", "--no-headers"],
            &["stop", "service", "db"],
            &["create", "workflow", "empty"],
        ],
        expect![[r#"
            $ muster check workflow deploy
            PROPERTY        VALUE
            available       Unavailable
            name            deploy
            missing tools   x_github_greet
            servers         github (Stopped)
            stderr: hint: to start it: `muster start service github`
            exit 1
            $ muster start service github
            Successfully started service 'github'
            $ muster list workflows
            NAME     DESCRIPTION                         AVAILABLE
            broken   Greet nobody                        Available
            deploy   Greet the owner of an environment   Available
            $ muster check workflow deploy --no-headers
            available   Available
            name        deploy
            $ muster get workflow deploy
            PROPERTY      VALUE
            name          deploy
            description   Greet the owner of an environment
            available     Available

            Input Args:
            ARGUMENT      TYPE      DESCRIPTION     REQUIRED
            environment   string    Where it goes   Yes
            replicas      integer   (default: 1)    No

            Workflow Steps:
            STEP   ID      TOOL             DESCRIPTION   DETAILS
            1      greet   x_github_greet                 args.name: {{ .input.environment }}
            $ muster list serviceclasses -o json
            {"mode":"filesystem","serviceClasses":[{"name":"port-forward","version":"","description":"A greeting that stays","args":{"namespace":{"type":"string","required":true},"port":{"type":"integer","default":8080}},"serviceConfig":{"serviceType":"","defaultName":"","dependencies":null,"lifecycleTools":{"start":{"tool":"x_github_greet","args":{"name":"{{ .args.namespace }}"}},"stop":{"tool":"x_github_greet","args":{"name":"{{ .args.namespace }}"}}},"healthCheck":{"enabled":false,"interval":0,"failureThreshold":0,"successThreshold":0},"timeout":{"create":0,"delete":0,"healthCheck":0}},"available":true,"createToolAvailable":true,"deleteToolAvailable":true,"requiredTools":["x_github_greet"]}],"total":1}
            $ muster check serviceclass port-forward -o yaml
            available: true
            name: port-forward
            $ muster create service db port-forward --namespace=lab --port 1 -q
            PROPERTY           VALUE
            name               db
            serviceClassName   port-forward
            state              Running
            health             healthy
            serviceClassType   serviceclass
            args.namespace     lab
            args.port          1
            enabled            false
            createdAt          [TIME]Z
            updatedAt          [TIME]Z
            $ muster list services --no-headers
            db               healthy   Running   generic
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            $ muster stop service db
            Successfully stopped service 'db'
            $ muster create workflow empty
            stderr: Error: a workflow must have at least one step
            stderr:
            stderr: hint: add --step TOOL, or describe the workflow in a file: --filename FILE
            exit 1
        "#]],
    );
}

#[test]
fn runs_of_workflows() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    let refused = desk.run(&["start", "workflow", "deploy"]);
    assert!(refused.contains("required field 'environment' is missing"), "{refused}");
    assert!(refused.ends_with("exit 1\n"), "{refused}");
    let ran =
        desk.run(&["start", "workflow", "deploy", "environment=lab", "--replicas=2", "-o", "json"]);
    assert!(ran.contains("hello lab") && ran.contains("\"replicas\":2"), "{ran}");
    let ran = desk.run(&["start", "workflow", "deploy", "environment=lab"]);
    assert!(ran.contains("Step Results:") && ran.contains("hello lab"), "{ran}");
    let failed = desk.run(&["start", "workflow", "broken"]);
    assert!(failed.contains("stderr: Error: step `greet`: "), "{failed}");
    let id = failed.split("workflow-execution ").nth(1).unwrap().split('`').next().unwrap();
    let shown = desk.run(&["get", "workflow-execution", id]);
    assert!(shown.contains("Workflow Execution Failed") && shown.contains("greet "), "{shown}");
    let listed = desk.run(&["list", "workflow-executions", "--no-headers"]);
    assert!(listed.contains("deploy") && listed.contains("completed"), "{listed}");
}
