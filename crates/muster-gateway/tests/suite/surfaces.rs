//! What clients see, and the texts they read.

use expect_test::{Expect, expect};
use muster_core::{json::raw, request::Request};
use muster_gateway::{
    outputs::Outputs,
    surface::{Surface, classic::Classic, discovery::DiscoverySurface, meta::Meta},
};
use serde_json::{Value, json};

use super::world::World;

fn ask(policy: Option<&str>, surface: impl Surface + 'static, tool: &str, args: Value) -> Value {
    let request = Request::CallTool { name: tool.to_owned(), arguments: Some(raw(&args)) };
    World::new(policy).ask(Box::new(surface), request)
}

/// The text of a reply, and its structured content.
fn told(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str().unwrap();
    let beside = result.get("structuredContent").map(|beside| {
        let mut beside = beside.clone();
        // Structured errors repeat the text for clients that read nothing else.
        assert_eq!(beside["error"].take(), *text);
        beside.as_object_mut().unwrap().shift_remove("error");
        format!("\nbeside: {beside}")
    });
    format!("failed: {}\n{text}{}\n", result["isError"], beside.unwrap_or_default())
}

#[track_caller]
fn check_call(policy: Option<&str>, tool: &str, args: Value, expect: Expect) {
    let result = ask(
        policy,
        DiscoverySurface::default(),
        "climax_call",
        json!({"tool_name": tool, "args": args}),
    );
    expect.assert_eq(&told(&result));
}

#[track_caller]
fn check_classic(policy: Option<&str>, tool: &str, args: Value, expect: Expect) {
    expect.assert_eq(&told(&ask(policy, Classic, tool, args)));
}

fn names(policy: Option<&str>, surface: impl Surface + 'static) -> Vec<String> {
    let request = Request::ListTools { cursor: None };
    let result = World::new(policy).ask(Box::new(surface), request);
    let tools = result["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn discovery_shows_two_tools_whatever_there_is() {
    let nothing = Some("{}");
    assert_eq!(names(None, DiscoverySurface::default()), ["climax_search", "climax_call"]);
    assert_eq!(names(nothing, DiscoverySurface::default()), ["climax_search", "climax_call"]);
    assert_eq!(names(None, Classic), ["say", "plain", "nest"]);
    assert_eq!(names(Some("{tools: {nest: {}, say: {}}}"), Classic), ["say", "nest"]);
    assert_eq!(names(nothing, Classic), [""; 0]);
}

#[test]
fn a_policy_may_replace_descriptions() {
    let policy = "{tools: {say: {description: Speak}, plain: {description: ''}}}";
    let list = Request::ListTools { cursor: None };
    let result = World::new(Some(policy)).ask(Box::new(Classic), list);
    let tools = result["tools"].as_array().unwrap().iter();
    let words: Vec<_> = tools.map(|tool| tool["description"].as_str().unwrap()).collect();
    assert_eq!(words, ["Speak", "Takes nothing"]);
    let found = search(Some(policy), json!({"query": "s"}));
    assert_eq!(found["results"][0]["description"], "Says something");
}

#[test]
fn answers_of_a_tool_pass() {
    check_call(
        None,
        "say",
        json!({"text": "x"}),
        expect![[r#"
        failed: false
        say text='x'
    "#]],
    );
    check_classic(
        None,
        "plain",
        json!({}),
        expect![[r#"
        failed: false
        plain
    "#]],
    );
    for args in [json!({"tool_name": "plain", "args": null}), json!({"tool_name": "plain", "x": 1})]
    {
        let result = ask(None, DiscoverySurface::default(), "climax_call", args);
        assert_eq!(result["content"][0]["text"], "plain");
    }
}

#[test]
fn unknown_names() {
    check_call(
        None,
        "sya",
        json!({}),
        expect![[r#"
        failed: true
        Unknown tool: sya
        beside: {"hint":"did you mean `say`?","did_you_mean":["say"]}
    "#]],
    );
    check_call(
        Some("{}"),
        "say",
        json!({}),
        expect![[r#"
        failed: true
        Unknown tool: say
        beside: {"hint":"call `climax_search` to see what there is"}
    "#]],
    );
    check_classic(
        None,
        "sya",
        json!({}),
        expect![[r#"
        failed: true
        Unknown tool: sya. Available tools: nest, plain, say
    "#]],
    );
    expect![[r#"
        failed: true
        Unknown tool: say. Available tools: climax_search, climax_call
    "#]]
    .assert_eq(&told(&ask(None, DiscoverySurface::default(), "say", json!({"text": "x"}))));
}

#[test]
fn arguments_that_do_not_fit() {
    check_call(
        None,
        "say",
        json!({"count": "x", "txt": 1}),
        expect![[r#"
            failed: true
            Argument validation failed:
              - Missing required argument 'text'
              - Argument 'count': cannot convert 'x' to integer
            beside: {"hint":"there is no argument `txt`; did you mean `text`?","input_schema":{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"},"tone":{"type":"string","enum":["loud","low"]}},"required":["text"]},"ignored":["txt"]}
        "#]],
    );
    check_classic(
        None,
        "say",
        json!({"text": 1}),
        expect![[r#"
        failed: true
        Input validation error: 1 is not of type 'string'
        beside: {"input_schema":{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer"},"tone":{"type":"string","enum":["loud","low"]}},"required":["text"]}}
    "#]],
    );
}

#[test]
fn calls_that_do_not_fit_the_meta_tools() {
    let check = |tool: &str, args: Value, message: &str| {
        let result = ask(None, DiscoverySurface::default(), tool, args);
        assert_eq!(result["content"][0]["text"], format!("Input validation error: {message}"));
        assert_eq!(result["isError"], true);
    };
    check("climax_call", json!({}), "'tool_name' is a required property");
    check("climax_call", json!({"tool_name": 5}), "5 is not of type 'string'");
    check("climax_call", json!({"tool_name": "say", "args": "x"}), "'x' is not of type 'object'");
    check("climax_call", json!({"tool_name": "say", "args": []}), "[] is not of type 'object'");
    check("climax_search", json!({"limit": "2"}), "'2' is not of type 'integer'");
    check("climax_search", json!({"limit": 2.5}), "2.5 is not of type 'integer'");
    check("climax_search", json!({"limit": true}), "True is not of type 'integer'");
    check("climax_search", json!({"query": null}), "None is not of type 'string'");
}

/// What `climax_call` says of arguments sent in another shape, and what is beside it.
#[track_caller]
fn check_shape(args: Value, expect: Expect) {
    let result = ask(None, DiscoverySurface::default(), "climax_call", args);
    let text = result["content"][0]["text"].as_str().unwrap();
    let beside = result.get("structuredContent").map(|beside| format!("\n{beside}"));
    expect.assert_eq(&format!("{} {text}{}", result["isError"], beside.unwrap_or_default()));
}

#[test]
fn what_call_tool_forgives_climax_call_forgives() {
    check_shape(
        json!({"tool_name": "say", "args": "{\"text\":\"x\"}"}),
        expect![[r#"
            false say text='x'
            {"repaired":["read `args` from JSON text"]}"#]],
    );
    check_shape(
        json!({"name": "say", "arguments": {"text": "x"}}),
        expect![[r#"
        false say text='x'
        {"repaired":["read `name` as `tool_name`, `arguments` as `args`"]}"#]],
    );
    check_shape(
        json!({"tool": "say", "params": {"text": "x"}, "max_tokens": 900}),
        expect![[r#"
        false say text='x'
        {"repaired":["read the tool's name from `tool`","read the arguments from `params`"]}"#]],
    );
    check_shape(
        json!({"tool_name": "say", "text": "x"}),
        expect![[r#"
        false say text='x'
        {"repaired":["moved `text` into `args`"]}"#]],
    );
    check_shape(
        json!({"args": {"tool_name": "say", "args": {"text": "x"}}}),
        expect![[r#"
        false say text='x'
        {"repaired":["took the call out of the object around it","read the tool's name from `tool_name`","read the arguments from `args`"]}"#]],
    );
}

#[test]
fn keys_without_effect_are_named_beside_the_text() {
    check_shape(
        json!({"tool_name": "say", "args": {"text": "x", "cuont": 3, "z": 1}, "limit": 2}),
        expect![[r#"
            false say text='x'
            {"ignored":["limit","cuont","z"],"hint":"`say` has no argument `cuont`; did you mean `count`?"}"#]],
    );
    check_shape(
        json!({"name": "say", "arguments": {"text": "x", "bogus": 1}}),
        expect![[r#"
            false say text='x'
            {"repaired":["read `name` as `tool_name`, `arguments` as `args`"],"ignored":["bogus"]}"#]],
    );
    let found = ask(None, DiscoverySurface::default(), "climax_search", json!({"qery": "say"}));
    assert_eq!(
        found["structuredContent"],
        json!({"ignored": ["qery"], "hint": "there is no argument `qery`; did you mean `query`?"})
    );
}

#[test]
fn what_cannot_be_read_stays_an_error_in_the_words_of_the_contract() {
    check_shape(
        json!({"tool_name": "say", "args": "text"}),
        expect![[r#"
            true Input validation error: 'text' is not of type 'object'
            {"error":"Input validation error: 'text' is not of type 'object'","hint":"send `args` as a JSON object"}"#]],
    );
    check_shape(
        json!({"name": "none", "arguments": {}}),
        expect!["true Input validation error: 'tool_name' is a required property"],
    );
}

#[test]
fn every_surface_says_how_to_use_it() {
    for surface in [&Classic as &dyn Surface, &DiscoverySurface::default(), &Meta::default()] {
        let said = surface.instructions();
        assert!(said.len() < 720 && said.contains("call"), "{said}");
    }
}

#[test]
fn what_the_policy_refuses() {
    let policy =
        "{default: enabled, tools: {say: {args: {text: {pattern: 'a'}, count: {max: 1}}}}}";
    check_call(
        Some(policy),
        "say",
        json!({"text": "b", "count": 2}),
        expect![[r#"
        failed: true
        Policy validation failed:
          - Argument 'text': value 'b' does not match pattern 'a'
          - Argument 'count': value 2 exceeds maximum 1.0
        beside: {"hint":"the values allowed are set by this server's policy"}
    "#]],
    );
}

fn search(policy: Option<&str>, args: Value) -> Value {
    let result = ask(policy, DiscoverySurface::default(), "climax_search", args);
    assert_eq!(result["isError"], false, "{result}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn a_search_without_filters_is_a_summary() {
    let summary = json!({"mode": "summary", "summary": [{
        "name": "demo", "description": "For tests", "tool_count": 3, "category": "test", "tags": [],
    }]});
    assert_eq!(search(None, json!({})), summary);
    assert_eq!(search(None, json!({"limit": 5, "unknown": 1})), summary);
    // Hidden tools are still counted.
    assert_eq!(search(Some("{}"), json!({})), summary);
    assert_eq!(search(None, json!({"limit": 0}))["summary"], json!([]));
}

#[test]
fn a_search_finds_what_the_policy_shows_up_to_its_limit() {
    let check = |policy: Option<&str>, args: Value, expect: &[&str]| {
        let found = search(policy, args);
        assert_eq!(found["mode"], "search");
        let names = found["results"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|found| found["tool_name"].as_str().unwrap()).collect();
        assert_eq!(names, expect);
    };
    check(None, json!({"query": ""}), &["say", "plain", "nest"]);
    check(None, json!({"query": "", "limit": 2}), &["say", "plain"]);
    check(None, json!({"query": "", "limit": -1}), &["say", "plain"]);
    check(None, json!({"cli": "DEMO", "query": "itself"}), &["nest"]);
    check(None, json!({"category": "other"}), &[]);
    let one = Some("{tools: {nest: {}}}");
    check(one, json!({"query": "", "limit": 1}), &["nest"]);
    check(one, json!({"query": "say"}), &[]);
}

#[test]
fn a_token_budget_selects_short_results() {
    let found = search(None, json!({"query": "say", "max_tokens": 300}));
    assert_eq!(
        found,
        json!({"mode": "search", "results": [{
            "tool_name": "say", "description": "Says something", "cli_name": "demo",
            "args": "text, count?: integer, tone?: loud|low", "effect": "write",
        }]})
    );
    let summary = search(None, json!({"max_tokens": 300}));
    let demo = json!({"name": "demo", "description": "For tests", "tool_count": 3});
    assert_eq!(summary, json!({"mode": "summary", "summary": [demo]}));
    let policy = Some("{default: enabled, tools: {say: {effect: read}}}");
    let found = search(policy, json!({"query": "", "effect": "read"}));
    let names: Vec<_> = found["results"].as_array().unwrap().iter().collect();
    assert_eq!((names.len(), &names[0]["tool_name"]), (1, &json!("say")));
    let wrong = ask(None, DiscoverySurface::default(), "climax_search", json!({"max_tokens": 3}));
    assert_eq!(told(&wrong), "failed: true\nmax_tokens must be at least 300\n");
}

#[test]
fn an_effect_ceiling_applies() {
    let call = |policy, args| ask(policy, DiscoverySurface::default(), "climax_call", args);
    let bounded = json!({"tool_name": "plain", "effect": "read"});
    assert_eq!(
        told(&call(None, bounded.clone())),
        "failed: true\n`plain` is write, and the call said `read`\n\
         hint: if that is wanted, call again with effect `write`\n"
    );
    let policy = Some("{default: enabled, tools: {plain: {effect: read}}}");
    assert_eq!(call(policy, bounded)["isError"], false);
}

#[test]
fn a_long_result_is_stored_within_a_budget() {
    let world = World::new(None);
    let folder = tempfile::tempdir().unwrap();
    let call = |args: &Value| {
        let surface = DiscoverySurface::storing(Outputs::at(folder.path()));
        let name = "climax_call".to_owned();
        world.ask(Box::new(surface), Request::CallTool { name, arguments: Some(raw(args)) })
    };
    let long = "a long text ".repeat(500);
    let said = json!({"tool_name": "say", "args": {"text": long}});
    let whole = call(&said)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(whole.contains(&long), "without a budget nothing is kept");
    let mut short = said;
    short["max_tokens"] = json!(300);
    let kept = call(&short);
    let handle = &kept["_meta"]["muster/output"]["handle"];
    assert!(kept["content"][0]["text"].as_str().unwrap().len() < 1_500, "{kept}");
    let read = json!({"tool_name": "get_output", "args": {"handle": handle, "offset": 0}});
    assert_eq!(call(&read)["content"][0]["text"], whole);
    let strange = call(&json!({"tool_name": "get_output", "args": {"handle": "out_1"}}));
    assert_eq!(strange["isError"], true);
}
