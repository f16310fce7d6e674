//! What real Go and sprig answer, and what we do.
//!
//! `templates.json` is our own table. The larger one is recorded data beside the repository; without it
//! its tests are reported as skipped.

#![expect(clippy::expect_used, reason = "a table that cannot be read is a failed test")]

use std::{
    env, fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
};

use muster_template::{REFUSED, RenderContext, Template, functions};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Table {
    context: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    /// None when Go fails.
    output: Option<String>,
}

/// Templates whose output differs from run to run: what they are compared by instead.
const BY_LENGTH: [&str; 2] = ["randAlphaNum 8", "now | date"];

fn render(template: &str, data: &Value) -> Result<String, String> {
    let random = |bytes: &mut [u8]| bytes.fill(7);
    let cx = RenderContext {
        now: (1_700_000_000, 0),
        random: Some(&random),
        ..RenderContext::default()
    };
    let parsed = Template::parse(template).map_err(|error| error.to_string())?;
    parsed.render(data, &cx).map_err(|error| error.to_string())
}

fn agrees(case: &Case, ours: &Result<String, String>) -> bool {
    match (&case.output, ours) {
        (Some(output), Ok(text)) if BY_LENGTH.iter().any(|name| case.template.contains(name)) => {
            output.len() == text.len()
        }
        (Some(output), Ok(text)) => output == text,
        (None, Err(_)) => true,
        // What is refused here is an answer there.
        (Some(_), Err(_)) => {
            REFUSED.iter().any(|(name, _)| case.template.contains(&format!(" {name} ")))
        }
        (None, Ok(_)) => false,
    }
}

#[track_caller]
fn check(table: &str) {
    let table: Table = serde_json::from_str(table).expect("the table is JSON");
    let mut differences = Vec::new();
    for case in &table.cases {
        let ours = render(&case.template, &table.context);
        if !agrees(case, &ours) {
            differences
                .push(format!("{}\n  Go:   {:?}\n  ours: {ours:?}", case.template, case.output));
        }
    }
    let (differ, all) = (differences.len(), table.cases.len());
    assert!(differ == 0, "{differ} of {all} differ:\n{}", differences.join("\n"));
}

/// Recorded data beside the repository (`MUSTER_SHARED`, or `../shared`). A test without its data
/// reports that it is skipped, past libtest's capture, and `scripts/test` counts the report.
#[expect(clippy::disallowed_methods, reason = "a test has no settings to read it from")]
fn shared(test: &str, name: &str) -> Option<String> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = env::var_os("MUSTER_SHARED").map_or_else(beside, PathBuf::from);
    let path = root.join("cases/go-templates").join(name);
    if !path.exists() {
        writeln!(stderr(), "skipped: {test}: {} does not exist", path.display())
            .expect("standard error is open");
        return None;
    }
    Some(fs::read_to_string(path).expect("recorded data is readable"))
}

#[test]
fn our_table_agrees() {
    check(include_str!("templates.json"));
}

#[test]
fn the_shared_table_agrees() {
    if let Some(table) = shared("the_shared_table_agrees", "cases.json") {
        check(&table);
    }
}

#[test]
fn every_function_of_sprig_is_known() {
    let Some(names) = shared("every_function_of_sprig_is_known", "functions.json") else { return };
    let names: Vec<String> = serde_json::from_str(&names).expect("a list of names");
    let known = functions();
    let unknown: Vec<_> = names.iter().filter(|name| !known.contains_key(name.as_str())).collect();
    assert!(unknown.is_empty(), "unknown: {unknown:?}");
    for (name, _) in REFUSED {
        assert!(names.iter().any(|known| known == name), "{name} is not sprig's");
    }
}
