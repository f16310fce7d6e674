//! Projections: the part of a result that a call requests.

use muster_core::{call::Outcome, token_estimate};
use muster_gateway::surface::discovery::DiscoverySurface;
use serde_json::{Value, json};

use crate::gateway::{Gateway, plain, raw};

fn people(count: usize) -> Value {
    let person = |number: usize| json!({"id": number, "name": format!("name {number}"), "bio": "x".repeat(500)});
    json!({"people": (0..count).map(person).collect::<Vec<_>>()})
}

/// A gateway with a tool that returns this JSON as text.
fn gateway(value: &Value) -> Gateway {
    let content = json!([{"type": "text", "text": value.to_string()}]);
    answering(json!({"content": content}))
}

fn answering(result: Value) -> Gateway {
    let tools = vec![plain("s", "t", "T", r#"{"type":"object"}"#)];
    let offer = muster_core::catalog::Offer { tools, ..Default::default() };
    let run = move |_: &_| Ok(Outcome::Raw(raw(&result.to_string())));
    Gateway::new().with("s", offer, run, |_| panic!("not asked"))
}

/// The texts inside the envelope.
fn texts(gateway: &Gateway, arguments: &Value) -> Vec<String> {
    let inside = gateway.json("call_tool", &arguments.to_string());
    let content = inside["content"].as_array().unwrap();
    content.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_the_part_that_is_selected_is_returned() {
    let gateway = gateway(&people(1_000));
    let call = |projection: Value| {
        let mut call = json!({"name": "t", "arguments": {}});
        call.as_object_mut().unwrap().extend(projection.as_object().unwrap().clone());
        texts(&gateway, &call)
    };
    assert_eq!(call(json!({"select": "$.people[7].name"}))[0], "name 7");
    assert_eq!(call(json!({"select": "$.people[?@.id > 997].id"}))[0], "[998,999]");
    assert_eq!(call(json!({"select": "$.people[*].name", "head": 2}))[0], "name 0\nname 1\n");
    for (filter, ids) in [
        ("search(@.name, ' 99[89]')", "[998,999]"),
        ("match(@.name, 'name 7')", "7"),
        ("length(@.name) == 6 && @.id > 8", "9"),
    ] {
        assert_eq!(call(json!({"select": format!("$.people[?{filter}].id")}))[0], ids, "{filter}");
    }
    let matches = call(json!({"select": "$.people[*].name", "grep": "99$"}));
    assert_eq!(matches[0].lines().count(), 10);
    assert!(
        matches[1].starts_with("[10 of 1000 lines match; all of it: get_output"),
        "{matches:?}"
    );
}

#[test]
fn a_path_that_selects_nothing_is_answered_with_the_shape() {
    let gateway = gateway(&people(1_000));
    for (path, head) in [("$.items[*].name", json!(null)), ("$.poeple[?@.id == 7]", json!(2))] {
        let call = json!({"name": "t", "select": path, "head": head});
        let shown = texts(&gateway, &call);
        let shape =
            "; the result has this shape: {\"people\":[{\"id\":0,\"name\":\"name 0\",\"bio\":\"xxx";
        assert!(shown[1].contains(shape), "{path}: {shown:?}");
        assert!(
            shown[1].contains("1000 items in all") && shown[1].contains("get_output"),
            "{shown:?}"
        );
        assert!(token_estimate::estimate(&shown[1]) < 250, "{shown:?}");
    }
}

#[test]
fn the_whole_result_can_be_read_later() {
    let gateway = gateway(&people(1_000));
    let call = json!({"name": "t", "arguments": {}, "select": "$.people[7].nmae"});
    let shown = texts(&gateway, &call);
    assert_eq!(shown[0], "[]");
    let (_, rest) = shown[1].split_once("\"handle\":\"").unwrap();
    let handle = rest.split('"').next().unwrap();
    let again = json!({"handle": handle, "path": "$.people[7].name"});
    let text = gateway.text("get_output", &again.to_string());
    assert!(text.starts_with("name 7\n"), "{text}");
    // The tool ran once.
    assert_eq!(gateway.heard.try_iter().count(), 1);
}

#[test]
fn a_malformed_projection_runs_nothing() {
    let gateway = gateway(&json!({}));
    for (projection, expect) in [
        (json!({"select": "people"}), "!select must be a JSON path"),
        (json!({"grep": "("}), "!grep must be a regular expression"),
        (json!({"grep": "(".repeat(5_000)}), "!grep must have at most 4096 bytes, not 5000"),
        (json!({"head": 0}), "!head must be at least 1"),
    ] {
        let mut call = json!({"name": "t", "arguments": {}});
        call.as_object_mut().unwrap().extend(projection.as_object().unwrap().clone());
        let text = gateway.text("call_tool", &call.to_string());
        assert!(text.starts_with(expect), "{text}");
    }
    assert_eq!(gateway.heard.try_iter().count(), 0);
}

#[test]
fn a_result_that_does_not_fit_the_projection_is_previewed() {
    let text = "first\nsecond\n".repeat(10);
    let gateway = answering(json!({"content": [{"type": "text", "text": text}]}));
    let shown = texts(&gateway, &json!({"name": "t", "select": "$.a"}));
    assert!(shown[0].starts_with("first\nsecond\n"), "{shown:?}");
    assert!(shown[1].starts_with("[nothing is selected: `out_"), "{shown:?}");
    let shown = texts(&gateway, &json!({"name": "t", "grep": "second", "head": 2}));
    assert_eq!(shown[0], "2: second\n4: second\n");
    let shown = texts(&gateway, &json!({"name": "t", "head": 1}));
    assert_eq!(shown[0], "first\n");
}

#[test]
fn failures_and_pictures_are_not_projected() {
    let failed = json!({"content": [{"type": "text", "text": "no such user"}], "isError": true});
    let call = r#"{"name":"t","grep":"never"}"#;
    assert_eq!(answering(failed).inner(call), "!no such user");
    let picture = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let text = json!({"type": "text", "text": "a\nb\nc"});
    let both = answering(json!({"content": [text, picture]}));
    let result: Value = serde_json::from_str(both.result("call_tool", call).get()).unwrap();
    assert_eq!(result["content"][1], picture);
    let inside: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(inside["content"][0]["text"], "");
    assert_eq!(inside["content"][2]["block"], 1);
}

#[test]
fn a_projection_keeps_to_the_budget() {
    let quotes = json!({"list": vec![r#""quoted" \ text"#; 5_000]});
    let gateway = gateway(&quotes);
    let call = json!({"name": "t", "select": "$.list", "max_tokens": 1_000});
    let text = gateway.text("call_tool", &call.to_string());
    assert!(token_estimate::estimate(&text) <= 1_100, "{}", text.len());
    let shown = texts(&gateway, &call);
    assert_eq!(next_call(&shown[1])["path"], "$.list", "{shown:?}");
}

#[test]
fn what_surrounds_a_projection_keeps_to_the_budget() {
    let lines = "line\n".repeat(5_000);
    let beside = "w ".repeat(900);
    let gateway = answering(json!({"content": [{"type": "text", "text": lines}], "more": beside}));
    for (projection, expect) in [
        (json!({"grep": "line"}), "[the selection does not fit max_tokens]"),
        (json!({"select": "$.a"}), "[nothing is selected: "),
    ] {
        let mut call = json!({"name": "t", "max_tokens": 300});
        call.as_object_mut().unwrap().extend(projection.as_object().unwrap().clone());
        let text = gateway.text("call_tool", &call.to_string());
        assert!(token_estimate::estimate(&text) <= 330, "{text}");
        let shown = texts(&gateway, &call);
        assert!(shown[0].contains("get_output") && shown[1].starts_with(expect), "{shown:?}");
    }
}

#[test]
fn arguments_of_the_tool_stay_the_tools() {
    let schema = r#"{"type":"object","properties":{"select":{"type":"string"}}}"#;
    let tools = vec![plain("s", "t", "T", schema)];
    let gateway = Gateway::new().with_tools("s", tools, r#"{"content":[]}"#);
    gateway.text("call_tool", r#"{"name":"t","select":"id"}"#);
    assert_eq!(gateway.heard.try_recv().unwrap(), r#"t {"select":"id"}"#);
    gateway.text("call_tool", r#"{"name":"t","arguments":{"select":"id"},"select":"$.id"}"#);
    assert_eq!(gateway.heard.try_recv().unwrap(), r#"t {"select":"id"}"#);
}

#[test]
fn the_discovery_surface_takes_projections_too() {
    let gateway = gateway(&people(1_000));
    let surface = DiscoverySurface::default();
    let call = r#"{"tool_name":"t","args":{},"select":"$.people[7].name"}"#;
    let Outcome::Raw(result) = gateway.reply_of(&surface, "climax_call", call) else { panic!() };
    let result: Value = serde_json::from_str(result.get()).unwrap();
    assert_eq!(result["content"][0]["text"], "name 7");
}

#[test]
fn an_argument_that_is_moved_into_args_is_not_a_projection_too() {
    let schema = r#"{"type":"object","properties":{"head":{"type":"integer"}}}"#;
    let result = r#"{"content":[{"type":"text","text":"one\ntwo"}]}"#;
    let gateway = Gateway::new().with_tools("s", vec![plain("s", "t", "T", schema)], result);
    let surface = DiscoverySurface::default();
    for (call, heard, shown) in [
        (r#"{"tool_name":"t","args":{},"head":1}"#, r#"t {"head":1}"#, "one\ntwo"),
        (r#"{"tool_name":"t","head":1}"#, r#"t {"head":1}"#, "one\ntwo"),
        (r#"{"tool_name":"t","args":{"head":2},"head":1}"#, r#"t {"head":2}"#, "one\n"),
    ] {
        let Outcome::Raw(reply) = gateway.reply_of(&surface, "climax_call", call) else { panic!() };
        let reply: Value = serde_json::from_str(reply.get()).unwrap();
        assert_eq!(reply["content"][0]["text"], shown, "{call}: {reply}");
        assert_eq!(gateway.heard(), [heard], "{call}");
    }
}

/// The complete call in a note.
fn next_call(note: &str) -> Value {
    let (_, call) = note.split_once("for more: get_output ").unwrap_or_else(|| panic!("{note}"));
    let mut values = serde_json::Deserializer::from_str(call).into_iter();
    values.next().unwrap().unwrap()
}

#[test]
fn the_note_leads_to_the_next_page() {
    let lines: Vec<String> = (0..100).map(|n| format!("row {n}\nother {n}")).collect();
    let text = answering(json!({"content": [{"type": "text", "text": lines.join("\n")}]}));
    let list = gateway(&people(100));
    for (gateway, call, first, second) in [
        (&text, json!({"name": "t", "grep": "row", "head": 3}), "1: row 0\n", "7: row 3\n"),
        (&text, json!({"name": "t", "head": 3}), "row 0\n", "other 1\n"),
        (
            &list,
            json!({"name": "t", "select": "$.people[*].name", "head": 3}),
            "name 0\n",
            "name 3\n",
        ),
        (
            &list,
            json!({"name": "t", "select": "$.people[*].name", "grep": "9", "head": 2}),
            "10: name 9\n",
            "30: name 29\n",
        ),
    ] {
        let shown = texts(gateway, &call);
        assert!(shown[0].starts_with(first), "{shown:?}");
        let page = gateway.text("get_output", &next_call(&shown[1]).to_string());
        assert!(page.starts_with(second), "{call}: {page}");
    }
}
