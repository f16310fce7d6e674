//! Gateways under names, and which of them is meant.

use std::{io::Write as _, process::Stdio};

use expect_test::expect;

use super::desk::Desk;

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
            &["context", "add", "lab", "--endpoint", "http://x/mcp"],
            &["context", "add", "Lab", "--endpoint", "http://x/mcp"],
            &["context", "ls"],
            &["context", "use", "lab"],
            &["context", "switch", "nowhere"],
            &["context", "current"],
            &["context", "show", "lab"],
            &["context", "get", "edge-prod", "-o", "json"],
            &["context", "describe", "lab", "-o", "yaml"],
            &["context", "show", "lab", "--output", "xml"],
            &["context", "show", "nowhere"],
            &["context", "update", "edge-prod", "--endpoint", "https://f.example/mcp"],
            &["context", "set", "nowhere", "--endpoint", "http://x/mcp"],
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
            $ muster context add lab --endpoint http://x/mcp
            stderr: Error: failed to add context: context "lab" already exists
            exit 1
            $ muster context add Lab --endpoint http://x/mcp
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
            $ muster context show lab --output xml
            stderr: Error: unsupported output format: "xml" (valid: text, json, yaml)
            exit 1
            $ muster context show nowhere
            stderr: Error: context "nowhere" not found
            exit 1
            $ muster context update edge-prod --endpoint https://f.example/mcp
            Context "edge-prod" updated.
            $ muster context set nowhere --endpoint http://x/mcp
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
fn a_question_is_answered_on_standard_input() {
    let desk = Desk::new();
    desk.run(&["context", "add", "lab", "--endpoint", "http://x/mcp", "--use"]);
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
