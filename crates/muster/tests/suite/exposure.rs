//! What an agent can call on a gateway that nobody has configured.

use std::{collections::BTreeSet, process::Command};

use muster_core::cli::CliTool;
use serde_json::{Value, json};

use super::{client::Folder, serve::Gateway};

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");
const BARE: (&str, &str) = ("config.yaml", "aggregator: {port: 0} # mine\n");

/// The names of all CLI tools that can be found.
fn cli_tools(gateway: &Gateway) -> BTreeSet<String> {
    let session = gateway.session();
    let mut names = BTreeSet::new();
    for (_, text) in muster::bundled::CONFIGS {
        for tool in muster_config::cli::parse(text).unwrap().value.tools {
            let name = format!("cli_{}", tool.name);
            let found = gateway.ask(
                &session,
                "tools/call",
                json!({"name": "describe_tool", "arguments": {"name": name}}),
            );
            if found["result"]["isError"] != json!(true) {
                names.insert(name);
            }
        }
    }
    names
}

fn definition(name: &str) -> CliTool {
    let local = name.strip_prefix("cli_").unwrap();
    let configs = muster::bundled::CONFIGS.iter();
    let mut tools =
        configs.flat_map(|(_, text)| muster_config::cli::parse(text).unwrap().value.tools);
    tools.find(|tool| tool.name == local).unwrap()
}

#[test]
fn an_unconfigured_gateway_only_reads_and_only_here() {
    let gateway = Gateway::start(&[BARE], &[]);
    let session = gateway.session();
    let offered = cli_tools(&gateway);
    assert!(
        offered.contains("cli_git_status") && offered.contains("cli_files_head"),
        "{offered:?}"
    );
    for name in &offered {
        assert!(definition(name).is_local_read(), "{name} is offered by default");
    }
    for name in ["cli_python_run_code", "cli_git_commit", "cli_curl_get", "cli_make_dry_run"] {
        assert!(!offered.contains(name), "{name}");
        let refused = gateway.call_tool(&session, name, json!({"code": "1"}));
        assert_eq!(refused["isError"], true, "{refused}");
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("not found"), "{text}");
        let cli = name.split('_').nth(1).unwrap();
        // Without the program, switching its CLI on would not help.
        let is_installed = Command::new(cli).arg("--version").output().is_ok();
        let hint = format!("an operator can enable it with `muster enable cli {cli}`");
        assert_eq!(text.contains(&hint), is_installed, "{text}");
    }
}

/// What agents may do besides reading: their own logins at servers.
const NOT_READING: [&str; 2] = ["core_auth_login", "core_auth_logout"];

#[test]
fn an_agent_of_an_empty_folder_only_reads() {
    let gateway = Gateway::start_private(&[BARE], &[]);
    let session = gateway.session();
    let ask = |tool: &str, arguments: Value| {
        gateway.ask(&session, "tools/call", json!({"name": tool, "arguments": arguments}))["result"]
            .clone()
    };
    let mut names = Vec::new();
    loop {
        let page = ask("list_tools", json!({"limit": 50, "offset": names.len()}));
        let text = page["content"][0]["text"].as_str().unwrap();
        let page: Value = serde_json::from_str(text).unwrap();
        let tools = page["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        if tools.is_empty() || names.len() as u64 >= page["total"].as_u64().unwrap() {
            break;
        }
    }
    let core = ask("list_core_tools", json!({"include_schema": false}));
    let core: Value = serde_json::from_str(core["content"][0]["text"].as_str().unwrap()).unwrap();
    let core = core["tools"].as_array().unwrap().iter();
    names.extend(core.map(|tool| tool["name"].as_str().unwrap().to_owned()));
    assert!(names.iter().any(|name| name == "cli_files_head"), "{names:?}");
    assert!(names.iter().any(|name| name == "core_mcpserver_list"), "{names:?}");
    for name in &names {
        let said = ask("describe_tool", json!({"name": name})).to_string();
        let effect = said.split_once(r#"\"effect\":\""#).unwrap_or_else(|| panic!("{said}")).1;
        let effect = effect.split('\\').next().unwrap();
        assert!(effect == "read" || NOT_READING.contains(&&**name), "{name}: {effect}");
    }
    // Whatever is not listed cannot be called either, on any path.
    let bundled = muster::bundled::CONFIGS.iter();
    let bundled =
        bundled.flat_map(|(_, text)| muster_config::cli::parse(text).unwrap().value.tools);
    let hidden =
        bundled.filter(|tool| !tool.is_local_read()).map(|tool| format!("cli_{}", tool.name));
    let mut refused = 0;
    for name in hidden.chain(["core_mcpserver_create", "core_workflow_create"].map(str::to_owned)) {
        let said = gateway.call_tool(&session, &name, json!({})).to_string();
        assert!(said.contains("not found"), "{name}: {said}");
        for (tool, arguments) in [
            ("call_tools", json!({"calls": [{"name": name}]})),
            ("run_steps", json!({"steps": [{"id": "a", "tool": name}]})),
        ] {
            let said = ask(tool, arguments).to_string();
            let texts = ["not found", "there is no tool", "cannot be called: it is switched off"];
            assert!(texts.iter().any(|text| said.contains(text)), "{tool} {name}: {said}");
        }
        refused += 1;
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn tools_that_write_are_switched_on_by_name() {
    let gateway = Gateway::start(&[BARE], &[]);
    let muster = |words: &[&str]| {
        let output = Command::new(MUSTER)
            .args(words)
            .arg("--config-path")
            .arg(gateway.folder.path())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let offers = |name: &str| {
        let session = gateway.session();
        gateway.call_tool(&session, "core_config_reload", json!({}));
        cli_tools(&gateway).contains(name)
    };
    let config = || std::fs::read_to_string(gateway.folder.file("config.yaml")).unwrap();
    assert!(!offers("cli_git_commit"));
    assert!(muster(&["enable", "cli", "git"]).0);
    assert_eq!(config(), format!("{}clis:\n  enabled: [git]\n", BARE.1));
    assert!(offers("cli_git_commit") && !offers("cli_python_run_code"));
    assert!(muster(&["enable", "cli", "git"]).1.contains("already"));
    assert!(muster(&["disable", "cli", "git"]).0);
    assert!(!offers("cli_git_status") && offers("cli_files_head"));
    for (wrong, meant) in [("gti", "git"), ("ghx", "gh")] {
        let (succeeded, said) = muster(&["enable", "cli", wrong]);
        assert!(!succeeded && said.contains(&format!("hint: did you mean `{meant}`?")), "{said}");
        std::fs::write(gateway.folder.file("config.yaml"), format!("clis: {{enabled: [{wrong}]}}"))
            .unwrap();
        let (succeeded, said) = muster(&["doctor", "--no-servers"]);
        let found = format!("`clis.enabled` names `{wrong}`, and there is no such bundled CLI");
        assert!(!succeeded && said.contains(&found), "{said}");
        assert!(said.contains(&format!("did you mean `{meant}`?")), "{said}");
    }
}

#[test]
fn a_bundled_config_can_be_printed() {
    let folder = Folder::new(&[]);
    let shown = folder.climax(&["show", "git"]);
    assert_eq!(shown.stdout, muster::bundled::config("git").unwrap().as_bytes());
    let unknown = folder.climax(&["show", "nope"]);
    assert!(!unknown.status.success());
    let said: Value = json!(String::from_utf8(unknown.stderr).unwrap());
    assert!(said.as_str().unwrap().contains("climax list"), "{said}");
}
