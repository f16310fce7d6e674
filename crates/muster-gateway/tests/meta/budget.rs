//! No reply exceeds its token budget, and no long result is lost.

use std::sync::Arc;

use muster_core::{
    call::{Caller, Outcome},
    catalog::{Offer, ToolEntry},
    client::NoClient,
    json::Raw,
    token_estimate,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::gateway::{Gateway, plain, raw, tool, tool_call};

/// The tokens of a text, by a widely used tokenizer.
fn cost(tokenizer: &CoreBPE, text: &str) -> usize {
    tokenizer.encode_ordinary(text).len()
}

fn words(most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => "[a-z]{1,9}",
        1 => "[A-Z][a-z]{2,8}",
        1 => "[0-9]{1,6}",
        1 => Just("größe".to_owned()),
        1 => "[あ-ん一-龠]{1,4}",
        1 => "[-{}\"\\\\:,./🙂]{1,3}",
        1 => Just("issue".to_owned()),
    ];
    proptest::collection::vec(word, 0..most).prop_map(|words| words.join(" "))
}

fn entry() -> impl Strategy<Value = (String, String, Vec<(String, String)>)> {
    let argument = ("[a-z_]{1,20}", words(12));
    ("[a-z]{2,8}(_[a-z]{2,8}){0,5}", words(60), proptest::collection::vec(argument, 0..12))
}

fn schema(arguments: &[(String, String)]) -> String {
    let properties: serde_json::Map<String, Value> = arguments
        .iter()
        .map(|(name, text)| (name.clone(), json!({"type": "string", "description": text})))
        .collect();
    json!({"type": "object", "properties": properties}).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_search_never_costs_more_than_it_may(
        tools in proptest::collection::vec(entry(), 1..25),
        query in words(80),
        (limit, offset, max_tokens) in (1_usize..30, 0_usize..10, 300_usize..3_000),
        (include_schema, by_pattern) in (any::<bool>(), any::<bool>()),
    ) {
        let tokenizer = tiktoken_rs::o200k_base_singleton();
        let entries: Vec<ToolEntry> = tools
            .iter()
            .map(|(name, text, arguments)| plain("many", name, text, &schema(arguments)))
            .collect();
        let gateway = Gateway::new().with_tools("many", entries, "{}");
        let mut arguments = json!({"limit": limit, "offset": offset, "include_schema": include_schema});
        let key = if by_pattern { "description_filter" } else { "query" };
        arguments[key] = json!(query);
        let usual = gateway.text("filter_tools", &arguments.to_string());
        let most = if include_schema { 6_000 } else { 1_200 };
        prop_assert!(cost(tokenizer, &usual) <= most, "{usual}");
        arguments["max_tokens"] = json!(max_tokens);
        let bounded = gateway.text("filter_tools", &arguments.to_string());
        prop_assert!(cost(tokenizer, &bounded) <= max_tokens, "{bounded}");
        prop_assert!(token_estimate::estimate(&bounded) <= max_tokens, "{bounded}");
    }
}

/// A gateway whose one tool returns `result`.
fn answering(result: impl Fn() -> Outcome + Send + Sync + 'static) -> Gateway {
    let look = tool("srv", r#"{"name":"look","inputSchema":{"type":"object"}}"#);
    let offer = Offer { tools: vec![look], ..Offer::default() };
    Gateway::new().with("srv", offer, move |_| Ok(result()), |_| panic!("not asked"))
}

fn called(gateway: &Gateway, max_tokens: usize) -> (Value, Value) {
    let arguments = json!({"name": "x_srv_look", "max_tokens": max_tokens}).to_string();
    let result: Value =
        serde_json::from_str(gateway.result("call_tool", &arguments).get()).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(token_estimate::estimate(text) <= max_tokens, "{text}");
    (serde_json::from_str(text).unwrap(), result["_meta"]["muster/output"].clone())
}

fn text_result(text: &str) -> Raw {
    raw(&json!({"content": [{"type": "text", "text": text}]}).to_string())
}

#[test]
fn a_long_text_is_stored_and_read_in_pages() {
    let whole: String = (0..3_000).map(|n| format!("line {n} says \"größe\"\n")).collect();
    let sent = whole.clone();
    let gateway = answering(move || Outcome::Raw(text_result(&sent)));
    let (inner, output) = called(&gateway, 1_000);
    let shown = inner["content"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("line 0 says") && shown.contains("line 2999 says"), "{shown}");
    assert_eq!(output["kind"], "text");
    assert_eq!(
        (output["bytes"].as_u64(), output["lines"].as_u64()),
        (Some(whole.len() as u64), Some(3_000))
    );
    let handle = output["handle"].as_str().unwrap();
    let (mut read, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let arguments = json!({"handle": handle, "offset": at, "max_tokens": 2_000}).to_string();
        let piece: Value =
            serde_json::from_str(gateway.result("get_output", &arguments).get()).unwrap();
        let text = piece["content"][0]["text"].as_str().unwrap();
        assert!(token_estimate::estimate(text) <= 2_000);
        read.push_str(text);
        offset = piece["_meta"]["muster/next_offset"].as_u64();
    }
    assert_eq!(read, whole);
    let ask = |arguments: Value| gateway.text("get_output", &arguments.to_string());
    assert_eq!(
        ask(json!({"handle": handle, "grep": "line 29\\d\\d ", "count": true})),
        "100\n---\n100 of 3000 lines match"
    );
    assert!(ask(json!({"handle": handle, "tail": 1})).starts_with("line 2999 says"));
    assert!(ask(json!({"handle": "out_1"})).starts_with("!there is no output `out_1`"));
    assert_eq!(ask(json!({})), "!handle argument is required");
}

#[test]
fn a_handle_is_good_for_one_caller() {
    let gateway = answering(|| Outcome::Raw(text_result(&"word ".repeat(10_000))));
    let (_, output) = called(&gateway, 1_000);
    let arguments = json!({"handle": output["handle"]}).to_string();
    assert!(gateway.text("get_output", &arguments).starts_with("word"));
    let other = Caller { subject: Arc::from("somebody else"), ..Caller::local() };
    let call = tool_call("get_output", &arguments);
    let answer = gateway.send_as(&other, &NoClient::shared(), call).unwrap();
    let Outcome::Text { text, failed: true, .. } = answer else { panic!("{answer:?}") };
    assert!(text.starts_with("there is no output"), "{text}");
}

#[test]
fn long_json_is_shown_by_its_shape() {
    let items: Vec<Value> = (0..2_000).map(|n| json!({"id": n, "name": format!("n{n}")})).collect();
    let whole = json!({"items": items, "total": 2_000});
    let (text, structured) = (whole.to_string(), whole);
    let gateway = answering(move || {
        let content = json!([{"type": "text", "text": text}]);
        Outcome::Raw(raw(&json!({"content": content, "structuredContent": structured}).to_string()))
    });
    let (inner, output) = called(&gateway, 1_000);
    assert_eq!(output["kind"], "json");
    let shown = inner["content"][0]["text"].as_str().unwrap();
    assert!(
        shown.starts_with(r#"{"items":[{"id":0,"name":"n0"},{"id":1,"name":"n1"},"#),
        "{shown}"
    );
    let remark = shown.split("\"… 2000 items in all, ").nth(1).unwrap();
    let count: usize = remark.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 20 && shown.contains(&format!(r#""n{}"}},"…"#, count - 1)), "{shown}");
    assert!(remark.starts_with(&format!(r#"{count} shown"],"total":2000}}"#)), "{shown}");
    assert!(token_estimate::estimate(shown) > 600, "the budget is used: {shown}");
    let path = json!({"handle": output["handle"], "path": "$.items[1999].name"}).to_string();
    assert!(gateway.text("get_output", &path).starts_with("n1999"));
}

#[test]
fn blocks_too_long_for_a_reply_are_kept_and_fetched() {
    let image = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
    let (short, long) = ("QUJD".repeat(200_000), "REVG".repeat(300_000));
    let content =
        json!([image(&long), image(&short), {"type": "text", "text": "two"}, image(&short)]);
    let sent = content.clone();
    let gateway = answering(move || Outcome::Raw(raw(&json!({"content": sent}).to_string())));
    let result: Value =
        serde_json::from_str(gateway.result("call_tool", r#"{"name":"x_srv_look"}"#).get())
            .unwrap();
    let blocks = result["content"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[1], content[1], "what fits is a block of its own");
    let inner: Value = serde_json::from_str(blocks[0]["text"].as_str().unwrap()).unwrap();
    let handle = &result["_meta"]["muster/output"]["handle"];
    let png = |size: usize| json!({"type": "image", "mimeType": "image/png", "dataSize": size});
    let kept = |size, block| {
        let mut kept = png(size);
        kept["get_output"] = json!({"handle": handle, "block": block});
        kept
    };
    let mut lifted = png(800_000);
    lifted["block"] = json!(1);
    let text = json!({"type": "text", "text": "two"});
    assert_eq!(inner["content"], json!([kept(1_200_000, 1), lifted, text, kept(800_000, 2)]));
    for (number, at) in [(1, 0), (2, 3)] {
        let fetch = json!({"handle": handle, "block": number}).to_string();
        let fetched: Value =
            serde_json::from_str(gateway.result("get_output", &fetch).get()).unwrap();
        assert_eq!(fetched["content"], json!([content[at]]));
    }
    let ask = |arguments: Value| gateway.text("get_output", &arguments.to_string());
    let refused = ask(json!({"handle": handle, "block": 3}));
    assert!(refused.ends_with("has 2 blocks; pass `block` from 1 to 2"), "{refused}");
    let refused = ask(json!({"handle": handle, "block": 1, "grep": "x"}));
    assert_eq!(refused, "!a `block` is given as it is; leave out `grep`");
    assert!(ask(json!({"handle": handle})).contains("has no text; pass block: 1"));
}

#[test]
fn long_text_beside_a_picture_is_kept_alone() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "QUJD"});
    let sent = image.clone();
    let gateway = answering(move || {
        let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
        let content = json!([{"type": "text", "text": text}, sent]);
        Outcome::Raw(raw(&json!({"content": content}).to_string()))
    });
    let arguments = r#"{"name":"x_srv_look","max_tokens":1000}"#;
    let result: Value = serde_json::from_str(gateway.result("call_tool", arguments).get()).unwrap();
    assert_eq!(result["content"][1], image);
    let handle = &result["_meta"]["muster/output"]["handle"];
    let grep = json!({"handle": handle, "grep": "line 4999$"}).to_string();
    assert_eq!(gateway.text("get_output", &grep), "5000: line 4999\n\n---\n1 of 5000 lines match");
}

#[test]
fn an_embedded_text_is_searched_like_text() {
    let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    let resource = json!({"uri": "file:///log", "mimeType": "text/plain", "text": text});
    let gateway = answering(move || {
        let content = json!([{"type": "text", "text": "the log:"}, {"type": "resource", "resource": resource}]);
        Outcome::Raw(raw(&json!({"content": content}).to_string()))
    });
    let (inner, output) = called(&gateway, 1_000);
    let fetch = json!({"handle": output["handle"]});
    assert_eq!(
        inner["content"][1],
        json!({"type": "resource", "uri": "file:///log", "mimeType": "text/plain", "dataSize": 53_890, "get_output": fetch})
    );
    let grep = json!({"handle": output["handle"], "grep": "line 17$"}).to_string();
    assert_eq!(gateway.text("get_output", &grep), "19: line 17\n\n---\n1 of 5001 lines match");
}

#[test]
fn text_that_structured_content_mirrors_is_searched_by_line() {
    let text: String = (0..20_000).map(|n| format!("line {n} \"é\"\n")).collect();
    let gateway = answering(move || {
        let content = json!([{"type": "text", "text": text}]);
        let structured = json!({ "content": text });
        Outcome::Raw(raw(&json!({"content": content, "structuredContent": structured}).to_string()))
    });
    let (inner, output) = called(&gateway, 2_000);
    assert_eq!((&output["kind"], &output["lines"]), (&json!("text"), &json!(20_000)));
    assert_eq!(inner.get("structuredContent"), None, "the text is not repeated");
    let shown = inner["content"][0]["text"].as_str().unwrap();
    assert_eq!(shown.matches("line 0 ").count(), 1, "{shown}");
    let grep = json!({"handle": output["handle"], "grep": "^line 19999 \"é\"$"}).to_string();
    let found = gateway.text("get_output", &grep);
    assert_eq!(found, "20000: line 19999 \"é\"\n\n---\n1 of 20000 lines match");
}

#[test]
fn several_texts_are_kept_as_lines() {
    let gateway = answering(|| {
        let long = "x y\n".repeat(9_000);
        let content = json!([{"type": "text", "text": "short"}, {"type": "text", "text": long}]);
        Outcome::Raw(raw(
            &json!({"content": content, "isError": true, "structuredContent": {"rows": [7]}})
                .to_string(),
        ))
    });
    let arguments = json!({"name": "x_srv_look", "max_tokens": 1_000}).to_string();
    let result: Value =
        serde_json::from_str(gateway.result("call_tool", &arguments).get()).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"], json!({"rows": [7]}), "what is short stays");
    let handle = &result["_meta"]["muster/output"]["handle"];
    let ask = |mut arguments: Value| {
        arguments["handle"] = handle.clone();
        gateway.text("get_output", &arguments.to_string())
    };
    assert!(ask(json!({"line": 1, "limit": 2})).starts_with("short\nx y\n"));
    assert!(ask(json!({"path": "$.rows[0]"})).starts_with('7'), "structure wins for paths");
}

#[test]
fn an_answer_that_cannot_be_kept_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("outputs");
    std::fs::write(&place, "a file in the way").unwrap();
    let mut gateway = answering(|| Outcome::Raw(text_result(&"word ".repeat(10_000))));
    gateway.meta =
        muster_gateway::surface::meta::Meta::storing(muster_gateway::outputs::Outputs::at(&place));
    let said = gateway.inner(r#"{"name":"x_srv_look","max_tokens":1000}"#);
    let expect = "!Tool execution failed: the tool ran, but muster could not keep the answer: ";
    assert!(said.starts_with(expect), "{said}");
    assert!(said.contains("the answer begins with:\nword word"), "{said}");
}

#[test]
fn what_fits_stays_as_it_is() {
    let gateway = answering(|| Outcome::Raw(text_result("small")));
    assert_eq!(called(&gateway, 300).1, Value::Null);
    let refused = gateway.text("call_tool", r#"{"name":"x_srv_look","max_tokens":5}"#);
    assert_eq!(refused, "!max_tokens must be at least 300");
}

#[test]
fn a_call_stays_within_the_effect_ceiling() {
    let tools = ["delete_repo", "get_repo"].map(|name| {
        let definition = format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"effect":{{"type":"string"}}}}}},"annotations":{{"readOnlyHint":true}}}}"#
        );
        tool("hub", &definition)
    });
    let gateway = Gateway::new().with_tools("hub", tools.to_vec(), r#"{"content":[]}"#);
    assert_eq!(
        gateway.inner(r#"{"name":"x_hub_delete_repo","arguments":{},"effect":"read"}"#),
        "!Tool execution failed: `x_hub_delete_repo` is destructive, and the call said `read`\nhint: if that is wanted, call again with effect `destructive`"
    );
    assert!(gateway.heard().is_empty());
    gateway
        .text("call_tool", r#"{"name":"x_hub_delete_repo","arguments":{},"effect":"destructive"}"#);
    gateway.text("call_tool", r#"{"name":"x_hub_get_repo","arguments":{},"effect":"read"}"#);
    gateway.text("call_tool", r#"{"name":"x_hub_get_repo","effect":"read"}"#);
    assert_eq!(
        gateway.heard(),
        ["delete_repo {}", "get_repo {}", r#"get_repo {"effect":"read"}"#],
        "an argument of the tool is the tool's"
    );
    assert_eq!(
        gateway.text("call_tool", r#"{"name":"x_hub_get_repo","arguments":{},"effect":"none"}"#),
        "!effect must be read, write or destructive, not `none`"
    );
    let listed = r#"{"name":"x_hub_delete_repo","arguments":{},"effect":["read"]}"#;
    assert_eq!(
        gateway.text("call_tool", listed),
        r#"!effect must be read, write or destructive, not `["read"]`"#
    );
    assert!(gateway.heard().is_empty());
    for (given, refusal) in [
        (r#"{"effect":["read"]}"#, "!effect must be text"),
        (r#"{"query":["repo"]}"#, "!query must be text"),
        (r#"{"case_sensitive":"perhaps"}"#, "!case_sensitive must be true or false"),
    ] {
        assert_eq!(gateway.text("filter_tools", given), refusal);
    }
    let found = gateway.json("filter_tools", r#"{"effect":"write"}"#);
    assert_eq!(found["total"], 1);
    assert_eq!(found["tools"][0]["name"], "x_hub_get_repo");
}

/// Some servers repeat their content as structured content, pictures included.
#[test]
fn a_picture_that_structured_content_repeats_is_given_once() {
    for data in ["QUJD".repeat(2), "QUJD".repeat(10_000), "QUJD".repeat(90_000)] {
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let (sent, other) = (image.clone(), data.len() == 40_000);
        let gateway = answering(move || {
            let text = json!({"type": "text", "text": "a picture"});
            let content = if other { json!([text, sent]) } else { json!([sent]) };
            let result = json!({"content": content, "structuredContent": {"content": content}});
            Outcome::Raw(raw(&result.to_string()))
        });
        let result = gateway.result("call_tool", r#"{"name":"x_srv_look"}"#);
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result.to_string().matches(&data).count(), 1, "{} bytes", data.len());
        assert_eq!(result["content"][1], image);
        let inner: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(inner.get("structuredContent"), None);
        assert_eq!(result.get("_meta"), None, "nothing is kept: {inner}");
    }
    // What says something else is passed on.
    let gateway = answering(|| {
        let image = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
        let structured = json!({"content": [image], "width": 3});
        let result = json!({"content": [image], "structuredContent": structured});
        Outcome::Raw(raw(&result.to_string()))
    });
    let result = gateway.result("call_tool", r#"{"name":"x_srv_look"}"#);
    let result: Value = serde_json::from_str(result.get()).unwrap();
    assert_eq!(result["structuredContent"]["width"], 3, "{result}");
}
