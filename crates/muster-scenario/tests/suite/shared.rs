//! The scenarios of the original, where they are at hand: each of them loads.

use std::path::Path;

use muster_scenario::load;

#[test]
fn every_given_file_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    let Some(dir) = root.map(|root| root.join("shared/scenarios")).filter(|dir| dir.is_dir())
    else {
        return;
    };
    let loaded = load::load(&dir).unwrap();
    assert!(loaded.len() > 100, "{} files", loaded.len());
    let errors: Vec<String> = loaded.iter().flat_map(load::Loaded::errors).collect();
    assert_eq!(errors, Vec::<String>::new());
}
