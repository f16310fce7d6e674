//! Workflows as values.

use serde_json::json;

use super::{Workflow, definition::read, find_cycle};

fn workflow(name: &str, tools: &[&str]) -> Workflow {
    let steps: Vec<_> =
        tools.iter().map(|tool| json!({"id": format!("s-{tool}"), "tool": tool})).collect();
    Workflow::new(name, "default", read(&json!({"steps": steps})).unwrap().spec)
}

#[test]
fn missing_tools_are_those_of_servers_and_workflows() {
    let all = [
        workflow("whole", &["x_a_b", "core_service_nope"]),
        workflow("lacking", &["x_a_c", "x_a_b", "x_a_c"]),
        workflow("above", &["workflow_lacking"]),
        workflow("top", &["x_a_b", "workflow_above", "workflow_whole"]),
        workflow("lost", &["workflow_gone"]),
        workflow("hidden", &["workflow_secret"]),
        workflow("secret", &["x_a_b"]),
        workflow("cycle", &["workflow_cycle", "x_a_b"]),
        workflow("core", &["core_nope"]),
    ];
    let find = |name: &str| all.iter().find(|workflow| workflow.name == name);
    let known = |tool: &str| {
        tool == "x_a_b" || (tool.starts_with("workflow_") && tool != "workflow_secret")
    };
    let missing = |name: &str| find(name).unwrap().missing_tools(find, known).join(" ");
    for available in ["whole", "cycle", "secret"] {
        assert_eq!(missing(available), "", "{available}");
    }
    for lacking in ["lacking", "above", "top"] {
        assert_eq!(missing(lacking), "x_a_c", "{lacking}");
    }
    assert_eq!(missing("lost"), "workflow_gone");
    assert_eq!(missing("hidden"), "workflow_secret");
    assert_eq!(missing("core"), "core_nope");
    let nested = json!({
        "steps": [{"id": "p", "parallel": [{"id": "a", "tool": "x_no",
            "condition": {"tool": "x_only_asked", "expect": {"success": true}}}]}],
        "onFailure": [{"id": "b", "tool": "x_undo"}],
    });
    let nested = Workflow::new("w", "default", read(&nested).unwrap().spec);
    assert_eq!(nested.missing_tools(find, known), ["x_no", "x_undo"]);
}

#[test]
fn cycles_are_found() {
    let all = [
        workflow("a", &["x", "workflow_b"]),
        workflow("b", &["workflow_c", "workflow_d"]),
        workflow("c", &["workflow_c"]),
        workflow("d", &["workflow_a", "workflow_gone"]),
        workflow("e", &["workflow_a"]),
    ];
    let find = |name: &str| all.iter().find(|workflow| workflow.name == name);
    let way = |name: &str| find_cycle(find(name).unwrap(), &find).map(|way| way.join(" "));
    assert_eq!(way("a").as_deref(), Some("a b d a"));
    assert_eq!(way("c").as_deref(), Some("c c"));
    assert_eq!(way("e"), None);
}

#[test]
fn both_spellings_are_equal() {
    let tool = json!({"steps": [{"id": "a", "tool": "t", "allow_failure": true, "output": true,
        "condition": {"from_step": "b", "expect": {"success": true, "json_path": {"x": 1}},
            "expect_not": {"json_path": {"y": 2}}}}], "on_failure": [{"id": "c", "tool": "t"}]});
    let file = json!({"steps": [{"id": "a", "tool": "t", "allowFailure": true, "output": true,
        "condition": {"fromStep": "b", "expect": {"success": true, "jsonPath": {"x": 1}},
            "expectNot": {"jsonPath": {"y": 2}}}}], "onFailure": [{"id": "c", "tool": "t"}]});
    let (tool, file) = (read(&tool).unwrap(), read(&file).unwrap());
    assert_eq!(tool, file);
    assert!(tool.unknown.is_empty());
    let visible = |step: serde_json::Value| {
        read(&json!({"steps": [step]})).unwrap().spec.steps[0].is_visible()
    };
    assert!(visible(json!({"id": "a", "tool": "t", "store": true})));
    assert!(visible(json!({"id": "a", "tool": "t", "output": true})));
    assert!(!visible(json!({"id": "a", "tool": "t", "output": false, "store": true})));
    let again = read(&serde_json::Value::Object(tool.spec.to_file())).unwrap();
    assert_eq!(again.spec, tool.spec);
}

#[test]
fn unknown_fields_are_reported() {
    let read = read(&json!({"stepps": 1, "steps": [{"id": "a", "tool": "t", "stor": true}]}));
    let unknown: Vec<_> = read
        .unwrap()
        .unknown
        .into_iter()
        .map(|(path, meant)| (path.join("."), meant.unwrap_or_default()))
        .collect();
    assert_eq!(unknown, [("stepps".to_owned(), "steps"), ("steps.0.stor".to_owned(), "store")]);
}
