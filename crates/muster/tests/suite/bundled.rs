//! The configs that come with the program.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::client::Folder;

fn configs_dir() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

#[test]
fn every_file_is_bundled_and_sorted() {
    let mut files: Vec<String> = fs::read_dir(configs_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let names: Vec<&str> = muster::bundled::CONFIGS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, files);
    assert!(names.len() >= 12);
}

#[test]
fn every_config_is_complete_and_names_are_unique() {
    let mut owners = BTreeMap::new();
    for (file, text) in muster::bundled::CONFIGS {
        let loaded = muster_config::cli::parse(text).unwrap_or_else(|err| panic!("{file}: {err}"));
        // The arguments of a Python program may be its options: it is the caller's own.
        let expected = |path: &[String]| {
            *file == "python" && path.ends_with(&["allow_leading_dash".to_owned()])
        };
        let unexpected = loaded.warnings.iter().find(|warning| !expected(&warning.path));
        assert_eq!(unexpected, None, "{file}");
        let config = loaded.value;
        assert!(config.category.is_some(), "{file} has no category");
        assert!(config.tags.len() >= 2, "{file} has too few tags");
        assert!(!config.description.is_empty(), "{file} has no description");
        for tool in config.tools {
            assert!(!tool.description.is_empty(), "{file}: {} has no description", tool.name);
            assert!(tool.effect.is_some(), "{file}: {} states no effect", tool.name);
            for param in &tool.params {
                assert!(
                    !param.description.is_empty(),
                    "{}: {} has no description",
                    tool.name,
                    param.name
                );
            }
            if let Some(other) = owners.insert(tool.name.clone(), file) {
                panic!("{} is in {other} and in {file}", tool.name);
            }
        }
    }
}

/// Tests and builds run the code of the project; what only looks does not become a write by its name.
#[test]
fn effects_are_those_of_the_programs() {
    let mut effects = BTreeMap::new();
    for (_, text) in muster::bundled::CONFIGS {
        for tool in muster_config::cli::parse(text).unwrap().value.tools {
            effects.insert(tool.name.clone(), tool.effect.unwrap().as_str());
        }
    }
    for (tool, effect) in [
        ("git_branch", "read"),
        ("files_checksum", "read"),
        ("files_search", "read"),
        ("pip_freeze", "read"),
        ("npm_test", "write"),
        ("cargo_test", "write"),
        ("python_run_code", "write"),
    ] {
        assert_eq!(effects.get(tool), Some(&effect), "{tool}");
    }
}

#[test]
fn text_in_files_is_found_without_ripgrep() {
    let files = [("one.txt", "alpha\nBeta gamma\n"), ("two.md", "-e beta\n")];
    let folder = Folder::new(&files);
    let mut client = folder.serve(&["files"]);
    client.initialize();
    let found = client.call("climax_search", json!({"query": "search text in files (grep)"}));
    let found: Value = serde_json::from_str(found["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(found["results"][0]["tool_name"], "files_search", "{found}");
    let mut search = |arguments: Value| {
        let result = client.climax_call("files_search", arguments);
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(search(json!({"pattern": "b[e]ta", "glob": "*.md"})), "./two.md:1:-e beta");
    let both = search(json!({"pattern": "beta", "ignore_case": true, "files_only": true}));
    assert!(both.contains("./one.txt") && both.contains("./two.md"), "{both}");
    assert_eq!(search(json!({"pattern": "-e"})), "./two.md:1:-e beta");
    assert!(search(json!({"pattern": "delta"})).contains("[exit code: 1]"));
}

#[test]
fn git_works_against_the_real_git() {
    let folder = Folder::new(&[("notes.txt", "one\n")]);
    let mut client = folder.serve(&["git"]);
    let git = |words: &[&str]| {
        let status =
            std::process::Command::new("git").args(words).current_dir(folder.path()).output();
        assert!(status.unwrap().status.success(), "git {words:?}");
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["config", "user.email", "ada@example.org"]);
    git(&["config", "user.name", "Ada"]);
    client.initialize();
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    let status = client.climax_call("git_status", json!({"short": true}));
    assert!(text(&status).contains("?? notes.txt"), "{status}");
    let added = client.climax_call("git_add", json!({"path": "notes.txt"}));
    assert_eq!(added["isError"], false, "{added}");
    let done = client.climax_call("git_commit", json!({"message": "first; $(no shell)"}));
    assert_eq!(done["isError"], false, "{done}");
    let log = client.climax_call("git_log", json!({}));
    assert!(text(&log).contains("first; $(no shell)"), "{log}");
}
