//! CLI definitions and policies in the configuration directory.

use std::sync::Arc;

use muster_core::call::CallError;
use muster_engine::cli_offer::BundledCli;
use serde_json::json;

use crate::{
    fake::Fake,
    rig::{REMOTE, Rig},
};

const SAY: &str = "
name: say
command: echo
tools:
  - {name: hello, description: says hello, command: hi, args: [{name: to, positional: true}]}
  - {name: bye, description: says bye, command: bye}
";

#[tokio::test(start_paused = true)]
async fn clis_join_the_catalog() {
    let rig = Rig::new(&[("clis/say.yaml", SAY), ("clis/bad.yaml", "x: 1\n")]);
    assert_eq!(rig.tools(), ["cli_bye", "cli_hello"]);
    rig.put("clis/more.yml", "command: ls\ntools: [{name: all, description: d, command: ''}]\n");
    rig.put(
        "clis/say.yaml",
        "command: echo\ntools: [{name: hello, description: d, command: hi}]\n",
    );
    rig.call("core_config_reload", json!({})).await;
    assert_eq!(rig.tools(), ["cli_all", "cli_hello"]);
}

#[tokio::test(start_paused = true)]
async fn policies_hold_for_every_tool() {
    let files = [
        ("clis/say.yaml", SAY),
        ("mcpservers/a.yaml", REMOTE),
        ("policies/a.yaml", "tools: {hello: {args: {to: {pattern: '[a-z]+'}}}}"),
        ("policies/b.yaml", "default: enabled\ntools: {core_service_list: {}}"),
    ];
    let rig = Rig::new(&files);
    rig.until_is("a", "connected").await;
    assert_eq!(rig.tools(), ["cli_hello"], "one file that disables is enough");
    let refused = rig.try_call("core_mcpserver_list", json!({})).await;
    assert!(matches!(refused, Err(CallError::UnknownTool { .. })), "{refused:?}");
    assert!(rig.call("core_service_list", json!({})).await.contains("mcp-aggregator"));
    let refused = rig.try_call("cli_hello", json!({"to": "B"})).await;
    assert!(matches!(refused, Err(CallError::PolicyViolation { .. })), "{refused:?}");
    rig.put("policies/a.yaml", "default: enabled");
    rig.until(|view| view.problems.is_empty()).await;
    while rig.tools().len() == 1 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(rig.tools(), ["cli_bye", "cli_hello", "x_a_echo"]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_limits_one_server_and_not_another() {
    let policy = "tools: {x_a_echo: {args: {message: {pattern: '[a-z]+'}}}}";
    let files =
        [("mcpservers/a.yaml", REMOTE), ("mcpservers/b.yaml", REMOTE), ("policies/a.yaml", policy)];
    let rig = Rig::new(&files);
    rig.until_is("a", "connected").await;
    rig.until_is("b", "connected").await;
    assert_eq!(rig.tools(), ["x_a_echo"]);
    let refused = rig.try_call("x_b_echo", json!({"message": "hi"})).await;
    assert!(matches!(refused, Err(CallError::UnknownTool { .. })), "{refused:?}");
    let refused = rig.try_call("x_a_echo", json!({"message": "HI"})).await;
    assert!(matches!(refused, Err(CallError::PolicyViolation { .. })), "{refused:?}");
    assert!(rig.try_call("x_a_echo", json!({"message": "hi"})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn bundled_clis_are_served_by_default() {
    let tools = |files: &[(&str, &str)]| Rig::bundling(bundled(), Fake::default(), files).tools();
    assert_eq!(tools(&[]), ["cli_look"], "only what reads, and only here");
    let setting = |text: &str| tools(&[("config.yaml", text)]);
    assert!(setting("clis: {bundled: none}").is_empty());
    assert_eq!(
        setting("clis: {bundled: all}"),
        ["cli_fetch", "cli_look", "cli_shout", "cli_write"]
    );
    assert_eq!(setting("clis: {enabled: [note]}"), ["cli_look", "cli_shout"]);
    assert_eq!(setting("clis: {bundled: all, disabled: [see]}"), ["cli_shout"]);
    assert_eq!(setting("clis: {enabled: [see], disabled: [see]}"), Vec::<String>::new());
    assert_eq!(setting("clis: {enabled: [missing]}"), ["cli_look"], "its program is not installed");
}

#[tokio::test(start_paused = true)]
async fn files_join_the_bundled_clis_or_replace_one() {
    let tools = |files: &[(&str, &str)]| Rig::bundling(bundled(), Fake::default(), files).tools();
    assert_eq!(tools(&[("clis/say.yaml", SAY)]), ["cli_bye", "cli_hello", "cli_look"]);
    assert_eq!(tools(&[("clis/see.yaml", SAY)]), ["cli_bye", "cli_hello"]);
    let look = SAY.replace("hello", "look");
    assert_eq!(tools(&[("clis/own.yaml", &look)]), ["cli_bye", "cli_look"]);
}

#[tokio::test(start_paused = true)]
async fn enabling_a_cli_takes_effect_at_once() {
    let rig = Rig::bundling(bundled(), Fake::default(), &[]);
    rig.put("config.yaml", "clis: {enabled: [note]}\n");
    rig.call("core_config_reload", json!({})).await;
    assert_eq!(rig.tools(), ["cli_look", "cli_shout"]);
}

/// A CLI with a tool of each kind, one that only writes, and one that is not installed.
fn bundled() -> Vec<BundledCli> {
    let cli = |name: &str, text: &str| BundledCli {
        name: name.into(),
        config: Arc::new(muster_config::cli::parse(text).unwrap().value),
    };
    let see = "command: echo\ntools:\n\
               - {name: look, description: d, effect: read}\n\
               - {name: fetch, description: d, effect: read, network: true}\n\
               - {name: write, description: d, effect: write}\n";
    // A tool that states nothing is not taken for a read, whatever its name.
    let note = "command: echo\ntools: [{name: shout, description: d}]\n";
    let missing =
        "command: no-such-program\ntools: [{name: ghost, description: d, effect: read}]\n";
    vec![cli("see", see), cli("note", note), cli("missing", missing)]
}

#[tokio::test(start_paused = true)]
async fn destructive_tools_are_blocked() {
    let fake = Fake::default();
    fake.plan("k8s", [crate::fake::Plan::Up(vec!["kubectl_delete", "kubectl_get"])]);
    let rig = Rig::with(fake, &[("mcpservers/k8s.yaml", REMOTE)]);
    rig.until_is("k8s", "connected").await;
    let blocked = rig.try_call("x_k8s_kubectl_delete", json!({})).await;
    assert!(matches!(blocked, Err(CallError::Destructive { .. })), "{blocked:?}");
    let status = rig.ask("core_service_status", json!({"name": "mcp-aggregator"})).await;
    let metadata = &status["metadata"];
    assert_eq!((&metadata["blocked_tools"], &metadata["tools"]), (&json!(1), &json!(2)));
    assert_eq!(metadata["yolo"], false);
}
