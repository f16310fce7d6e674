//! `climax` as another name of `muster`: the launcher beside it, a link to it, and the command.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use super::{
    client::{CLIMAX, Folder},
    serve::MUSTER,
};

/// The output of a program, which must succeed.
fn output(program: &Path, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn climax_is_muster_under_every_name() {
    let folder = Folder::new(&[]);
    let link = folder.file("climax");
    symlink(MUSTER, &link).unwrap();
    let launched = output(CLIMAX.as_ref(), &["list", "git"]);
    assert!(launched.contains("git_status"), "{launched}");
    assert_eq!(output(&link, &["list", "git"]), launched);
    assert_eq!(output(MUSTER.as_ref(), &["climax", "list", "git"]), launched);
    let help = output(MUSTER.as_ref(), &["climax", "--help"]);
    assert!(help.contains("Usage: climax"), "{help}");
    assert_eq!(output(&link, &["--help"]), help);
}

#[test]
fn a_launcher_without_muster_says_what_is_missing() {
    let folder = Folder::new(&[]);
    let alone = folder.file("climax");
    fs::copy(CLIMAX, &alone).unwrap();
    let output = Command::new(&alone).arg("git").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("could not start `muster`, which must be in the same directory"),
        "{error}"
    );
    assert!(error.contains("hint: "), "{error}");
}

#[test]
fn manual_pages_cover_every_command() {
    let folder = Folder::new(&[]);
    let dir = folder.file("man1");
    output(MUSTER.as_ref(), &["man", dir.to_str().unwrap()]);
    for page in ["muster.1", "muster-serve.1", "muster-token-create.1", "climax.1", "climax-run.1"]
    {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}
