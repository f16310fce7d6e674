//! The commands that ask a running gateway: exit code, standard output and standard error of each,
//! through the real binary and a real `muster serve`.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use clap::CommandFactory as _;
use expect_test::{Expect, expect};
use serde_json::Value;

use super::{
    client::Folder,
    serve::{Gateway, MUSTER},
};

const MOCK: &str = "\
tools:
  - name: greet
    description: Greet somebody
    input_schema:
      type: object
      required: [name]
      properties:
        name: {type: string, description: Whom to greet}
        times: {type: integer, default: 1}
    responses:
      - response: {greeting: \"hello {{ .name }}\"}
";

const DEPLOY: &str = "\
name: deploy
description: Greet whom an environment belongs to
args:
  environment: {type: string, required: true, description: Where it goes}
  replicas: {type: integer, default: 1}
steps:
  - id: greet
    tool: x_github_greet
    args: {name: \"{{ .input.environment }}\"}
";

const FORWARD: &str = "\
name: port-forward
description: A greeting that stays
args:
  namespace: {type: string, required: true}
  port: {type: string}
serviceConfig:
  lifecycleTools:
    start: {tool: x_github_greet, args: {name: \"{{ .args.namespace }}\"}}
    stop: {tool: x_github_greet, args: {name: \"{{ .args.namespace }}\"}}
";

/// A gateway with a server behind it, and a user with a home.
struct Desk {
    gateway: Gateway,
    home: Folder,
}

impl Desk {
    fn new() -> Self {
        let home = Folder::new(&[("mock.yaml", MOCK)]);
        let mock = home.file("mock.yaml");
        let github = format!(
            "name: github\ntype: stdio\nautoStart: false\ncommand: {MUSTER}\nargs: [test, --mock-mcp-server, --mock-config, {}]\n",
            mock.display()
        );
        // A folder of CLIs, so that the bundled ones are not served.
        let files = [
            ("mcpservers/github.yaml", &*github),
            ("workflows/deploy.yaml", DEPLOY),
            ("serviceclasses/port-forward.yaml", FORWARD),
            ("clis/none.txt", ""),
        ];
        Self { gateway: Gateway::start(&files, &[]), home }
    }

    fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.gateway.port)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(MUSTER);
        command
            .env("HOME", self.home.path())
            .env("MUSTER_ENDPOINT", self.url())
            .env("TZ", "UTC")
            .env_remove("MUSTER_CONTEXT")
            .env_remove("MUSTER_AUTH_MODE")
            .env_remove("MUSTER_RELEASES_URL")
            .stdin(Stdio::null());
        command
    }

    /// A command and all that came of it.
    fn run(&self, words: &[&str]) -> String {
        let output = self.command().args(words).output().unwrap();
        let mut said = format!("$ muster {}\n", self.settled(words.join(" ").as_bytes()));
        said.push_str(&self.settled(&output.stdout));
        for line in self.settled(&output.stderr).lines() {
            writeln!(said, "{}", format!("stderr: {line}").trim_end()).unwrap();
        }
        match output.status.code() {
            Some(0) => (),
            code => writeln!(said, "exit {}", code.unwrap()).unwrap(),
        }
        said
    }

    /// What differs between two runs of the same is left out.
    fn settled(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes)
            .replace(&format!(":{}", self.gateway.port), ":[PORT]")
            .replace(&self.home.path().display().to_string(), "[HOME]")
            .replace(MUSTER, "[MUSTER]");
        let mut settled = String::new();
        for line in text.split_inclusive('\n') {
            settled.push_str(&without_times(line));
        }
        settled
    }

    #[track_caller]
    fn check(&self, commands: &[&[&str]], expect: Expect) {
        let said: String = commands.iter().map(|words| self.run(words)).collect();
        expect.assert_eq(&said);
    }
}

/// `2026-02-03 04:05:06` as `[TIME]`.
fn without_times(line: &str) -> String {
    const SHAPE: &[u8] = b"dddd-dd-ddtdd:dd:dd";
    let mut rest = line;
    let mut settled = String::new();
    while let Some(letter) = rest.chars().next() {
        let is_time = rest.as_bytes().get(..SHAPE.len()).is_some_and(|found| {
            found.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                b't' => matches!(byte, b' ' | b'T'),
                shape => byte == shape,
            })
        });
        let length = if is_time { SHAPE.len() } else { letter.len_utf8() };
        let (text, behind) = rest.split_at(length);
        settled.push_str(if is_time { "[TIME]" } else { text });
        rest = behind;
    }
    settled
}

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
            NAME     STATE     TYPE
            github   Stopped   stdio
            $ muster start service github
            Successfully started service 'github'
            $ muster start service github
            Service 'github' is already running
            $ muster list mcpserver --no-headers
            github   Running   stdio
            $ muster list services -o table
            NAME             HEALTH    STATE     SERVICE_TYPE
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            $ muster check mcpserver github
            PROPERTY       VALUE
            health         healthy
            metadata       stdio
            name           github
            service_type   MCPServer
            state          Running
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
            &["create", "service", "lonely"],
            &["create", "rocket", "x"],
            &["events", "--limit", "1", "--no-headers"],
            &["events", "--resource-type", "MCPSERVER", "--resource-name", "nobody", "-o", "json"],
        ],
        expect![[r#"
            $ muster create mcpserver files --type stdio --command mcp-files --args /srv, -x --env TOKEN=canary --timeout 3 --description Files
            MCP server 'files' created successfully
            $ muster get mcpserver files -o yaml
            args:
                - /srv
                - "-x"
            command: mcp-files
            description: Files
            env:
                TOKEN: "[REDACTED]"
            name: files
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
            $ muster create service lonely
            stderr: Error: service creation requires: muster create service <instance-name> <serviceclass-name> [--arg=value...]
            exit 1
            $ muster create rocket x
            stderr: Error: unknown resource type 'rocket'. Available types: serviceclass, workflow, service, mcpserver
            exit 1
            $ muster events --limit 1 --no-headers
            [TIME]   Normal   MCPServer   files   MCPServerCreated   MCPServer files was created
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
            NAME             DESCRIPTION      SERVER   ARGS
            x_github_greet   Greet somebody   x        -

            1 tool
            $ muster list tools --description greet SOME -o json
            [
              {
                "name": "x_github_greet",
                "description": "Greet somebody"
              }
            ]
            $ muster list tools --filter [
            No tools found
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
            stderr: Error: `Ada` is no argument
            stderr:
            stderr: hint: write arguments as key=value or --key=value
            exit 1
            $ muster call x_github_greet --json []
            stderr: Error: --json is no JSON object: it must be written in `{` and `}`
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
            NAME             DESCRIPTION
            x_github_greet   Greet somebody
            $ muster search greet --limit 1 --no-headers
            x_github_greet   Greet somebody
            $ muster search zzzz
            No tools found
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
            PROPERTY    VALUE
            available   Unavailable
            name        deploy
            $ muster start service github
            Successfully started service 'github'
            $ muster list workflows
            NAME     DESCRIPTION                            AVAILABLE
            deploy   Greet whom an environment belongs to   Available
            $ muster check workflow deploy --no-headers
            available   Available
            name        deploy
            $ muster get workflow deploy
            PROPERTY      VALUE
            name          deploy
            description   Greet whom an environment belongs to

            Input Args:
            ARGUMENT      TYPE      DESCRIPTION     REQUIRED
            environment   string    Where it goes   Yes
            replicas      integer   (default: 1)    No

            Workflow Steps:
            STEP   TOOL           DESCRIPTION
            1      github_greet   Execute greet
            $ muster list serviceclasses -o json
            {"mode":"filesystem","serviceClasses":[{"name":"port-forward","version":"","description":"A greeting that stays","args":{"namespace":{"type":"string","required":true},"port":{"type":"string"}},"serviceConfig":{"serviceType":"","defaultName":"","dependencies":null,"lifecycleTools":{"start":{"tool":"x_github_greet","args":{"name":"{{ .args.namespace }}"}},"stop":{"tool":"x_github_greet","args":{"name":"{{ .args.namespace }}"}}},"healthCheck":{"enabled":false,"interval":0,"failureThreshold":0,"successThreshold":0},"timeout":{"create":0,"delete":0,"healthCheck":0}},"available":true,"createToolAvailable":true,"deleteToolAvailable":true,"requiredTools":["x_github_greet"]}],"total":1}
            $ muster check serviceclass port-forward -o yaml
            available: true
            name: port-forward
            $ muster create service db port-forward --namespace=lab --port 1 -q
            PROPERTY           VALUE
            args               {2 fields}
            createdAt          [TIME]Z
            enabled            false
            health             healthy
            name               db
            serviceClassName   port-forward
            serviceClassType   serviceclass
            state              Running
            updatedAt          [TIME]Z
            $ muster list services --no-headers
            db               healthy   Running   generic
            github           healthy   Running   MCPServer
            mcp-aggregator   healthy   Running   Aggregator
            $ muster stop service db
            Successfully stopped service 'db'
            $ muster create workflow empty
            stderr: ❌ Command returned error
            stderr: Error: Tool execution failed: failed to create workflow: steps argument is required
            exit 1
        "#]],
    );
    let refused = desk.run(&["start", "workflow", "deploy"]);
    assert!(refused.contains("required field 'environment' is missing"), "{refused}");
    assert!(refused.ends_with("exit 1\n"), "{refused}");
    let ran =
        desk.run(&["start", "workflow", "deploy", "environment=lab", "--replicas=2", "-o", "json"]);
    assert!(ran.contains("hello lab") && ran.contains("\"replicas\":2"), "{ran}");
    let listed = desk.run(&["list", "workflow-executions", "--no-headers"]);
    assert!(listed.contains("deploy") && listed.contains("completed"), "{listed}");
}

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
            &["serve", "x"],
            &["context", "add", "lab"],
            &["context", "add", "--endpoint", "x"],
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
#[expect(clippy::too_many_lines, reason = "one conversation")]
fn contexts() {
    let desk = Desk::new();
    desk.check(
        &[
            &["context"],
            &["context", "list", "--quiet"],
            &["context", "current"],
            &["context", "add", "lab", "--endpoint", "http://localhost:1/mcp"],
            &["context", "add", "edge-prod", "--endpoint", "https://e.example/mcp", "--use"],
            &["context", "add", "lab", "--endpoint", "x"],
            &["context", "add", "Lab", "--endpoint", "x"],
            &["context", "ls"],
            &["context", "use", "lab"],
            &["context", "switch", "nowhere"],
            &["context", "current"],
            &["context", "show", "lab"],
            &["context", "get", "edge-prod", "-o", "json"],
            &["context", "describe", "lab", "-o", "yaml"],
            &["context", "show", "nowhere"],
            &["context", "update", "edge-prod", "--endpoint", "https://f.example/mcp"],
            &["context", "set", "nowhere", "--endpoint", "x"],
            &["context", "rename", "lab", "home"],
            &["context", "rename", "lab", "home-two"],
            &["context", "rename", "home", "edge-prod"],
            &["context", "delete", "home"],
            &["context", "rm", "home", "--force"],
            &["context", "remove", "nowhere"],
            &["context", "list"],
        ],
        expect![[r#"
            $ muster context
            No contexts configured yet.

            To add one, run:
              muster context add <name> --endpoint <url>

            A gateway on this machine is found without one.
            $ muster context list --quiet
            $ muster context current
            $ muster context add lab --endpoint http://localhost:1/mcp
            Context "lab" added.

            To use this context, run:
              muster context use lab
            $ muster context add edge-prod --endpoint https://e.example/mcp --use
            Context "edge-prod" added.
            Switched to context "edge-prod"
            $ muster context add lab --endpoint x
            stderr: Error: failed to add context: context "lab" already exists
            exit 1
            $ muster context add Lab --endpoint x
            stderr: Error: failed to add context: context name must contain only lowercase letters, numbers, and hyphens, and must start and end with an alphanumeric character
            exit 1
            $ muster context ls
            CURRENT  NAME       ENDPOINT
                     lab        http://localhost:1/mcp
            *        edge-prod  https://e.example/mcp
            $ muster context use lab
            Switched to context "lab"
            $ muster context switch nowhere
            stderr: Error: context "nowhere" not found. Use 'muster context list' to see available contexts
            exit 1
            $ muster context current
            lab
            $ muster context show lab
            Name:     lab
            Endpoint: http://localhost:1/mcp
            Current:  yes
            $ muster context get edge-prod -o json
            {
              "name": "edge-prod",
              "endpoint": "https://e.example/mcp",
              "current": false
            }
            $ muster context describe lab -o yaml
            current: true
            endpoint: http://localhost:1/mcp
            name: lab
            $ muster context show nowhere
            stderr: Error: context "nowhere" not found
            exit 1
            $ muster context update edge-prod --endpoint https://f.example/mcp
            Context "edge-prod" updated.
            $ muster context set nowhere --endpoint x
            stderr: Error: context "nowhere" not found. Use 'muster context add' to create a new context
            exit 1
            $ muster context rename lab home
            Context "lab" renamed to "home".
            $ muster context rename lab home-two
            stderr: Error: failed to rename context: context "lab" not found
            exit 1
            $ muster context rename home edge-prod
            stderr: Error: failed to rename context: context "edge-prod" already exists
            exit 1
            $ muster context delete home
            Delete context "home" (current context)? [y/N] Aborted.
            $ muster context rm home --force
            Context "home" deleted.
            Note: This was the current context. Current context is now unset.
            $ muster context remove nowhere
            stderr: Error: context "nowhere" not found
            exit 1
            $ muster context list
            CURRENT  NAME       ENDPOINT
                     edge-prod  https://f.example/mcp
        "#]],
    );
    let file = std::fs::read_to_string(desk.home.file(".config/muster/contexts.yaml")).unwrap();
    expect![[r#"
        current-context: ""
        contexts:
          - name: edge-prod
            endpoint: https://f.example/mcp
    "#]]
    .assert_eq(&file);
}

#[test]
fn the_gateway_that_is_meant() {
    let desk = Desk::new();
    let nowhere = "http://127.0.0.1:9/mcp";
    desk.run(&["context", "add", "here", "--endpoint", &desk.url()]);
    desk.run(&["context", "add", "nowhere", "--endpoint", nowhere, "--use"]);
    let up = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = desk.command();
        command.env_remove("MUSTER_ENDPOINT").args(["list", "services"]).args(words);
        command.envs(variables.iter().copied());
        command.output().unwrap().status.success()
    };
    assert!(!up(&[], &[]), "the current context is asked");
    assert!(up(&["--context", "here"], &[]));
    assert!(up(&[], &[("MUSTER_CONTEXT", "here")]));
    assert!(!up(&["--context", "nowhere"], &[("MUSTER_CONTEXT", "here")]));
    assert!(!up(&["--context", "unheard-of"], &[("MUSTER_CONTEXT", "here")]));
    assert!(up(&["--endpoint", &desk.url()], &[("MUSTER_CONTEXT", "nowhere")]));
    assert!(up(&["--context", "nowhere"], &[("MUSTER_ENDPOINT", &desk.url())]));
    desk.run(&["context", "delete", "nowhere", "--force"]);
    let config = format!("aggregator:\n  port: {}\n", desk.gateway.port);
    std::fs::write(desk.home.file(".config/muster/config.yaml"), config).unwrap();
    assert!(up(&[], &[]), "the configuration is asked");
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
        Current version: 0.1.0
        Checking for updates...
        Error: error detecting latest version: this build does not know where its releases are published

        hint: set MUSTER_RELEASES_URL, or update muster in the way it was installed
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
            $ muster auth status --endpoint http://localhost:[PORT]/mcp
            Muster Aggregator
              Endpoint:  http://localhost:[PORT]/mcp
              Status:    No authentication required
            $ muster auth login --endpoint http://localhost:[PORT]/mcp
            $ muster auth login --server nobody --endpoint http://localhost:[PORT]/mcp
            stderr: Error: server 'nobody' not found. Use 'muster auth status' to see available servers
            exit 1
        "#]],
    );
}

#[test]
fn events_as_they_happen() {
    let desk = Desk::new();
    let mut child = desk
        .command()
        .args(["events", "--follow", "--resource-name", "github"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "--- Following new events ---"));
    desk.run(&["start", "service", "github"]);
    assert!(lines.any(|line| line.contains("MCPServerStarting")));
    interrupt(child);
}

#[test]
fn each_event_is_a_document_for_programs() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    let words = ["events", "--follow", "--output", "json", "--resource-name", "github"];
    let mut child =
        desk.command().args(words).args(["--limit", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(first.as_array().map(Vec::len), Some(1), "{first}");
    let calls = || {
        let top = desk.command().args(["top", "--once", "--output", "json"]).output().unwrap();
        let top: Value = serde_json::from_slice(&top.stdout).unwrap();
        let all = top["backends"].as_array().unwrap();
        let own = all.iter().find(|row| row["name"] == "core").unwrap_or_else(|| panic!("{top}"));
        own["calls"].as_u64().unwrap()
    };
    let before = calls();
    desk.run(&["stop", "service", "github"]);
    let event = lines.find(|line| line.contains("Stopp")).unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(event["resource_name"], "github", "{event}");
    // It was told, not asked for: only what this test asked was asked.
    assert_eq!(calls() - before, 2);
    interrupt(child);
}

/// Ends a command as a person does; that is no error.
fn interrupt(mut child: Child) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn live_names_are_completed() {
    let desk = Desk::new();
    let complete = |words: &[&str]| {
        let output = desk
            .command()
            .env("MUSTER_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_IFS", " ")
            .args(["--", "muster"])
            .args(words)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete(&["get", "mcps"]), "mcpserver");
    assert_eq!(complete(&["get", "mcpserver", "GIT"]), "github");
    assert_eq!(complete(&["start", "service", "mcp"]), "mcp-aggregator");
    assert_eq!(complete(&["call", "core_even"]), "core_events");
    assert_eq!(complete(&["call", "core_events", "resourceT"]), "resourceType=");
    assert_eq!(complete(&["list", "workflow-executions"]), "workflow-executions");
    desk.run(&["context", "add", "lab", "--endpoint", "x"]);
    assert_eq!(complete(&["context", "use", "l"]), "lab");
    assert_eq!(complete(&["list", "tools", "--context", "l"]), "lab");
    let nobody =
        complete(&["--quiet", "get", "service", "x", "--endpoint", "http://127.0.0.1:9/mcp"]);
    assert!(!nobody.contains("error"), "{nobody}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(desk.run(&["completion", shell]).contains("MUSTER_COMPLETE"), "{shell}");
    }
}

/// What cannot work in a test, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("muster serve", "goes on until it is stopped"),
    ("muster test", "needs scenarios"),
    ("muster events --follow", "goes on until it is stopped"),
    ("muster self-update", "needs a network"),
    ("muster auth login", "needs a gateway that wants logins"),
    ("muster agent", "goes on until it is stopped"),
    ("muster standalone", "goes on until it is stopped"),
    ("muster top", "goes on until it is stopped"),
    ("muster import", "reads what other programs have"),
    ("muster connect", "writes what other programs read"),
    ("muster doctor", "ends with what is wrong on the machine"),
    ("muster completion", "writes to places of the system"),
];

#[test]
fn every_example_of_the_help_works() {
    let desk = Desk::new();
    desk.run(&["context", "add", "lab", "--endpoint", &desk.url(), "--use"]);
    desk.run(&["start", "service", "github"]);
    let mut seen = 0;
    for example in examples(&muster::cli::Cli::command()) {
        let words = words(&example);
        let parsed = muster::cli::Cli::command().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        seen += 1;
        if ELSEWHERE.iter().any(|(begin, _)| example.starts_with(begin)) {
            continue;
        }
        if example.starts_with("muster create service") {
            desk.run(&["call", "core_service_delete", "name=db-forward"]);
        }
        if example.starts_with("muster context add lab") {
            desk.run(&["context", "delete", "lab", "--force"]);
        }
        if example.starts_with("muster create mcpserver") {
            desk.run(&["call", "core_mcpserver_delete", "name=files"]);
            desk.run(&["call", "core_mcpserver_delete", "name=search"]);
        }
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let said = desk.run(&words);
        assert!(!said.contains("\nexit "), "{said}");
    }
    assert!(seen > 30, "only {seen} examples were found");
}

/// The lines below `Examples:` of a command and of all below it.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (_, lines) = help.split_once("Examples:\n").unwrap_or_default();
    let mut found: Vec<String> = lines
        .lines()
        .map(|line| line.trim().split("   ").next().unwrap().to_owned())
        .filter(|line| line.starts_with("muster ") && !line.contains("DIR"))
        .map(|line| line.split(" > ").next().unwrap().to_owned())
        .collect();
    found.retain(|line| !line.contains("WORDS") && !line.contains("TOOL"));
    found.extend(command.get_subcommands().flat_map(examples));
    found
}

/// The words of a line, as a shell takes them: quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

#[test]
fn a_question_is_answered_on_standard_input() {
    let desk = Desk::new();
    desk.run(&["context", "add", "lab", "--endpoint", "x", "--use"]);
    let answer = |line: &str| {
        let mut child = desk
            .command()
            .args(["context", "delete", "lab"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    expect![[r#"Delete context "lab" (current context)? [y/N] Aborted.
"#]]
    .assert_eq(&answer("n\n"));
    expect![[r#"
        Delete context "lab" (current context)? [y/N] Context "lab" deleted.
        Note: This was the current context. Current context is now unset.
    "#]]
    .assert_eq(&answer("yes\n"));
}
