//! Who is admitted to a gateway, through the real binary.

use std::process::Command;

use super::{client::Folder, serve::MUSTER};

#[test]
fn an_unknown_access_mode_is_refused() {
    let folder = Folder::new(&[("config.yaml", "aggregator: {port: 0}\n")]);
    let output = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_ACCESS", "closed")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("MUSTER_ACCESS is `closed`, which is not an access mode"), "{said}");
    assert!(said.contains("set it to `private` or `open`"), "{said}");
}
