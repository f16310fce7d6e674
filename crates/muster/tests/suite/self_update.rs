//! `muster self-update` against a page of releases on this machine. The program that is replaced is a
//! second name of the real one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
};

use expect_test::expect;
use muster_auth::random::sha256;
use serde_json::{Value, json};

use super::{client::Folder, serve::MUSTER};

const PROGRAM: &str = "#!/bin/sh\necho 'muster version 99.0.0'\n";

fn name(version: &str) -> String {
    format!("muster_{version}_{}_{}", std::env::consts::OS, std::env::consts::ARCH)
}

fn digest(text: &str) -> String {
    let digest: String = sha256(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}

/// A page of releases; `{file}` in it is the address of the program.
fn publish(release: Value) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let release = release.to_string().replace("{file}", &format!("http://127.0.0.1:{port}/file"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let body = if first.starts_with("GET /file ") { PROGRAM } else { &release };
            let mut stream = stream;
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    port
}

/// A program that can be replaced, and what came of trying.
fn updated(release: Value) -> (String, Folder) {
    let folder = Folder::new(&[]);
    let program = folder.file("muster");
    if fs::hard_link(MUSTER, &program).is_err() {
        fs::copy(MUSTER, &program).unwrap();
    }
    let port = publish(release);
    let output = Command::new(&program)
        .arg("self-update")
        .env("HOME", folder.path())
        .env("MUSTER_RELEASES_URL", format!("http://127.0.0.1:{port}/latest"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!(
        "{}{}exit {}\n",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code().unwrap()
    );
    let said = said
        .replace(&folder.path().display().to_string(), "[FOLDER]")
        .replace(&name("99.0.0"), "[FILE]")
        .replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    (said, folder)
}

fn version(folder: &Folder) -> String {
    let output = Command::new(folder.file("muster")).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn release(digest: &str) -> Value {
    json!({"tag_name": "v99.0.0", "published_at": "2026-02-03T04:05:06Z", "body": "Better.\n",
           "assets": [{"name": name("99.0.0"), "browser_download_url": "{file}", "digest": digest}]})
}

#[test]
fn a_newer_release_takes_the_place_of_the_program() {
    let (said, folder) = updated(release(&digest(PROGRAM)));
    expect![[r#"
        Current version: [VERSION]
        Checking for updates...
        Found newer version: 99.0.0 (published at 2026-02-03T04:05:06Z)
        Release notes:
        Better.
        Updating [FOLDER]/muster to version 99.0.0...
        Successfully updated to version 99.0.0
        exit 0
    "#]]
    .assert_eq(&said);
    assert_eq!(version(&folder), "muster version 99.0.0\n");
}

#[test]
fn a_wrong_checksum_changes_nothing() {
    let (said, folder) = updated(release(&digest("something else")));
    expect![[r#"
        Current version: [VERSION]
        Checking for updates...
        Found newer version: 99.0.0 (published at 2026-02-03T04:05:06Z)
        Release notes:
        Better.
        Updating [FOLDER]/muster to version 99.0.0...
        Error: update failed: `[FILE]` has another checksum than the release names
        exit 1
    "#]]
    .assert_eq(&said);
    assert_eq!(version(&folder), format!("muster version {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_cannot_be_used_changes_nothing() {
    let mut without = release("");
    without["assets"][0]["name"] = json!("muster_99.0.0_elsewhere");
    let mut unsigned = release("");
    unsigned["assets"][0]["digest"] = Value::Null;
    let old = json!({"tag_name": "v0.0.1"});
    let said: Vec<String> = [without, unsigned, old, json!([])]
        .map(updated)
        .into_iter()
        .map(|(said, _)| said)
        .collect();
    expect![[r#"
        Current version: [VERSION]
        Checking for updates...
        Found newer version: 99.0.0 (published at 2026-02-03T04:05:06Z)
        Release notes:
        Better.
        Updating [FOLDER]/muster to version 99.0.0...
        Error: update failed: the release has no file `[FILE]`
        exit 1
        Current version: [VERSION]
        Checking for updates...
        Found newer version: 99.0.0 (published at 2026-02-03T04:05:06Z)
        Release notes:
        Better.
        Updating [FOLDER]/muster to version 99.0.0...
        Error: update failed: the release names no checksum of `[FILE]`
        exit 1
        Current version: [VERSION]
        Checking for updates...
        Current version is the latest.
        exit 0
        Current version: [VERSION]
        Checking for updates...
        Error: error detecting latest version: no release can be read: invalid length 0, expected struct Release with 4 elements at line 1 column 2

        hint: check the network connection and MUSTER_RELEASES_URL
        exit 1
    "#]].assert_eq(&said.concat());
}
