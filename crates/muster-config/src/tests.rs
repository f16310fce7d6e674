//! How problems and warnings read.

use super::{LoadError, Problem, ProblemKind, UNKNOWN_FIELD, Warning};
use crate::yaml::SyntaxError;

fn problem(path: &[&str], message: &str) -> Problem {
    Problem {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        message: message.to_owned(),
        fix: None,
        line: 1,
        column: 1,
        kind: ProblemKind::Invalid,
    }
}

#[test]
fn everything_prints_on_one_line() {
    let required = problem(&["tools", "0", "name"], "Field required");
    assert_eq!(required.to_string(), "tools → 0 → name: Field required");
    let text = problem(&["command"], "Input should be a valid string");
    assert_eq!(
        LoadError::Fields(vec![text, required]).to_string(),
        "command: Input should be a valid string; tools → 0 → name: Field required"
    );
    let syntax = SyntaxError { line: 2, column: 5, message: "no".to_owned() };
    assert_eq!(LoadError::Syntax(syntax).to_string(), "line 2, column 5: no");
    let found = "NoneType";
    assert_eq!(
        LoadError::NotAMapping { found }.to_string(),
        "the file is empty (NoneType): it must hold a mapping"
    );
    let mut warning = Warning {
        path: vec!["tols".to_owned()],
        line: 1,
        column: 1,
        message: UNKNOWN_FIELD.to_owned(),
        similar: Some("tools"),
    };
    assert_eq!(warning.to_string(), "tols: unknown field; did you mean `tools`?");
    warning.similar = None;
    assert_eq!(warning.to_string(), "tols: unknown field");
}
