//! `muster self-update` of a build without a release key.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use expect_test::expect;

use super::serve::MUSTER;

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
