//! A value that a caller gives never becomes an option of the program.

use serde_json::{Value, json};

use super::client::{Client, Folder};

/// The trap: `find FOLDER` with `-delete` for a folder empties the current one.
const FIND: &str = "\
name: search
command: find
tools:
  - name: entries
    description: List what a folder holds
    args: [{name: folder, positional: true, required: true}]
";

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn direct(client: &mut Client, tool: &str, arguments: Value) -> Value {
    client.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
}

#[test]
fn an_operand_that_begins_with_a_dash_runs_nothing() {
    let refusal = "a value that begins with '-' would be read as an option";
    for mode in [&["find.yaml"][..], &["--classic", "find.yaml"]] {
        let folder = Folder::new(&[("find.yaml", FIND), ("precious.txt", "keep me")]);
        let mut client = folder.serve(mode);
        client.initialize();
        let mut call = |value: &str| match mode.len() {
            1 => client.climax_call("entries", json!({ "folder": value })),
            _ => direct(&mut client, "entries", json!({ "folder": value })),
        };
        for value in ["-delete", "--help", "--"] {
            let refused = call(value);
            assert!(text(&refused).contains(refusal), "{refused}");
            assert!(folder.file("precious.txt").exists(), "{value}");
        }
        assert!(text(&call(".")).contains("precious.txt"));
    }
}

#[test]
fn the_end_of_options_protects_what_follows() {
    let config = "\
name: show
command: cat
end_of_options: --
tools:
  - name: show
    description: Show a file
    args: [{name: file, positional: true, required: true}]
";
    let folder = Folder::new(&[("show.yaml", config), ("--version", "a file of that name")]);
    let mut client = folder.serve(&["show.yaml"]);
    client.initialize();
    let shown = client.climax_call("show", json!({"file": "--version"}));
    assert_eq!(text(&shown), "a file of that name", "{shown}");
}

#[test]
fn bundled_tools_take_no_options_from_callers() {
    let calls = [
        ("kubectl_get", json!({"resource": "pods", "name": "--kubeconfig=evil"})),
        ("make_dry_run", json!({"target": "--eval=$(shell touch made)"})),
        ("cargo_test", json!({"filter": "--config=evil.toml"})),
        ("pip_show", json!({"package": "--log=made"})),
        ("docker_inspect", json!({"target": "--format=x"})),
        ("npm_view", json!({"package": "--registry=http://127.0.0.1:1"})),
        ("jq_query", json!({"filter": ".", "input": "{}", "value": "--rawfile"})),
        ("files_diff", json!({"old": "--to-file=/etc/passwd", "new": "x"})),
        ("curl_get", json!({"url": "http://127.0.0.1:1/", "header": "@secret.txt"})),
        ("curl_get", json!({"url": "file:///etc/passwd"})),
        ("files_read_lines", json!({"path": "/inet/tcp/0/127.0.0.1/1"})),
        ("kubectl_get", json!({"resource": "pods", "output": "jsonpath-file=/etc/passwd"})),
    ];
    let folder = Folder::new(&[("secret.txt", "X-Secret: s3cret\n")]);
    let names: Vec<&str> = muster::bundled::CONFIGS.iter().map(|(name, _)| *name).collect();
    let mut client = folder.serve(&names);
    client.initialize();
    for (tool, arguments) in calls {
        let refused = client.climax_call(tool, arguments.clone());
        assert!(
            text(&refused).starts_with("Argument validation failed:"),
            "{tool} {arguments}: {refused}"
        );
    }
    assert!(!folder.file("made").exists());
}

/// Every operand of a bundled tool is guarded, except the arguments of Python programs that run anyway.
#[test]
fn bundled_operands_are_guarded() {
    for (file, text) in muster::bundled::CONFIGS {
        for tool in muster_config::cli::parse(text).unwrap().value.tools {
            let open = tool.params.iter().filter(|param| param.allow_leading_dash).count();
            let runs_programs = ["python_run_file", "python_run_module"].contains(&&*tool.name);
            assert!(
                open == 0 || runs_programs || tool.end_of_options.is_some(),
                "{file}: {} has an unguarded argument",
                tool.name
            );
        }
    }
}

#[test]
fn validate_names_unguarded_operands() {
    let config = FIND.replace("required: true", "required: true, allow_leading_dash: true");
    let folder = Folder::new(&[("find.yaml", &config)]);
    let output = folder.climax(&["validate", "find.yaml"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        shown.contains("tools → 0 → args → 0 → allow_leading_dash: a value that begins with `-`")
            && shown.contains("(line 6)")
            && shown.contains("end_of_options"),
        "{shown}"
    );
}
