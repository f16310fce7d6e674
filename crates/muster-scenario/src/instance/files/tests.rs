//! The generated configuration files.

use std::{collections::BTreeMap, path::Path};

use expect_test::{Expect, expect};

use super::{FileContext, plan};
use crate::{load, oauth::Providers};

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "this is how snapshots are written")]
fn check(before: &str, expect: Expect) {
    let head = "name: n\ncategory: behavioral\nconcept: c\nsteps: [{id: a, tool: b}]\n";
    let loaded = load::parse(Path::new("n.yaml"), &format!("{head}pre_configuration:\n{before}"));
    let scenario = loaded.scenario.unwrap_or_else(|| panic!("{:?}", loaded.problems));
    let providers = Providers::default();
    let context = FileContext {
        dir: Path::new("/i"),
        muster: Path::new("/bin/muster"),
        port: 18_000,
        control: 4000,
        urls: BTreeMap::from([("far".to_owned(), "http://localhost:1/sse".to_owned())]),
        trusted_issuers: &[],
        providers: &providers,
    };
    let files = plan(&scenario.setup, &context).unwrap();
    let shown: String =
        files.iter().map(|file| format!("== {}\n{}", file.path.display(), file.text)).collect();
    expect.assert_eq(&shown);
}

#[test]
fn servers() {
    check(
        r#"
  mcp_servers:
    - name: near
      config:
        toolPrefix: n
        fault: {kind: half, times: 1}
        tools: [{name: t, responses: [{response: "{{ a }}"}]}]
    - name: far
      config: {type: sse, tools: [{name: t}]}
    - name: plain
      config: {type: stdio, command: echo, autoStart: false}
"#,
        expect![[r#"
            == /i/muster/config.yaml
            aggregator:
              host: localhost
              port: 18000
              transport: streamable-http
            clis:
              bundled: none
            == /i/mocks/near.yaml
            tools:
              - name: t
                responses:
                  - response: "{{ a }}"
                show_schema: true
            control: 4000
            fault:
              kind: half
              times: 1
            == /i/muster/mcpservers/near.yaml
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: MCPServer
            metadata:
              name: near
              namespace: default
            spec:
              type: stdio
              autoStart: true
              command: /bin/muster
              args:
                - test
                - "--mock-mcp-server"
                - "--mock-config"
                - /i/mocks/near.yaml
              toolPrefix: n
            == /i/muster/mcpservers/far.yaml
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: MCPServer
            metadata:
              name: far
              namespace: default
            spec:
              type: sse
              autoStart: true
              url: http://localhost:1/sse
            == /i/muster/mcpservers/plain.yaml
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: MCPServer
            metadata:
              name: plain
              namespace: default
            spec:
              type: stdio
              command: echo
              autoStart: false
        "#]],
    );
}

#[test]
fn the_main_config_and_other_files() {
    check(
        r#"
  main_config:
    config:
      aggregator: {musterPrefix: m, port: 5}
      namespace: other
  files:
    cli/echo.yaml: "name: echo\n"
    ../../up: text
"#,
        expect![[r#"
            == /i/muster/config.yaml
            aggregator:
              musterPrefix: m
              port: 18000
              host: localhost
              transport: streamable-http
            clis:
              bundled: none
            namespace: other
            == /i/muster/cli/echo.yaml
            name: echo
            == /i/muster/up
            text"#]],
    );
}

#[test]
fn objects() {
    check(
        r#"
  workflows:
    - name: w
      config: {name: w, steps: [{id: s, tool: core_config_get, allowFailure: yes}]}
  service_classes:
    - name: c
      args: {port: {type: integer, default: 80}}
      serviceConfig:
        lifecycleTools:
          start: {tool: t, args: {b: "x", a: {y: 1}}}
"#,
        expect![[r#"
            == /i/muster/config.yaml
            aggregator:
              host: localhost
              port: 18000
              transport: streamable-http
            clis:
              bundled: none
            == /i/muster/workflows/w.yaml
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: Workflow
            metadata:
              name: w
              namespace: default
            spec:
              steps:
                - id: s
                  tool: core_config_get
                  allowFailure: "yes"
            == /i/muster/serviceclasses/c.yaml
            apiVersion: muster.giantswarm.io/v1alpha1
            kind: ServiceClass
            metadata:
              name: c
              namespace: default
            spec:
              args:
                port:
                  type: integer
                  default:
                    raw:
                      - 56
                      - 48
              serviceConfig:
                lifecycleTools:
                  start:
                    tool: t
                    args:
                      b:
                        raw:
                          - 34
                          - 120
                          - 34
                      a:
                        raw:
                          - 123
                          - 34
                          - 121
                          - 34
                          - 58
                          - 49
                          - 125
        "#]],
    );
}
