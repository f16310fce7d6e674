//! House rules that the compiler cannot check.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The layers, bottom first: which of our crates each may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("muster-template", &[]),
    ("muster-search", &[]),
    ("muster-core", &["muster-search"]),
    ("muster-workflow", &["muster-core", "muster-template"]),
    ("muster-config", &["muster-core", "muster-workflow"]),
    ("muster-exec", &["muster-core"]),
    // Transports and logins meet in `muster_core::credentials` only.
    ("muster-auth", &["muster-config", "muster-core"]),
    ("muster-mcp", &["muster-core", "muster-exec"]),
    ("muster-gateway", &["muster-config", "muster-core", "muster-search", "muster-workflow"]),
    (
        "muster-engine",
        &[
            "muster-config",
            "muster-core",
            "muster-exec",
            "muster-gateway",
            "muster-template",
            "muster-workflow",
        ],
    ),
    ("muster-scenario", &["muster-config", "muster-core", "muster-exec"]),
    (
        "muster",
        &[
            "muster-config",
            "muster-core",
            "muster-search",
            "muster-workflow",
            "muster-auth",
            "muster-exec",
            "muster-mcp",
            "muster-gateway",
            "muster-engine",
            "muster-scenario",
        ],
    ),
];

/// Crates from outside that only some of ours may know.
const ONLY: &[(&str, &[&str])] = &[
    ("clap", &["muster"]),
    ("saphyr-parser", &["muster-config"]),
    // A client for tests only; it may stand under dev-dependencies, which are not looked at here.
    ("rmcp", &[]),
    (
        "tokio",
        &[
            "muster-auth",
            "muster-exec",
            "muster-mcp",
            "muster-gateway",
            "muster-engine",
            "muster-scenario",
            "muster",
        ],
    ),
    // The tester signs tokens as an issuer of its own.
    ("ring", &["muster-auth", "muster-scenario"]),
    ("redis", &["muster-auth"]),
    ("ndarray", &["muster-search"]),
    ("rustix", &["muster-exec", "muster-mcp", "muster-engine", "muster-scenario", "muster"]),
];

/// Words that only some crates may write, and why.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("process::Command", &["muster-exec"], "only muster-exec starts processes"),
    // The tester judges the wire, so it has a reading of its own.
    ("\"jsonrpc\"", &["muster-mcp", "muster-scenario"], "only muster-mcp knows the wire"),
    ("jsonrpc:", &["muster-mcp"], "only muster-mcp knows the wire"),
];

const MAX_LINES: usize = 500;

#[test]
fn dependencies_point_down() {
    for dir in crates() {
        let krate = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let (_, allowed) = MAY_USE
            .iter()
            .find(|(name, _)| *name == krate)
            .unwrap_or_else(|| panic!("{krate} is not in MAY_USE"));
        for dependency in dependencies(&fs::read_to_string(dir.join("Cargo.toml")).unwrap()) {
            let ours = dependency.starts_with("muster");
            assert!(!ours || allowed.contains(&&*dependency), "{krate} must not use {dependency}");
            for (outside, owners) in ONLY {
                let known = dependency != *outside || owners.contains(&&*krate);
                assert!(known, "{krate} must not use {outside}");
            }
        }
    }
}

#[test]
fn dangerous_words_have_one_address() {
    for (word, owners, reason) in ONLY_IN {
        for dir in crates().filter(|dir| !owners.iter().any(|owner| dir.ends_with(owner))) {
            for file in rust_files(&dir.join("src")) {
                let text = code(&fs::read_to_string(&file).unwrap()).to_owned();
                assert!(!text.contains(word), "{} writes `{word}`: {reason}", file.display());
            }
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are() {
    for file in crates().flat_map(|dir| rust_files(&dir.join("src"))) {
        let text = fs::read_to_string(&file).unwrap();
        let lines = code(&text).lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", file.display());
        assert!(text.starts_with("//!"), "{} has no module comment", file.display());
    }
}

#[test]
fn nothing_is_left_undone() {
    // Written apart, so that this file does not find itself.
    let marks =
        [["TO", "DO"], ["FIX", "ME"], ["#[igno", "re"], ["#[allo", "w("]].map(|m| m.concat());
    for file in crates().flat_map(|dir| rust_files(&dir)) {
        let text = fs::read_to_string(&file).unwrap();
        for mark in &marks {
            assert!(!text.contains(mark), "{} holds `{mark}`", file.display());
        }
    }
}

#[test]
fn no_test_file_is_forgotten() {
    for dir in crates() {
        let tests = dir.join("tests");
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        let automatic = !manifest.contains("autotests = false");
        for file in rust_files(&tests) {
            let folder = file.parent().unwrap();
            let target = file.strip_prefix(&dir).unwrap().to_str().unwrap();
            let is_target = (automatic && folder == tests)
                || manifest.contains(&format!("path = \"{target}\""));
            // `tests/client/web.rs` is a module of `tests/client.rs`.
            let parent = fs::read_to_string(folder.with_extension("rs")).unwrap_or_default();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let listed = parent.contains(&format!("mod {name};"));
            assert!(is_target || listed, "{} is part of no test", file.display());
        }
    }
}

#[test]
fn every_crate_inherits_the_lints() {
    for dir in crates() {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", dir.display());
    }
}

fn crates() -> impl Iterator<Item = PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path())
}

/// The part of a file before its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found
}
