//! Tests of state folders.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::StateFolder;

#[test]
fn one_folder_for_each_configuration_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (state, config) = (dir.path().join("state"), dir.path().join("my config"));
    let missing = StateFolder::of(&state, &config);
    fs::create_dir(&config).unwrap();
    let folder = StateFolder::of(&state, &config);
    assert_eq!(missing, folder, "also before the directory exists");
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("my_config-") && name.len() == 22, "{name}");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&config, &link).unwrap();
    assert_eq!(StateFolder::of(&state, &link), folder, "links are followed");
    let other = dir.path().join("other/my config");
    assert_ne!(StateFolder::of(&state, &other), folder);
    folder.create().unwrap();
    let mode = fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[test]
fn state_of_earlier_versions_is_taken_over_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    let folder = StateFolder::at(dir.path().join("state"));
    let put = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    folder.create().unwrap();
    put(config.join("workflow_executions/1.yaml"), "old");
    put(config.join("workflow_executions/2.yaml"), "old");
    put(config.join("events/events-2026-01-01.json"), "old");
    put(config.join("mcpservers/a.yaml"), "command: a");
    put(folder.path().join("workflow_executions/2.yaml"), "new");
    drop(folder.own(&config, None, Vec::new()).unwrap());
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    assert_eq!(read("workflow_executions/1.yaml"), "old");
    assert_eq!(read("workflow_executions/2.yaml"), "new");
    assert_eq!(read("events/events-2026-01-01.json"), "old");
    assert!(!config.join("workflow_executions/1.yaml").exists() && !config.join("events").exists());
    assert!(config.join("workflow_executions/2.yaml").exists(), "nothing is lost");
    assert!(config.join("mcpservers/a.yaml").exists());
}

/// A configuration directory may be a project, whose folders do not belong to the gateway.
#[test]
fn folders_of_the_user_stay() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("project");
    let folder = StateFolder::at(dir.path().join("state"));
    let files = [
        "outputs/results.csv",
        "outputs/out_0123456789abcdef01234567.json",
        "events/2026.txt",
        "events/events-2026-01-01.json",
        "workflow_executions/plan.yaml",
        "workflow_executions/deep/1.yaml",
    ];
    for file in files {
        let path = config.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mine").unwrap();
    }
    drop(folder.own(&config, None, Vec::new()).unwrap());
    for file in files {
        assert!(config.join(file).exists(), "{file}");
    }
}

#[test]
fn a_folder_that_the_user_chose_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(shared.join("theirs"), "").unwrap();
    let error = StateFolder::at(&shared).create().unwrap_err();
    assert!(error.to_string().contains("chmod 700"), "{error}");
    assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o755);
    StateFolder::at(shared.join("muster")).create().unwrap();
}
