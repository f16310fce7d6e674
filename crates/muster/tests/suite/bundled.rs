//! The configs that come with the program.

use std::{collections::BTreeMap, fs, path::Path};

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
    let text =
        |result: &serde_json::Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    let status = client.climax_call("git_status", serde_json::json!({"short": true}));
    assert!(text(&status).contains("?? notes.txt"), "{status}");
    let added = client.climax_call("git_add", serde_json::json!({"path": "notes.txt"}));
    assert_eq!(added["isError"], false, "{added}");
    let done =
        client.climax_call("git_commit", serde_json::json!({"message": "first; $(no shell)"}));
    assert_eq!(done["isError"], false, "{done}");
    let log = client.climax_call("git_log", serde_json::json!({}));
    assert!(text(&log).contains("first; $(no shell)"), "{log}");
}
