//! Checks that every file under `examples/` works with the real commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{
    client::Folder,
    docs::{check_yaml, root},
    serve::{Gateway, MUSTER},
};

fn examples() -> PathBuf {
    root().join("examples")
}

/// Every file below a folder whose name has this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|ext| ext == extension) {
            found.push(path);
        }
    }
    found
}

fn muster(words: &[&str], home: &Folder, endpoint: &str) -> Output {
    Command::new(MUSTER)
        .args(words)
        .env("HOME", home.path())
        .env("MUSTER_ENDPOINT", endpoint)
        .env_remove("MUSTER_CONTEXT")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn yaml_files_are_read_without_a_warning() {
    let files = files(&examples(), "yaml");
    assert!(files.len() >= 10, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        check_yaml(&text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    }
}

#[test]
fn client_configurations_are_well_formed() {
    let clients = examples().join("clients");
    for path in files(&clients, "json") {
        let text = fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let servers = value.get("mcpServers").or_else(|| value.get("servers")).unwrap();
        assert!(servers["muster"].is_object(), "{}", path.display());
    }
    for path in files(&clients, "toml") {
        let document: toml_edit::DocumentMut = fs::read_to_string(&path).unwrap().parse().unwrap();
        assert!(document["mcp_servers"]["muster"].is_table(), "{}", path.display());
    }
}

#[test]
fn climax_accepts_the_cli_and_the_policies() {
    let path = |name: &str| examples().join(name).display().to_string();
    let folder = Folder::new(&[]);
    for (config, policy) in [
        (path("gateway/clis/compose.yaml"), path("gateway/policies/main.yaml")),
        ("git".to_owned(), path("policies/git-in-a-container.yaml")),
    ] {
        let output = folder.climax(&["validate", &config, "--policy", &policy]);
        assert!(output.status.success() && !text(&output).contains('⚠'), "{}", text(&output));
    }
}

#[test]
fn the_scenario_passes() {
    let scenarios = examples().join("scenarios");
    let home = Folder::new(&[]);
    let words = ["test", "--config", scenarios.to_str().unwrap(), "--base-port", "23400"];
    let output = muster(&words, &home, "");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn the_gateway_serves_the_workflow_and_the_service_class() {
    let gateway = examples().join("gateway");
    // Without the servers, which need the network.
    let names: Vec<_> = ["clis", "policies", "workflows", "serviceclasses", "services"]
        .iter()
        .flat_map(|folder| files(&gateway.join(folder), "yaml"))
        .map(|path| {
            let name = path.strip_prefix(&gateway).unwrap().display().to_string();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    let named: Vec<(&str, &str)> = names.iter().map(|(name, text)| (&**name, &**text)).collect();
    let running = Gateway::start(&named, &[]);
    let endpoint = format!("http://localhost:{}/mcp", running.port);
    let home = Folder::new(&[]);
    for (kind, name) in [("workflow", "redeploy"), ("serviceclass", "stack")] {
        let output = muster(&["check", kind, name, "--output", "json"], &home, &endpoint);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["available"], true, "{}", text(&output));
    }
    let output = muster(&["list", "services", "--output", "json"], &home, &endpoint);
    assert!(text(&output).contains("shop"), "{}", text(&output));
}

#[test]
fn doctor_finds_nothing_wrong_with_the_files() {
    let gateway = examples().join("gateway");
    let home = Folder::new(&[]);
    let words = ["doctor", "--no-servers", "--output", "json", "--config-path"];
    let words = [&words[..], &[gateway.to_str().unwrap()]].concat();
    let output = muster(&words, &home, "http://localhost:9/mcp");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let broken: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["hop"] == "config" && finding["verdict"] != "good")
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}
