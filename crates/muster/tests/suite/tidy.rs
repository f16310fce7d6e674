//! House rules that the compiler cannot check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The layers, bottom first: which of our crates each may use, also in its tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("muster-template", &[]),
    ("muster-model", &[]),
    ("muster-schema", &[]),
    ("muster-search", &[]),
    ("muster-core", &["muster-schema", "muster-search"]),
    ("muster-workflow", &["muster-core", "muster-template"]),
    ("muster-config", &["muster-core", "muster-workflow"]),
    ("muster-net", &["muster-core"]),
    ("muster-exec", &["muster-core", "muster-config"]),
    // State that replicas share: adapters of `muster_core::shared`.
    ("muster-shared", &["muster-core", "muster-net"]),
    // Transports and logins meet in `muster_core::credentials` only.
    ("muster-auth", &["muster-config", "muster-core", "muster-net", "muster-shared"]),
    // The shared state in memory is for its tests.
    ("muster-mcp", &["muster-core", "muster-shared"]),
    ("muster-mcp-client", &["muster-core", "muster-exec", "muster-net", "muster-mcp"]),
    // The shared state in memory is for its tests.
    (
        "muster-gateway",
        &[
            "muster-api",
            "muster-config",
            "muster-core",
            "muster-exec",
            "muster-search",
            "muster-shared",
            "muster-workflow",
        ],
    ),
    ("muster-api", &["muster-core", "muster-workflow"]),
    // The tap on the dispatcher: it knows calls, not what makes them.
    ("muster-telemetry", &["muster-api", "muster-core", "muster-net"]),
    (
        "muster-engine",
        &[
            "muster-api",
            "muster-config",
            "muster-core",
            "muster-exec",
            "muster-gateway",
            // The shared state in memory is for its tests.
            "muster-shared",
            "muster-telemetry",
            "muster-template",
            "muster-workflow",
        ],
    ),
    // The Kubernetes adapter of the engine's store: nothing that file mode needs.
    (
        "muster-kube",
        &["muster-config", "muster-core", "muster-engine", "muster-net", "muster-workflow"],
    ),
    ("muster-scenario", &["muster-config", "muster-core", "muster-exec", "muster-template"]),
    (
        "muster-client",
        &[
            "muster-api",
            "muster-core",
            "muster-config",
            "muster-model",
            "muster-search",
            "muster-auth",
            "muster-exec",
            "muster-mcp-client",
            "muster-net",
            "muster-engine",
        ],
    ),
    // Pages over the ports of core: no dispatcher, no policy, no state of the engine.
    ("muster-console", &["muster-api", "muster-auth", "muster-core"]),
    // The fuzz targets: one for each reader of text from outside.
    (
        "muster-fuzz",
        &[
            "muster-auth",
            "muster-config",
            "muster-core",
            "muster-exec",
            "muster-gateway",
            "muster-mcp",
            "muster-net",
            "muster-template",
        ],
    ),
    (
        "muster",
        &[
            "muster-api",
            "muster-client",
            "muster-console",
            "muster-core",
            "muster-config",
            "muster-search",
            "muster-workflow",
            "muster-auth",
            "muster-exec",
            "muster-mcp",
            "muster-mcp-client",
            "muster-net",
            "muster-gateway",
            "muster-engine",
            "muster-kube",
            "muster-scenario",
            "muster-shared",
            "muster-telemetry",
        ],
    ),
];

/// External crates that every crate may use: values, errors, formats, logging.
const ANYWHERE: &[&str] = &[
    "base64",
    "bytes",
    "form_urlencoded",
    "getrandom",
    "indexmap",
    "jiff",
    "memchr",
    "regex",
    "serde",
    "serde_json",
    "sha2",
    "tempfile",
    "thiserror",
    "tracing",
];

/// External crates that only some of ours may use. A crate must be here or in `ANYWHERE`.
const ONLY: &[(&str, &[&str])] = &[
    // A terminal.
    ("anstyle", &["muster"]),
    ("clap", &["muster"]),
    ("clap_complete", &["muster"]),
    ("clap_mangen", &["muster"]),
    ("comfy-table", &["muster"]),
    ("rustyline", &["muster"]),
    ("tiktoken-rs", &["muster"]),
    ("toml_edit", &["muster-client"]),
    ("tracing-subscriber", &["muster"]),
    // Values and decisions.
    ("fancy-regex", &["muster-core"]),
    ("jsonschema", &["muster-schema"]),
    ("rpds", &["muster-core"]),
    ("rust-stemmers", &["muster-search"]),
    ("saphyr-parser", &["muster-config"]),
    ("strsim", &["muster-core", "muster-search"]),
    ("aes", &["muster-template"]),
    ("bcrypt", &["muster-template"]),
    ("cbc", &["muster-template"]),
    ("num-bigint", &["muster-template"]),
    ("sha1", &["muster-template"]),
    ("unicode-general-category", &["muster-template"]),
    ("unicode-normalization", &["muster-core", "muster-search"]),
    ("notify", &["muster-engine"]),
    ("regex-automata", &["muster-gateway"]),
    ("serde_json_path", &["muster-gateway"]),
    // A runtime and the system.
    (
        "tokio",
        &[
            "muster-auth",
            "muster-shared",
            "muster-exec",
            "muster-mcp",
            "muster-mcp-client",
            "muster-net",
            "muster-gateway",
            "muster-engine",
            "muster-kube",
            "muster-telemetry",
            "muster-client",
            "muster-scenario",
            "muster-fuzz",
            "muster",
        ],
    ),
    (
        "tokio-util",
        &[
            "muster-auth",
            "muster-exec",
            "muster-mcp",
            "muster-mcp-client",
            "muster-gateway",
            "muster-engine",
            "muster-kube",
            "muster-scenario",
        ],
    ),
    (
        "rustix",
        &[
            "muster-auth",
            "muster-exec",
            "muster-mcp",
            "muster-mcp-client",
            "muster-net",
            "muster-engine",
            "muster-scenario",
            "muster",
        ],
    ),
    // The network. The tester has servers and clients of its own: it must not share our mistakes.
    (
        "http",
        &[
            "muster-core",
            "muster-net",
            "muster-auth",
            "muster-kube",
            "muster-mcp",
            "muster-mcp-client",
            "muster-telemetry",
            "muster-client",
            "muster-console",
            "muster-scenario",
            "muster",
            "muster-fuzz",
        ],
    ),
    (
        "http-body-util",
        &["muster-net", "muster-mcp", "muster-mcp-client", "muster-client", "muster-scenario"],
    ),
    (
        "hyper",
        &["muster-net", "muster-mcp", "muster-mcp-client", "muster-client", "muster-scenario"],
    ),
    (
        "hyper-util",
        &["muster-net", "muster-mcp", "muster-mcp-client", "muster-client", "muster-scenario"],
    ),
    ("listenfd", &["muster"]),
    ("minisign-verify", &["muster"]),
    ("idna_adapter", &["muster-shared"]),
    ("redis", &["muster-shared"]),
    // Cryptography. The tester signs tokens and certificates as an issuer of its own.
    ("rcgen", &["muster-scenario"]),
    ("ring", &["muster-auth", "muster-scenario", "muster-shared"]),
    ("rustls", &["muster-net", "muster-scenario"]),
    ("rustls-native-certs", &["muster-net"]),
    ("rustls-webpki", &["muster-net"]),
    ("tokio-rustls", &["muster-net", "muster-scenario"]),
];

/// Words that only some crates may write, and why.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("process::Command", &["muster-exec"], "only muster-exec starts processes"),
    // The tester judges the wire, so it has a reading of its own.
    (
        "\"jsonrpc\"",
        &["muster-mcp", "muster-mcp-client", "muster-scenario", "muster-fuzz"],
        "only muster-mcp knows the wire",
    ),
    ("jsonrpc:", &["muster-mcp"], "only muster-mcp knows the wire"),
    (
        "by_another_replica(",
        &["muster-core", "muster-engine"],
        "only calls for a server of this replica were permitted elsewhere",
    ),
];

/// Public types that may share a name, because they are two implementations of one concept, and why there are two.
const SAME_CONCEPT: &[(&str, &str)] = &[
    ("Message", "the tester judges the wire, so it has a reading of its own"),
    ("RpcError", "the tester judges the wire, so it has a reading of its own"),
    ("ToolResponse", "the tester judges the wire, so it has a reading of its own"),
];

/// Tests that sleep in real time, and why they cannot await an event.
const SLEEPS: &[(&str, &str)] = &[
    ("muster-engine/tests/suite/fake.rs", "the clock of its tests is paused"),
    ("muster-mcp/tests/suite/legacy.rs", "a session that is not used for a while gives no sign"),
    ("muster-scenario/tests/fake.rs", "a gateway that is slow on purpose"),
    ("muster/tests/suite/processes.rs", "the end of another's child process is no event"),
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
        for (section, name) in dependencies(&fs::read_to_string(dir.join("Cargo.toml")).unwrap()) {
            if name.starts_with("muster") {
                assert!(allowed.contains(&&*name), "{krate} must not use {name}");
            } else if section != Section::Test && !ANYWHERE.contains(&&*name) {
                let row = ONLY.iter().find(|(external, _)| *external == name);
                let (_, users) =
                    row.unwrap_or_else(|| panic!("{name} is neither in ANYWHERE nor in ONLY"));
                assert!(users.contains(&&*krate), "{krate} must not use {name}");
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

/// Tests may say on which systems they run.
#[test]
fn systems_differ_in_one_place() {
    for file in crates().flat_map(|dir| rust_files(&dir.join("src"))) {
        if file.ends_with("muster-exec/src/platform.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for word in ["cfg(target_os", "cfg(not(target_os", "cfg(unix", "cfg(windows"] {
            let place = file.display();
            assert!(!code(&text).contains(word), "{place}: move it to muster-exec/src/platform.rs");
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

/// The size from which ARCHITECTURE.md says why a crate is not split, in lines of `src` without tests.
const LARGE_CRATE: usize = 10_000;

#[test]
fn large_crates_have_a_reason() {
    let mut large = BTreeSet::new();
    for dir in crates() {
        let is_test = |file: &PathBuf| {
            file.ends_with("tests.rs")
                || file
                    .strip_prefix(&dir)
                    .unwrap()
                    .components()
                    .any(|part| part.as_os_str() == "tests")
        };
        let files = rust_files(&dir.join("src")).into_iter().filter(|file| !is_test(file));
        let lines = files.map(|file| code(&fs::read_to_string(file).unwrap()).lines().count());
        if lines.sum::<usize>() > LARGE_CRATE {
            large.insert(dir.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    let architecture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let architecture = fs::read_to_string(architecture).unwrap();
    let (_, table) = architecture.split_once("| large crate |").unwrap();
    let rows = table.split_once("\n\n").unwrap().0.lines().skip(2);
    let listed: BTreeSet<String> =
        rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(listed, large, "the large crates of ARCHITECTURE.md are not those of the code");
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
            // `tests/client/web.rs` is a module of `tests/client.rs`, `tests/fake.rs` of a sibling.
            let parents = match folder == tests {
                true => rust_files(&tests),
                false => vec![folder.with_extension("rs")],
            };
            let module = format!("mod {};", file.file_stem().unwrap().to_str().unwrap());
            let listed = parents
                .iter()
                .any(|parent| fs::read_to_string(parent).is_ok_and(|text| text.contains(&module)));
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

#[test]
fn public_types_have_names_of_their_own() {
    let mut seen: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for dir in crates() {
        // A file, not its crate: one crate may not use a name twice either.
        for file in rust_files(&dir.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for line in code(&text).lines() {
                let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
                let mut words = item.split_whitespace();
                if matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
                    let name = words.next().unwrap().split(|c: char| !c.is_alphanumeric()).next();
                    seen.entry(name.unwrap().to_owned()).or_default().insert(file.clone());
                }
            }
        }
    }
    // Macros name their types by a variable.
    seen.remove("");
    for (name, _) in SAME_CONCEPT {
        assert!(seen.get(*name).is_some_and(|files| files.len() > 1), "`{name}` has one meaning");
    }
    seen.retain(|name, files| {
        files.len() > 1 && !SAME_CONCEPT.iter().any(|(same, _)| same == name)
    });
    assert!(seen.is_empty(), "public types that share a name: {seen:#?}");
}

#[test]
fn tests_await_events_instead_of_sleeping() {
    let sleep = ["sle", "ep("].concat();
    for file in crates().flat_map(|dir| rust_files(&dir)) {
        let text = fs::read_to_string(&file).unwrap();
        let mut in_tests =
            file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests");
        // A helper belongs to the tests of its file.
        let mut is_paused = text.contains("start_paused");
        for line in text.lines() {
            in_tests |= line.contains("#[cfg(test)]");
            if line.contains("#[tokio::test") {
                is_paused = line.contains("start_paused");
            }
            let is_known = SLEEPS.iter().any(|(known, _)| file.ends_with(known));
            let is_asleep = in_tests && line.contains(&sleep) && !is_paused;
            assert!(is_known || !is_asleep, "{} sleeps in real time", file.display());
        }
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

/// Where a dependency is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Product,
    Test,
}

/// The dependencies that a manifest lists, in sections for all targets and for some.
fn dependencies(manifest: &str) -> Vec<(Section, String)> {
    let mut section = None;
    let mut found = Vec::new();
    for line in manifest.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[') {
            assert!(!header.contains("dependencies."), "list dependencies one a line: {line}");
            section = match header {
                _ if header.ends_with("dev-dependencies]") => Some(Section::Test),
                _ if header.ends_with("dependencies]") => Some(Section::Product),
                _ => None,
            };
        } else if let Some(section) = section {
            found.extend(line.split(['.', ' ', '=']).next().map(|name| (section, name.to_owned())));
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
