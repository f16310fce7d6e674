//! Files of MCP servers, good and bad, and back to text.

use expect_test::{Expect, expect};
use muster_core::connect::Endpoint;
use proptest::prelude::*;

use super::{
    McpServer, McpServerSpec, McpServerStatus, ServerType, parse, text, with_spec, with_status,
};
use crate::{LoadError, Problem};

fn report(file: &str) -> String {
    match parse(file, "demo") {
        Ok(loaded) => {
            let warnings = loaded.warnings.iter();
            let warnings: String =
                warnings.map(|warning| format!("{}: {warning}\n", warning.line)).collect();
            warnings + &text(&loaded.value)
        }
        Err(LoadError::Fields(problems)) => {
            let fix = |fix: &Option<String>| {
                fix.iter().map(|fix| format!(" ({fix})")).collect::<String>()
            };
            let line =
                |problem: &Problem| format!("{}: {problem}{}\n", problem.line, fix(&problem.fix));
            problems.iter().map(line).collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check(file: &str, expect: Expect) {
    expect.assert_eq(&report(file));
}

#[track_caller]
fn refused(file: &str, problem: &str) {
    assert_eq!(report(file), format!("{problem}\n"));
}

const FULL: &str = "\
apiVersion: muster.giantswarm.io/v1alpha1
kind: MCPServer
metadata:
  name: github
  namespace: tools
  labels:
    team: a
spec:
  type: streamable-http
  autoStart: true
  toolPrefix: gh
  description: 'repositories: all of them'
  url: https://host/mcp
  headers: {X-Key: v, X-Number: 010}
  timeout: 45
  family: {name: git, instanceArg: host}
  auth:
    type: oauth
    forwardToken: true
    requiredAudiences: [dex-k8s-authenticator]
    authorizationServer: {issuer: https://auth.example, scopes: read write}
    tokenExchange:
      enabled: true
      dexTokenEndpoint: https://dex.b.example/token
      expectedIssuer: https://dex.b.example
      connectorId: cluster-a-dex
      scopes: openid profile
      clientCredentialsSecretRef: {name: creds, clientIdKey: id}
    teleport: {identityDir: /var/run/tbot, appName: k8s}
status:
  state: Connected
  lastConnected: 2026-02-04T10:00:00Z
  restartCount: 2
  nextRetryAfter: null
  conditions: []
";

#[test]
fn every_field_survives() {
    check(
        FULL,
        expect![[r#"
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: MCPServer
            metadata:
              name: github
              namespace: tools
              labels:
                team: a
            spec:
              type: streamable-http
              autoStart: true
              toolPrefix: gh
              description: "repositories: all of them"
              family:
                name: git
                instanceArg: host
              url: https://host/mcp
              headers:
                X-Key: v
                X-Number: "010"
              timeout: 45
              auth:
                type: oauth
                forwardToken: true
                requiredAudiences:
                  - dex-k8s-authenticator
                authorizationServer:
                  issuer: https://auth.example
                  scopes: read write
                tokenExchange:
                  enabled: true
                  dexTokenEndpoint: https://dex.b.example/token
                  expectedIssuer: https://dex.b.example
                  connectorId: cluster-a-dex
                  scopes: openid profile
                  clientCredentialsSecretRef:
                    name: creds
                    clientIdKey: id
                teleport:
                  identityDir: /var/run/tbot
                  appName: k8s
            status:
              state: Connected
              lastConnected: "2026-02-04T10:00:00Z"
              restartCount: 2
        "#]],
    );
    let server = parse(FULL, "x").unwrap().value;
    assert_eq!(parse(&text(&server), "x").unwrap().value, server);
    assert_eq!(server.prefix(), "gh");
    assert_eq!(server.spec.connect_timeout().as_secs(), 45);
}

#[test]
fn three_lines_are_enough() {
    check(
        "command: npx\nargs: [-y, server-everything, --port, 8080, yes]\nenv: {A: 1}\n",
        expect![[r#"
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: MCPServer
            metadata:
              name: demo
              namespace: default
            spec:
              type: stdio
              autoStart: true
              command: npx
              args:
                - "-y"
                - server-everything
                - "--port"
                - "8080"
                - "yes"
              env:
                A: "1"
        "#]],
    );
    let server = parse("url: http://h/mcp\n", "demo").unwrap().value;
    assert_eq!(server.spec.kind, ServerType::StreamableHttp);
    assert_eq!(
        server.spec.endpoint(),
        Endpoint::Http { url: "http://h/mcp".to_owned(), headers: Vec::new() }
    );
    let server = parse("spec:\n  url: http://h/mcp\n", "demo").unwrap().value;
    assert!(!server.spec.auto_start);
    let server = parse("name: other\nurl: http://h/sse\ntype: sse\n", "demo").unwrap().value;
    assert_eq!((server.name.as_str(), server.spec.kind), ("other", ServerType::Sse));
}

#[test]
fn what_is_wrong_is_said() {
    refused("- 1\n", "the file must hold a mapping, not list");
    refused("kind: MCPServer\n", "1: spec: Field required (add `spec: …`)");
    refused(
        "kind: Workflow\nspec: {type: stdio, command: x}\n",
        "1: kind: Input should be 'MCPServer' (write `kind: MCPServer`)",
    );
    refused("spec: {}\n", "1: spec: type is required (add `command: …` or `url: …`)");
    refused(
        "spec:\n  type: stdio\n",
        "2: spec: command is required for stdio type (add `command: …`)",
    );
    refused(
        "spec:\n  type: sse\n  command: x\n",
        "2: spec: url is required for streamable-http and sse types (add `url: …`)",
    );
    refused(
        "spec:\n  type: ftp\n  url: x\n",
        "2: spec: unsupported MCP server type: ftp (supported: stdio, streamable-http, sse)",
    );
    refused(
        "command: x\nauth: {type: oauth}\n",
        "1: auth configuration is only supported for remote server types (streamable-http or sse)",
    );
    refused(
        "url: x\nauth: {type: teleport}\n",
        "1: teleport auth requires either identityDir or identitySecretName",
    );
    refused(
        "url: x\nauth: {type: teleport, teleport: {identityDir: a, identitySecretName: b}}\n",
        "1: teleport auth: identityDir and identitySecretName are mutually exclusive",
    );
    check(
        "url: x\ntimeout: 1.5\nargs: x\ncomand: y\n",
        expect![[r#"
            3: args: Input should be a valid list (write a list: `[x]`)
            2: timeout: Input should be a whole number (write a whole number)
        "#]],
    );
    refused("name: a/b\nurl: x\n", "1: invalid name 'a/b': it must not hold `/` or `\\`");
    refused("name: core\nurl: x\n", "1: invalid name 'core': the gateway uses it itself");
    refused(
        "url: x\ntoolPrefix: a b\n",
        "1: invalid toolPrefix 'a b': it must begin with a letter and hold only letters, digits, `_` and `-`",
    );
}

#[test]
fn what_is_misspelled_is_named() {
    check(
        "type: stdio\ncomand: npx\n",
        expect![[r#"
        1: command is required for stdio type (line 2 has `comand`: write `command`)
    "#]],
    );
    check(
        "comand: npx\n",
        expect![[r#"
        1: type is required (line 1 has `comand`: write `command`)
    "#]],
    );
    check(
        "tpye: stdio\n",
        expect![[r#"
        1: type is required (line 1 has `tpye`: write `type`)
    "#]],
    );
    check(
        "type: sse\nuri: http://h/sse\n",
        expect![[r#"
        1: url is required for streamable-http and sse types (line 2 has `uri`: write `url`)
    "#]],
    );
    check(
        "type: http\nurl: http://h/mcp\n",
        expect![[r#"
        1: unsupported MCP server type: http (supported: stdio, streamable-http, sse) (write `type: streamable-http`)
    "#]],
    );
    check(
        "type: stdoi\ncommand: x\n",
        expect![[r#"
        1: unsupported MCP server type: stdoi (supported: stdio, streamable-http, sse) (write `type: stdio`)
    "#]],
    );
    check(
        "{}\n",
        expect![[r#"
        1: type is required (add `command: …` or `url: …`)
    "#]],
    );
    check(
        "kind: MCPServer\ncommand: npx\n",
        expect![[r#"
        1: kind: unknown field
        apiVersion: muster.giantswarm.io/v1alpha1
        kind: MCPServer
        metadata:
          name: demo
          namespace: default
        spec:
          type: stdio
          autoStart: true
          command: npx
    "#]],
    );
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check_status(file: &str, expect: Expect) {
    let status = McpServerStatus {
        state: "Failed".to_owned(),
        restart_count: 1,
        ..McpServerStatus::default()
    };
    let written = with_status(file, &status).unwrap_or_else(|| "none\n".to_owned());
    expect.assert_eq(&written);
    if written != "none\n" {
        assert_eq!(with_status(&written, &status).unwrap(), written, "it settles");
    }
}

#[test]
fn only_the_status_changes() {
    check_status(
        "# mine\nurl: x # here\n",
        expect![[r#"
        # mine
        url: x # here
        status:
          state: Failed
          restartCount: 1
    "#]],
    );
    check_status(
        "status:\n  state: Running\n  # old\n  lastError: |\n    a\n\n    b\n\n# about the spec\nspec:\n  command: x",
        expect![[r#"
            status:
              state: Failed
              restartCount: 1

            # about the spec
            spec:
              command: x"#]],
    );
    check_status(
        "url: x\nstatus: {state: A}\n# end\n",
        expect![[r#"
        url: x
        status:
          state: Failed
          restartCount: 1
        # end
    "#]],
    );
    check_status(
        "{url: x}\n",
        expect![[r#"
        none
    "#]],
    );
    check_status(
        "url: x\n...\n",
        expect![[r#"
        none
    "#]],
    );
    check_status(
        "url: [\n",
        expect![[r#"
        none
    "#]],
    );
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check_spec(file: &str, change: impl Fn(&mut McpServerSpec), expect: Expect) {
    let mut server = parse(file, "n").unwrap().value;
    change(&mut server.spec);
    let written = with_spec(file, &server).unwrap_or_else(|| "none\n".to_owned());
    expect.assert_eq(&written);
}

#[test]
fn only_changed_fields_are_written() {
    let change = |spec: &mut McpServerSpec| {
        spec.args = vec!["-y".to_owned(), "b".to_owned()];
        spec.description = "new".to_owned();
        spec.timeout = 0;
    };
    check_spec(
        "# mine\ncommand: npx # from node\nargs:\n  - a\n  # last\n\n# slow\ntimeout: 90\n# the end\n",
        change,
        expect![[r#"
            # mine
            command: npx # from node
            args:
              - "-y"
              - b
              # last

            # slow
            # the end
            description: new
        "#]],
    );
    check_spec(
        "kind: MCPServer\nspec:\n  # which\n  command: npx\n  type: stdio # local\n  timeout: 90\n\n# about it\nmetadata: {name: n}\n",
        change,
        expect![[r#"
            kind: MCPServer
            spec:
              # which
              command: npx
              type: stdio # local
              description: new
              args:
                - "-y"
                - b

            # about it
            metadata: {name: n}
        "#]],
    );
    check_spec(
        "{command: npx}\n",
        change,
        expect![[r#"
        none
    "#]],
    );
    check_spec(
        "spec: {command: npx}\n",
        change,
        expect![[r#"
        none
    "#]],
    );
}

#[test]
fn words_alone_need_no_restart() {
    let spec = McpServerSpec { url: "a".to_owned(), ..McpServerSpec::of(ServerType::Sse) };
    let other = McpServerSpec { description: "new".to_owned(), auto_start: true, ..spec.clone() };
    assert!(!spec.needs_restart(&other));
    let other = McpServerSpec { tool_prefix: "p".to_owned(), ..spec.clone() };
    assert!(spec.needs_restart(&other));
    let server = McpServer::new("n", "default", spec);
    assert_eq!(server.prefix(), "n");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n]{0,60}|(url|status|spec|aggregator|port): [ -~\n]{0,30}") {
        drop(parse(&text, "x"));
        drop(with_status(&text, &McpServerStatus::default()));
        drop(with_spec(&text, &McpServer::new("x", "default", McpServerSpec::default())));
    }
}

#[test]
fn a_key_that_is_written_twice_is_an_error() {
    let text = "name: a\ncommand: x\nenv: {A: '1'}\ncommand: y\n";
    let LoadError::Fields(problems) = parse(text, "f").unwrap_err() else { panic!("fields") };
    let said: Vec<String> =
        problems.iter().map(|problem| format!("{}: {problem}", problem.line)).collect();
    assert_eq!(said, ["4: command: `command` is written twice: line 2 has no effect"]);
    assert_eq!(problems[0].fix.as_deref(), Some("remove one of them"));
    let error = parse("name: a\ncommand: x\n---\nname: b\ncommand: y\n", "f").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3, column 1: a second document starts here: write one document per file, or give the file to `muster apply -f`"
    );
}
