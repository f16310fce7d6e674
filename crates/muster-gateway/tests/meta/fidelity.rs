//! A tool's result leaves the envelope unchanged.

use muster_core::{
    call::Outcome,
    catalog::Offer,
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;

use crate::gateway::{Gateway, raw, tool};

const ECHO: &str = r#"{"name":"echo","inputSchema":{"type":"object"}}"#;

fn result_of(outcome: impl Fn() -> Outcome + Send + Sync + 'static) -> Raw {
    let offer = Offer { tools: vec![tool("odd", ECHO)], ..Offer::default() };
    let gateway =
        Gateway::new().with("odd", offer, move |_| Ok(outcome()), |_| panic!("not asked"));
    gateway.result("call_tool", r#"{"name":"x_odd_echo"}"#)
}

/// The text of a result.
fn inside(result: &RawValue) -> Raw {
    let result = RawObject::parse(result).unwrap();
    let content: Vec<&RawValue> =
        serde_json::from_str(result.get("content").unwrap().get()).unwrap();
    let item = RawObject::parse(content[0]).unwrap();
    assert_eq!(item.get_text("type").as_deref(), Some("text"));
    raw(&item.get_text("text").unwrap())
}

fn items(raw: Option<&RawValue>) -> Vec<String> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.unwrap().get()).unwrap();
    items.into_iter().map(|item| item.get().to_owned()).collect()
}

/// Items that are blocks of their own in the reply, and what the text says in their place.
const BLOCKS: &[(&str, &str)] = &[
    (
        r#"{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}"#,
        r#"{"type":"image","mimeType":"image/png","dataSize":12,"block":N}"#,
    ),
    (
        r#"{"type":"audio","data":"UklGRg==","mimeType":"audio/wav","_meta":{"a/b":null}}"#,
        r#"{"type":"audio","mimeType":"audio/wav","dataSize":8,"block":N}"#,
    ),
    (
        r#"{"type":"resource","resource":{"uri":"a://b","blob":"AAA=","vendor":[]}}"#,
        r#"{"type":"resource","uri":"a://b","dataSize":4,"block":N}"#,
    ),
    (
        r#"{"resource":{"text":"\u0041","mimeType":"text/plain","uri":"a://c"},"type":"resource"}"#,
        r#"{"type":"resource","uri":"a://c","mimeType":"text/plain","dataSize":6,"block":N}"#,
    ),
    (
        r#"{"type":"resource_link","uri":"a://b","name":"n","size":123456789012345678901234567890}"#,
        r#"{"type":"resource_link","uri":"a://b","block":N}"#,
    ),
];

const ODD: &[&str] = &[
    r#"{"type":"text","text":"plain"}"#,
    r#"{"type":"text","text":"esc \u0041 \ud83d\ude00 \/ \"q\" \n","annotations":{"audience":["user"],"priority":0.10}}"#,
    r#"{"type":"text","text":""}"#,
    r#"{"text":"order","type":"text"}"#,
    r#"{"type":"hologram","depth":1.0,"nested":{"z":1,"a":[null,true,1e400,-0]}}"#,
    r#"{"no":"type at all"}"#,
    r#"{"type":"text","text":"twice","text":"the same key"}"#,
    r#"{ "type" : "text" , "text" : "blanks" }"#,
    "null",
    "17",
    r#""text""#,
    "[1, [2]]",
];

#[test]
fn every_item_stays_as_it_is() {
    let content = format!("[{}]", ODD.join(","));
    let result = format!(
        r#"{{"content":{content},"structuredContent":{{"b":{{"a":[1.10,123456789012345678901]}},"n":null}},"_meta":{{"v/x":1.0}},"vendor":{{"k":null}},"isError":false}}"#
    );
    let outer = result_of(move || Outcome::Raw(raw(&result)));
    let inner = inside(&outer);
    let inner = RawObject::parse(&inner).unwrap();
    assert_eq!(items(inner.get("content")), ODD);
    assert_eq!(inner.get("content").unwrap().get(), content);
    assert_eq!(inner.get("vendor").unwrap().get(), r#"{"k":null}"#);
    let outer = RawObject::parse(&outer).unwrap();
    for side in [&inner, &outer] {
        assert_eq!(side.get("isError").unwrap().get(), "false");
        assert_eq!(side.get("_meta").unwrap().get(), r#"{"v/x":1.0}"#);
        assert_eq!(
            side.get("structuredContent").unwrap().get(),
            r#"{"b":{"a":[1.10,123456789012345678901]},"n":null}"#
        );
    }
}

#[test]
fn blocks_are_given_once_and_named_in_the_text() {
    let written: Vec<&str> = BLOCKS.iter().map(|(block, _)| *block).collect();
    let result = format!(
        r#"{{"content":[{},{{"type":"text","text":"t"}}],"vendor":1.0,"vendor":[2],"_meta":{{"m":1}}}}"#,
        written.join(",")
    );
    let outer = result_of(move || Outcome::Raw(raw(&result)));
    let placeholders: Vec<String> = (1..)
        .zip(BLOCKS)
        .map(|(number, (_, placeholder))| placeholder.replace('N', &number.to_string()))
        .collect();
    assert_eq!(
        inside(&outer).get(),
        format!(
            r#"{{"isError":false,"content":[{},{{"type":"text","text":"t"}}],"_meta":{{"m":1}},"vendor":1.0,"vendor":[2]}}"#,
            placeholders.join(",")
        )
    );
    let outer = RawObject::parse(&outer).unwrap();
    assert_eq!(items(outer.get("content"))[1..], written);
}

#[test]
fn each_item_by_itself() {
    for item in ODD {
        let outer = result_of(move || Outcome::Raw(raw(&format!(r#"{{"content":[{item}]}}"#))));
        assert_eq!(inside(&outer).get(), format!(r#"{{"isError":false,"content":[{item}]}}"#));
    }
}

#[track_caller]
fn check(outcome: fn() -> Outcome, inner: &str, outer: &[(&str, Option<&str>)]) {
    let result = result_of(outcome);
    assert_eq!(inside(&result).get(), inner);
    let result = RawObject::parse(&result).unwrap();
    for (key, expect) in outer {
        assert_eq!(result.get(key).map(RawValue::get), *expect, "{key}");
    }
}

#[test]
fn structured_content_that_repeats_the_text_is_left_out_of_it() {
    check(
        || {
            Outcome::Raw(raw(
                r#"{"content":[{"type":"text","text":"{ \"a\": 1 }"}],"structuredContent":{"a":1}}"#,
            ))
        },
        r#"{"isError":false,"content":[{"type":"text","text":"{ \"a\": 1 }"}]}"#,
        &[("structuredContent", Some(r#"{"a":1}"#))],
    );
    check(
        || {
            Outcome::Raw(raw(
                r#"{"content":[{"type":"text","text":"x\n"}],"structuredContent":{"content":"x\n"}}"#,
            ))
        },
        r#"{"isError":false,"content":[{"type":"text","text":"x\n"}]}"#,
        &[("structuredContent", Some(r#"{"content":"x\n"}"#))],
    );
}

#[test]
fn odd_members_stay() {
    check(
        || Outcome::Raw(raw(r#"{"isError":null,"a":1,"content":[],"a":1.0,"a":null}"#)),
        r#"{"isError":null,"content":[],"a":1,"a":1.0,"a":null}"#,
        &[("isError", Some("false"))],
    );
}

#[test]
fn errors_and_gaps() {
    check(
        || Outcome::Raw(raw(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#)),
        r#"{"isError":true,"content":[{"type":"text","text":"no"}]}"#,
        &[("isError", Some("true")), ("structuredContent", None), ("_meta", None)],
    );
    check(
        || Outcome::Raw(raw("{}")),
        r#"{"isError":false,"content":[]}"#,
        &[("isError", Some("false"))],
    );
    check(
        || Outcome::Raw(raw(r#"{"structuredContent":[1]}"#)),
        r#"{"isError":false,"content":[],"structuredContent":[1]}"#,
        &[("structuredContent", Some("[1]"))],
    );
    check(
        || Outcome::Raw(raw(r#"{"content":null,"structuredContent":null}"#)),
        r#"{"isError":false,"content":null,"structuredContent":null}"#,
        &[("structuredContent", Some("null"))],
    );
    check(
        || Outcome::Raw(raw(r#""not a result""#)),
        r#"{"isError":true,"content":[{"type":"text","text":"Tool execution failed: the server's answer is not a result"}]}"#,
        &[("isError", Some("true"))],
    );
}

#[test]
fn answers_of_our_own() {
    check(
        || Outcome::text("two\nlines"),
        r#"{"isError":false,"content":[{"type":"text","text":"two\nlines"}]}"#,
        &[("isError", Some("false")), ("structuredContent", None)],
    );
    check(
        || Outcome::Text {
            text: "no".to_owned(),
            failed: true,
            details: Some(raw(r#"{"code":2}"#)),
        },
        r#"{"isError":true,"content":[{"type":"text","text":"no"}],"structuredContent":{"code":2}}"#,
        &[("isError", Some("true")), ("structuredContent", Some(r#"{"code":2}"#))],
    );
}
