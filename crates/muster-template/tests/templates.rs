//! What real Go and sprig answer, and what we do.
//!
//! `templates.json` is our own table; the larger one that stands beside the project is looked at when
//! it is there.

#![expect(clippy::expect_used, reason = "a table that cannot be read is a failed test")]

use std::{fs, path::Path};

use muster_template::{Context, REFUSED, Template, functions};
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
    let cx = Context { now: (1_700_000_000, 0), random: Some(&random), ..Context::default() };
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

fn shared(name: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)?;
    fs::read_to_string(root.join("shared/cases/go-templates").join(name)).ok()
}

#[test]
fn our_table_agrees() {
    check(include_str!("templates.json"));
}

#[test]
fn the_shared_table_agrees() {
    if let Some(table) = shared("cases.json") {
        check(&table);
    }
}

#[test]
fn every_function_of_sprig_is_known() {
    let Some(names) = shared("functions.json") else { return };
    let names: Vec<String> = serde_json::from_str(&names).expect("a list of names");
    let known = functions();
    let unknown: Vec<_> = names.iter().filter(|name| !known.contains_key(name.as_str())).collect();
    assert!(unknown.is_empty(), "unknown: {unknown:?}");
    for (name, _) in REFUSED {
        assert!(names.iter().any(|known| known == name), "{name} is not sprig's");
    }
}
