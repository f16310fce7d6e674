//! The scenarios of the original muster, where they are at hand: each of them loads.

use std::{
    env,
    io::{Write, stderr},
    path::{Path, PathBuf},
};

use muster_scenario::load;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has no settings to read it from")]
fn every_given_file_loads() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let dir = env::var_os("MUSTER_SHARED").map_or_else(beside, PathBuf::from).join("scenarios");
    if !dir.exists() {
        // Past libtest's capture: `scripts/test` counts these lines.
        writeln!(stderr(), "skipped: every_given_file_loads: {} does not exist", dir.display())
            .unwrap();
        return;
    }
    let loaded = load::load(&dir).unwrap();
    assert!(loaded.len() > 100, "{} files", loaded.len());
    let errors: Vec<String> = loaded.iter().flat_map(load::LoadedFile::errors).collect();
    assert_eq!(errors, Vec::<String>::new());
}
