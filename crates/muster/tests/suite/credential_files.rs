//! No bundled tool opens a file that holds credentials.

use std::{
    fs,
    io::{Write as _, stderr},
    os::unix::fs::symlink,
    process::Command,
};

use muster_core::cli::{CredentialFiles, Param, ParamType, Placement};
use serde_json::{Map, Value, json};

use super::{
    client::{Client, Folder},
    serve::Gateway,
};

const SECRET: &str = "OPENSSH PRIVATE KEY";
const REFUSED: &str = "which holds credentials";

/// A home with a key, a link to it, and an empty project.
fn home() -> Folder {
    let folder = Folder::new(&[("mine.txt", "mine\n")]);
    fs::create_dir(folder.file(".ssh")).unwrap();
    fs::create_dir(folder.file("project")).unwrap();
    fs::create_dir(folder.file("other")).unwrap();
    fs::write(folder.file(".ssh/id_ed25519"), SECRET).unwrap();
    symlink(folder.file(".ssh/id_ed25519"), folder.file("project/key")).unwrap();
    fs::write(folder.file("other/key"), "not a key\n").unwrap();
    folder
}

fn said(client: &mut Client, tool: &str, arguments: Value) -> String {
    client.climax_call(tool, arguments).to_string()
}

/// A value that a parameter accepts; none if it must be a certain form of text.
fn filler(param: &Param) -> Option<Value> {
    match (param.choices.first(), param.kind) {
        (Some(choice), _) => Some(json!(choice)),
        (None, ParamType::Integer | ParamType::Number) => Some(json!(1)),
        (None, ParamType::Boolean) => Some(json!(false)),
        (None, ParamType::String) => param.pattern.is_none().then(|| json!("x")),
    }
}

#[test]
fn no_argument_of_a_bundled_tool_names_credentials() {
    let folder = home();
    let key = folder.file(".ssh/id_ed25519").display().to_string();
    let names: Vec<&str> = muster::bundled::CONFIGS.iter().map(|(name, _)| *name).collect();
    let mut client = folder.serve(&names);
    client.initialize();
    let mut refused = 0;
    for (cli, text) in muster::bundled::CONFIGS {
        let config = muster_config::cli::parse(text).unwrap().value;
        assert_eq!(config.credential_files, CredentialFiles::Refuse, "{cli}");
        for tool in &config.tools {
            let takes_paths = |param: &&Param| {
                let is_word = param.placement != Placement::Stdin;
                is_word && param.kind == ParamType::String && param.choices.is_empty()
            };
            for param in tool.params.iter().filter(takes_paths) {
                let others = tool.params.iter().filter(|other| other.required);
                let mut arguments: Map<String, Value> =
                    others.filter_map(|other| Some((other.name.clone(), filler(other)?))).collect();
                let is_folder = param.placement == Placement::WorkingDir;
                let path =
                    if is_folder { folder.file(".ssh").display().to_string() } else { key.clone() };
                arguments.insert(param.name.clone(), json!(path));
                let said = said(&mut client, &tool.name, arguments.into());
                if said.contains(REFUSED) {
                    refused += 1;
                } else {
                    // The value, or the filler of another argument, has not the form that is asked for.
                    let is_invalid = said.contains("pattern") || said.contains("Missing required");
                    assert!(is_invalid, "{}: {}: {said}", tool.name, param.name);
                }
                assert!(!said.contains(SECRET), "{}: {said}", tool.name);
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn credentials_are_reached_neither_by_links_nor_by_searches() {
    let folder = home();
    let mut client = folder.serve(&["files", "jq"]);
    client.initialize();
    let at = |name: &str| folder.file(name).display().to_string();
    for (tool, arguments) in [
        ("files_head", json!({"path": "project/key"})),
        ("files_head", json!({"path": "../.ssh/id_ed25519", "directory": at("project")})),
        ("files_read_lines", json!({"path": at("project/../.ssh/id_ed25519")})),
        ("files_search", json!({"pattern": "KEY"})),
        ("files_search", json!({"pattern": "KEY", "directory": at("project"), "path": ".."})),
        ("files_diff", json!({"old": ".", "new": "project", "recursive": true})),
        ("files_head", json!({"path": "/proc/self/environ"})),
        ("files_read_lines", json!({"path": "not-there/../.ssh/id_ed25519"})),
    ] {
        let said = said(&mut client, tool, arguments.clone());
        assert!(said.contains(REFUSED) && !said.contains(SECRET), "{tool} {arguments}: {said}");
    }
    // An untrusted folder may contain links.
    let folders = json!({"old": "project", "new": "other", "recursive": true});
    let differing = said(&mut client, "files_diff", folders);
    assert!(differing.contains("symbolic link") && !differing.contains(SECRET), "{differing}");
    let terminal = said(&mut client, "files_head", json!({"path": "/dev/tty"}));
    assert!(terminal.contains("is a device"), "{terminal}");
    for (tool, arguments, expected) in [
        ("files_head", json!({"path": "mine.txt"}), "mine"),
        ("files_list", json!({"path": "."}), ".ssh"),
        ("files_search", json!({"pattern": "mine", "path": "mine.txt"}), "mine"),
    ] {
        let said = said(&mut client, tool, arguments.clone());
        assert!(said.contains(expected) && !said.contains(REFUSED), "{tool} {arguments}: {said}");
    }
}

#[test]
fn filters_of_jq_see_no_secrets_and_open_no_files() {
    if Command::new("jq").arg("--version").output().is_err() {
        let test = "filters_of_jq_see_no_secrets_and_open_no_files";
        writeln!(stderr(), "skipped: {test}: jq is not installed").unwrap();
        return;
    }
    let folder = home();
    fs::create_dir(folder.file(".docker")).unwrap();
    fs::write(folder.file(".docker/config.json"), r#"{"auths":"SECRET"}"#).unwrap();
    let mut client = folder.serve(&["jq"]);
    client.initialize();
    let directory = folder.file(".docker").display().to_string();
    // Cargo sets this variable for tests, and so for the server.
    assert!(std::env::vars().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
    let mut eval = |filter: &str| said(&mut client, "jq_eval", json!({"filter": filter}));
    assert!(eval("$ENV.CARGO_MANIFEST_DIR").contains("null"));
    assert!(eval("env | has(\"HOME\")").contains("true"));
    for filter in [
        format!("import \"config\" as $c {{search: \"{directory}\"}}; $c"),
        format!("include # x\n\"config\" {{search: \"{directory}\"}}; ."),
        format!("import @text \"config\" as $c {{search: \"{directory}\"}}; $c"),
    ] {
        let said = eval(&filter);
        assert!(said.contains("pattern") && !said.contains("SECRET"), "{said}");
    }
    assert!(eval("{import: 1} | .import").contains('1'));
}

#[test]
fn a_gateway_does_not_show_its_own_secrets() {
    let gateway = Gateway::start_by(
        "XDG_STATE_HOME=/elsewhere exec \"$0\" \"$@\"",
        &[
            ("config.yaml", "aggregator: {port: 0, oauth: {mcpClient: {clientSecretFile: key}}}\n"),
            ("mcpservers/s.yaml", "command: 'true'\nenv: {API_KEY: canary}\nautoStart: false\n"),
            ("secrets/token", "canary\n"),
            ("notes.txt", "not secret\n"),
        ],
    );
    let session = gateway.session();
    let head = |name: &str| {
        let path = gateway.folder.file(name).display().to_string();
        gateway.call_tool(&session, "cli_files_head", json!({ "path": path })).to_string()
    };
    for file in [
        "config.yaml",
        "mcpservers/s.yaml",
        "secrets/token",
        "tokens.json",
        "state/events",
        "/elsewhere/muster/gateways/8090.json",
    ] {
        let said = head(file);
        assert!(said.contains(REFUSED) && !said.contains("canary"), "{file}: {said}");
    }
    // The file of the client secret is relative to the directory of the process.
    let key = gateway.call_tool(&session, "cli_files_head", json!({"path": "key"})).to_string();
    assert!(key.contains(REFUSED), "{key}");
    assert!(head("notes.txt").contains("not secret"));
}
