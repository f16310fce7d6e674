//! Workflow files.

use super::{WorkflowLines, parse, text};

const FILE: &str = r#"apiVersion: muster.giantswarm.io/v1alpha1
kind: Workflow
metadata:
  name: rotate-key
  labels: {team: a}
spec:
  description: Create a new key
  args:
    owner: {type: string, required: true}
    bits: {type: integer, default: 4096}
  steps:
    - id: make
      tool: x_vault_create_key
      args: {owner: "{{ .input.owner }}", bits: "{{ .input.bits }}"}
      store: true
    - id: tell
      tool: x_chat_post
      condition:
        fromStep: make
        expect: {success: true, jsonPath: {state: "ready"}}
      args:
        text: "new key {{ .results.make.id }}"
      allowFailure: true
"#;

#[test]
fn a_file_is_read_and_written_back() {
    let loaded = parse(FILE, "file").unwrap();
    assert_eq!(loaded.warnings, []);
    let workflow = loaded.value;
    assert_eq!((workflow.name.as_str(), workflow.namespace.as_str()), ("rotate-key", "default"));
    assert_eq!(workflow.spec.steps.len(), 2);
    let again = parse(&text(&workflow), "other").unwrap();
    assert_eq!((again.value, again.warnings), (workflow, Vec::new()));
}

#[test]
fn a_short_file_is_enough() {
    let loaded = parse("steps:\n- id: a\n  tool: t\n", "short").unwrap();
    assert_eq!(loaded.value.name, "short");
    assert_eq!(loaded.value.spec.steps.len(), 1);
    assert_eq!(loaded.warnings, []);
}

#[test]
fn lines_are_found() {
    let lines = WorkflowLines::of(FILE);
    let line =
        |path: &[&str]| lines.line(&path.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
    assert_eq!(line(&["steps", "1", "args", "text"]), Some(22));
    assert_eq!(line(&["steps", "1", "condition", "fromStep"]), Some(19));
    // A missing field has the line of its mapping.
    assert_eq!(line(&["steps", "0", "condition"]), Some(12));
}

#[track_caller]
fn problems(file: &str, expect: &[&str]) {
    let said = match parse(file, "file") {
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(|warning| format!("{}: {warning}", warning.line))
            .collect::<Vec<_>>(),
        Err(super::LoadError::Fields(problems)) => {
            problems.iter().map(|problem| format!("{}! {problem}", problem.line)).collect()
        }
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(said, expect);
}

#[test]
fn problems_are_reported_with_their_line() {
    problems("kind: Workflow\n", &["1! spec: Field required"]);
    problems("step: []\n", &["1! steps: Field required"]);
    problems("kind: MCPServer\nspec: {}\n", &["1! kind: Input should be 'Workflow'"]);
    problems(
        "spec:\n  steps:\n    - id: a\n    - tool: t\n    - id: c\n      tool: [t]\n",
        &[
            "3! spec → steps → 0: a step needs a `tool`",
            "4! spec → steps → 1: a step needs an `id`",
            "6! spec → steps → 2 → tool: Input should be a valid string",
        ],
    );
    problems(
        "spec:\n  step: []\n  steps:\n    - id: a\n      tool: t\n      allowFail: true\n",
        &[
            "2: spec → step: unknown field; did you mean `steps`?",
            "6: spec → steps → 0 → allowFail: unknown field; did you mean `allowFailure`?",
        ],
    );
}
