//! Tests of reading and writing the directory.

use std::{cell::Cell, fs, io, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use muster_config::mcpserver::{McpServer, McpServerSpec, McpServerStatus, ServerType};
use muster_core::policy::DefaultAccess;

use super::{ConfigStore, Files, PolicyFile, Severity, WriteError, read};

#[test]
fn a_file_that_may_not_be_read_comes_with_its_fix() {
    let shown = |kind: io::ErrorKind| {
        read::unreadable(Path::new("policies/my own.yaml"), &kind.into()).to_string()
    };
    assert_eq!(
        shown(io::ErrorKind::PermissionDenied),
        "policies/my own.yaml: permission denied (make it readable for the user of the gateway: \
         `chmod u+rX 'policies/my own.yaml'`)"
    );
    assert_eq!(shown(io::ErrorKind::TimedOut), "policies/my own.yaml: timed out");
}

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn problems(files: &Files, root: &Path) -> Vec<String> {
    let shown = files
        .problems
        .iter()
        .map(|problem| problem.to_string().replace(&format!("{}/", root.display()), ""));
    shown.collect()
}

/// The default access of a policy; `None` if it cannot be read.
fn default(file: &PolicyFile) -> Option<DefaultAccess> {
    file.policy.as_ref().map(|policy| policy.default)
}

fn server(name: &str) -> McpServer {
    let spec = McpServerSpec {
        url: "http://h/mcp".to_owned(),
        ..McpServerSpec::of(ServerType::StreamableHttp)
    };
    McpServer::new(name, "default", spec)
}

#[test]
fn nothing_at_all_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let files = ConfigStore::new(dir.path().join("none")).load(&Files::default());
    assert!(files.problems.is_empty());
    assert!(files.clis.is_none());
    assert_eq!(files.settings.aggregator.port, 8090);
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "config.yaml", "aggregator:\n  prot: 1\n");
    put(root, "mcpservers/a.yaml", "url: http://a\n");
    put(root, "mcpservers/b.yml", "comand: x\nurl: http://b\n");
    put(root, "mcpservers/c.yaml", "spec:\n  type: ftp\n");
    put(root, "mcpservers/d.yaml", "name: a\nurl: http://d\n");
    put(root, "mcpservers/e.yaml", "a: [\n");
    put(root, "mcpservers/.tmp-1", "a: [\n");
    put(root, "mcpservers/notes.txt", "a: [\n");
    put(root, "mcpservers/folder.yaml/x", "");
    put(root, "clis/git.yaml", "command: git\ntools: []\n");
    put(root, "clis/bad.yaml", "tools: []\n");
    put(root, "policies/bad.yaml", "default: maybe\n");
    let store = ConfigStore::new(root);
    let files = store.load(&Files::default());
    assert_eq!(files.servers.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(files.clis.as_ref().unwrap().len(), 1);
    assert_eq!(
        problems(&files, root),
        [
            "config.yaml:2: aggregator → prot: unknown field; did you mean `port`?",
            "mcpservers/b.yml:1: comand: unknown field; did you mean `command`?",
            "mcpservers/c.yaml:2: spec: unsupported MCP server type: ftp (supported: stdio, streamable-http, sse)",
            "mcpservers/d.yaml: the name 'a' is taken by mcpservers/a.yaml (give it another `metadata.name`)",
            "mcpservers/e.yaml:2: while parsing a node, did not find expected node content; the `[` of line 1 is not closed",
            "mcpservers/folder.yaml: it is not a file",
            "clis/bad.yaml:1: command: Field required (add `command: …`)",
            "policies/bad.yaml:1: default: Input should be 'enabled' or 'disabled'",
            "policies/bad.yaml: all calls are refused until this policy is fixed",
        ]
    );
    let warnings = files.problems.iter().filter(|problem| problem.severity == Severity::Warning);
    assert_eq!(warnings.count(), 2);
    let policies: Vec<_> = files.policies.values().map(default).collect();
    assert_eq!(policies, [None]);

    // The last valid contents apply while a file is broken.
    put(root, "mcpservers/a.yaml", "url: [\n");
    put(root, "clis/git.yaml", "tools: 1\n");
    put(root, "config.yaml", "aggregator: 1\n");
    put(root, "policies/bad.yaml", "default: enabled\n");
    let again = store.load(&files);
    assert_eq!(again.servers.get("a"), files.servers.get("a"));
    assert_eq!(again.clis, files.clis);
    assert_eq!(again.settings, files.settings);
    put(root, "policies/bad.yaml", "defau");
    let last = store.load(&again);
    let policies: Vec<_> = last.policies.values().map(default).collect();
    assert_eq!(policies, [Some(DefaultAccess::Enabled)]);
    fs::remove_file(root.join("mcpservers/a.yaml")).unwrap();
    assert_eq!(store.load(&last).servers["a"].server.spec.url, "http://d");
}

#[test]
fn a_folder_that_cannot_be_listed_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let folders = ["mcpservers", "clis", "policies"];
    put(root, "mcpservers/a.yaml", "url: http://a\n");
    put(root, "clis/git.yaml", "command: git\ntools: []\n");
    put(root, "policies/some.yaml", "default: disabled\ntools: {ls: {}}\n");
    let store = ConfigStore::new(root);
    let before = store.load(&Files::default());
    for folder in folders {
        fs::remove_dir_all(root.join(folder)).unwrap();
        put(root, folder, "not a folder");
    }
    let files = store.load(&before);
    assert_eq!(files.servers, before.servers);
    assert_eq!(files.clis, before.clis);
    assert_eq!(files.policies.keys().collect::<Vec<_>>(), [&root.join("policies/some.yaml")]);
    assert_eq!(files.problems.len(), folders.len(), "{:?}", files.problems);

    let first = store.load(&Files::default());
    let policies: Vec<_> = first.policies.values().map(default).collect();
    assert_eq!(policies, [None], "rules that were never read may forbid anything");

    fs::remove_file(root.join("policies")).unwrap();
    assert!(store.load(&first).policies.is_empty());
}

#[tokio::test]
async fn files_are_written_whole_and_never_brought_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(ConfigStore::new(dir.path()));
    store.create(&server("new")).await.unwrap();
    assert!(matches!(store.create(&server("new")).await, Err(WriteError::Exists(_))));
    let path = dir.path().join("mcpservers/new.yaml");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = store.reload(&Files::default()).await;
    assert_eq!(*files.servers["new"].server, server("new"));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let status = McpServerStatus { state: "Connected".to_owned(), ..McpServerStatus::default() };
    store.write_status(&path, &status).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let stamp = fs::metadata(&path).unwrap().modified().unwrap();
    store.write_status(&path, &status).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), stamp, "nothing to write");
    assert!(fs::read_to_string(&path).unwrap().ends_with("status:\n  state: Connected\n"));

    store.delete(&path).await.unwrap();
    assert!(matches!(store.delete(&path).await, Err(WriteError::Gone(_))));
    assert!(matches!(store.write_status(&path, &status).await, Err(WriteError::Gone(_))));
    let gone = store.replace(&files.servers["new"], &server("new")).await;
    assert!(matches!(gone, Err(WriteError::Gone(_))));
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn links_stay_links() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::new(dir.path());
    store.prepare().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("mcpservers/a.yaml"));
    fs::write(&real, "url: x\n").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = Arc::new(store);
    let files = store.reload(&Files::default()).await;
    store.replace(&files.servers["a"], &server("a")).await.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("http://h/mcp"));
    let late = store.replace(&files.servers["a"], &server("a")).await;
    assert!(matches!(late, Err(WriteError::Changed(_))), "what was decided on is no longer there");
}

#[test]
fn an_edit_at_the_same_moment_is_never_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.yaml");
    let edit = |text: &str| {
        let beside = dir.path().join(".edit");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, &path).unwrap();
    };
    edit("before");
    let looks = Cell::new(0);
    // Edits happen right after each check: that of the file to replace, and that of the displaced file.
    let is_meant = |now: &str| {
        looks.set(looks.get() + 1);
        edit(&format!("edit {}", looks.get()));
        now == "before"
    };
    let late = super::write::replace(&path, "ours", is_meant);
    assert!(matches!(late, Err(WriteError::Changed(_))), "{late:?}");
    assert_eq!(looks.get(), 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "edit 2");

    let removed = super::write::replace(&path, "ours", |_| fs::remove_file(&path).is_ok());
    assert!(matches!(removed, Err(WriteError::Gone(_))), "{removed:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left or brought back");
}
