//! The reference page documents every built-in tool and every key.

use std::{fs, path::Path};

use muster_scenario::builtin;

/// Where keys of scenario files are read.
const READERS: [&str; 3] = ["load/scenario.rs", "mock/config.rs", "oauth/config.rs"];

/// Keys of generated files.
const INTERNAL: [&str; 1] = ["control"];

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    fs::read_to_string(root.join("docs/reference/scenarios.md")).unwrap()
}

#[test]
fn every_built_in_tool_is_described() {
    let page = page();
    for tool in builtin::TOOLS {
        assert!(
            page.contains(&format!("`{tool}`")),
            "docs/reference/scenarios.md does not document {tool}"
        );
    }
}

#[test]
fn every_key_is_described() {
    let page = page();
    let mut keys = Vec::new();
    for file in READERS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let text = fs::read_to_string(path).unwrap();
        for opening in
            ["fields.get(\"", ".read(\"", ".items(\"", ".required(\"", "list(\"", "        (\""]
        {
            let after = text.split(opening).skip(1);
            keys.extend(after.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    assert!(keys.len() > 60, "the readers no longer match the patterns above: {keys:?}");
    for key in keys.iter().filter(|key| !INTERNAL.contains(&key.as_str())) {
        let forms = [format!("`{key}`"), format!("{{{key}"), format!(", {key}"), format!("{key}:")];
        assert!(
            forms.iter().any(|form| page.contains(form)),
            "docs/reference/scenarios.md does not document {key}"
        );
    }
}
