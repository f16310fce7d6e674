//! `call_tool`: what reaches the backend, and the errors if nothing does.

use std::sync::Arc;

use muster_core::{
    call::{CallError, Outcome},
    catalog::{Offer, ToolEntry},
    cli::{Param, ParamType, Placement},
    client::{Continuation, InputRequest, InputRequired},
    name::BackendName,
    policy::{DestructiveTools, Policy},
    request::RequestError,
    schema,
};
use muster_gateway::surface::ToolCall;
use serde_json::{Value, json};

use crate::gateway::{Gateway, plain, raw, tool, tool_call};

const READ: &str = r#"{"name":"read","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer","maximum":9},"deep":{"type":"boolean"}},"required":["path"]}}"#;
const NOTE: &str = r#"{"name":"note","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}}"#;
const CLEANUP: &str = r#"{"name":"cleanup","inputSchema":{"type":"object"}}"#;
const DONE: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

fn cli() -> ToolEntry {
    let param = Param {
        name: "count".to_owned(),
        description: String::new(),
        kind: ParamType::Integer,
        required: false,
        default: None,
        placement: Placement::Positional,
        choices: Vec::new(),
        pattern: None,
        allow_leading_dash: false,
        recursive: false,
    };
    let schema = schema::input_schema(std::slice::from_ref(&param));
    let entry = plain("files", "cli_log", "", schema.get());
    ToolEntry { params: Some(Arc::from([param])), ..entry }
}

fn gateway() -> Gateway {
    let tools = [READ, NOTE, CLEANUP].map(|definition| tool("files", definition));
    let tools = tools.into_iter().chain([cli()]).collect();
    Gateway::new().with_tools("files", tools, DONE)
}

/// What reaches the backend, and the reported repairs.
#[track_caller]
fn check(arguments: &str, heard: &str, repairs: &[&str]) {
    let gateway = gateway();
    let result: Value = serde_json::from_str(gateway.result("call_tool", arguments).get()).unwrap();
    assert_eq!(gateway.heard(), [heard], "{arguments}");
    assert_eq!(
        result["content"][0]["text"],
        r#"{"isError":false,"content":[{"type":"text","text":"done"}]}"#
    );
    assert_eq!(result["isError"], false);
    let said = if repairs.is_empty() { Value::Null } else { json!({"muster/repaired": repairs}) };
    assert_eq!(result["_meta"], said, "{arguments}");
}

#[test]
fn an_effect_ceiling_holds_whatever_else_the_schema_mentions() {
    let mentions = r#"{"name":"wipe","inputSchema":{"type":"object","properties":{"options":{"type":"object","properties":{"effect":{"type":"string"}}},"mode":{"enum":["effect"]}}},"annotations":{"destructiveHint":true}}"#;
    let declares = r#"{"name":"draw","inputSchema":{"type":"object","properties":{"effect":{"type":"string"}}}}"#;
    let tools = vec![tool("s", mentions), tool("s", declares)];
    let gateway = Gateway::new().with_tools("s", tools, r#"{"content":[]}"#);
    let refused = gateway.inner(r#"{"name":"x_s_wipe","effect":"read"}"#);
    assert!(refused.starts_with("!Tool execution failed: "), "{refused}");
    assert_eq!(gateway.heard(), Vec::<String>::new());
    // An argument of the tool is the tool's.
    gateway.text("call_tool", r#"{"name":"x_s_draw","effect":"glow"}"#);
    assert_eq!(gateway.heard(), [r#"draw {"effect":"glow"}"#]);
}

#[test]
fn what_is_right_goes_through_byte_for_byte() {
    check(r#"{"name":"x_files_read","arguments":{ "path": "a" }}"#, r#"read { "path": "a" }"#, &[]);
    check(
        r#"{"name":"x_files_read","arguments":{"path":"a","big":123456789012345678901}}"#,
        r#"read {"path":"a","big":123456789012345678901}"#,
        &[],
    );
    check(r#"{"name":"x_files_note"}"#, "note {}", &[]);
    check(r#"{"name":"cli_log","arguments":{"count":5}}"#, r#"cli_log {"count":5}"#, &[]);
}

#[test]
fn what_is_meant_goes_through() {
    check(
        r#"{"name":"call_tool","arguments":{"name":"x_files_read","arguments":{"path":"a"}}}"#,
        r#"read {"path":"a"}"#,
        &["took the call out of a second `call_tool` around it"],
    );
    check(
        r#"{"name":"x_files_read","path":"a"}"#,
        r#"read {"path":"a"}"#,
        &["moved `path` into `arguments`"],
    );
    check(
        r#"{"name":"x_files_note","arguments":null}"#,
        "note {}",
        &["took `arguments: null` as none"],
    );
    check(
        r#"{"tool":"x_files_read","args":"{\"path\":\"a\",\"lines\":\"5\",\"deep\":null}"}"#,
        r#"read {"path":"a","lines":5}"#,
        &[
            "read the tool's name from `tool`",
            "read the arguments from `args`",
            "read the text in `lines` as number",
            "left out `deep`, which was null",
        ],
    );
    check(
        r#"{"name":"x_files_note","arguments":{"arguments":{"text":"t"}}}"#,
        r#"note {"text":"t"}"#,
        &["took the arguments out of a second `arguments`"],
    );
    check(
        r#"{"name":"cli_log","arguments":{"count":"5"}}"#,
        r#"cli_log {"count":5}"#,
        &["read the text in `count` as number"],
    );
}

/// The error of a call that reaches no backend.
#[track_caller]
fn refused(gateway: &Gateway, arguments: &str, expect: &str) {
    assert_eq!(
        gateway.inner(arguments),
        format!("!Tool execution failed: {expect}"),
        "{arguments}"
    );
    assert!(gateway.heard().is_empty(), "{arguments}");
}

#[test]
fn misuse_is_explained() {
    #[track_caller]
    fn check(arguments: &str, expect: &str) {
        let gateway = gateway();
        assert_eq!(gateway.text("call_tool", arguments), expect, "{arguments}");
        assert!(gateway.heard().is_empty());
    }
    const SEND: &str = r#"hint: send {"name":"<tool>","arguments":{…}}"#;
    check("{}", "!name argument is required");
    check(r#"{"name":""}"#, &format!("!name argument is required\n{SEND}"));
    check(r#"{"arguments":{"path":"a"}}"#, &format!("!name argument is required\n{SEND}"));
    check(
        r#"{"name":"x_files_read","arguments":"a.txt"}"#,
        "!arguments must be a JSON object\nhint: send {\"name\":\"x_files_read\",\"arguments\":{\"path\":\"<string>\"}}",
    );
    check(
        r#"{"name":"x_files_read","arguments":[1]}"#,
        "!arguments must be a JSON object\nhint: send {\"name\":\"x_files_read\",\"arguments\":{\"path\":\"<string>\"}}",
    );
}

#[test]
fn tools_that_are_not_there() {
    let gateway = gateway();
    refused(
        &gateway,
        r#"{"name":"foo"}"#,
        "tool not found: foo\nhint: find its name with filter_tools",
    );
    refused(
        &gateway,
        r#"{"name":"x_files_raed","arguments":{}}"#,
        "tool not found: x_files_raed\nhint: nearest names: x_files_read",
    );
    refused(
        &gateway,
        r#"{"name":"list_tools"}"#,
        "tool not found: list_tools\nhint: `list_tools` is not behind call_tool: call it directly",
    );
    gateway.change(|state| state.catalog = state.catalog.without(&BackendName::new("files")));
    refused(
        &gateway,
        r#"{"name":"x_files_read","arguments":{"path":"a"}}"#,
        "server not found: files",
    );
}

#[test]
fn arguments_that_do_not_fit() {
    let gateway = gateway();
    const LINES: &str = r#"schema of `lines`: {"type":"integer","maximum":9}"#;
    refused(
        &gateway,
        r#"{"name":"x_files_read","arguments":{}}"#,
        "the arguments do not fit `x_files_read`: \"path\" is a required property\nhint: add `path`: {\"name\":\"x_files_read\",\"arguments\":{\"path\":\"<string>\"}}\nschema of `path`: {\"type\":\"string\"}",
    );
    refused(
        &gateway,
        r#"{"name":"x_files_read","arguments":{"path":"a","lines":"many"}}"#,
        &format!(
            "the arguments do not fit `x_files_read`: \"many\" is not of type \"integer\" (at `/lines`)\nhint: give `lines` as integer\n{LINES}"
        ),
    );
    refused(
        &gateway,
        r#"{"name":"x_files_read","arguments":{"path":"a","lines":10}}"#,
        &format!(
            "the arguments do not fit `x_files_read`: 10 is greater than the maximum of 9 (at `/lines`)\nhint: change `lines` so that it fits its schema\n{LINES}"
        ),
    );
    refused(
        &gateway,
        r#"{"name":"x_files_note","txt":"a"}"#,
        "`x_files_note` does not take `txt`\nhint: there is no argument `txt`; did you mean `text`?\nschema of `text`: {\"type\":\"string\"}",
    );
    refused(
        &gateway,
        r#"{"name":"cli_log","arguments":{"zzz":5}}"#,
        "`cli_log` does not take `zzz`\nhint: there is no argument `zzz`; there are: `count`",
    );
    refused(
        &gateway,
        r#"{"name":"cli_log","arguments":{"count":"x"}}"#,
        "the arguments do not fit `cli_log`: 'x' is not of type 'integer'\nhint: give `count` as integer\nschema of `count`: {\"type\":\"integer\"}",
    );
    let long = "y".repeat(100_000);
    let said =
        gateway.inner(&format!(r#"{{"name":"x_files_read","arguments":{{"path":["{long}"]}}}}"#));
    assert!(said.len() < 1_000, "{}", said.len());
}

#[test]
fn what_is_blocked() {
    let policy = Policy { destructive: DestructiveTools::Blocked, ..Policy::default() };
    refused(
        &gateway().with_policy(policy),
        r#"{"name":"x_files_cleanup"}"#,
        "tool 'cleanup' is blocked as it is destructive. Use --yolo flag to allow destructive operations",
    );
}

fn failing(error: impl Fn() -> CallError + Send + Sync + 'static) -> Gateway {
    let offer = Offer { tools: vec![tool("files", NOTE)], ..Offer::default() };
    Gateway::new().with("files", offer, move |_| Err(error()), |_| panic!("not asked"))
}

#[test]
fn backends_that_fail() {
    let gone = failing(|| CallError::Unavailable {
        backend: BackendName::new("files"),
        reason: "the connection was lost".to_owned(),
        no_answer: true,
    });
    assert_eq!(
        gone.inner(r#"{"name":"x_files_note"}"#),
        "!Tool execution failed: failed to call tool: backend `files` is not available: the connection was lost"
    );
    let refusing = failing(|| CallError::Upstream {
        code: -32603,
        message: "out of order".to_owned(),
        data: Some(raw(r#"{"n":123456789012345678901}"#)),
    });
    let result = refusing.result("call_tool", r#"{"name":"x_files_note"}"#);
    assert_eq!(
        result.get(),
        r#"{"content":[{"type":"text","text":"{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"Tool execution failed: failed to call tool: out of order\"}],\"_meta\":{\"muster/error\":{\"code\":-32603,\"message\":\"out of order\",\"data\":{\"n\":123456789012345678901}}}}"}],"isError":true,"_meta":{"muster/error":{"code":-32603,"message":"out of order","data":{"n":123456789012345678901}}}}"#
    );
}

#[test]
fn a_repaired_call_that_fails_says_so_too() {
    let lost = failing(|| CallError::Upstream { code: 1, message: "no".to_owned(), data: None });
    let result = lost.result("call_tool", r#"{"name":"x_files_note","args":{"text":"a"}}"#);
    let result: Value = serde_json::from_str(result.get()).unwrap();
    assert_eq!(result["_meta"]["muster/repaired"], json!(["read the arguments from `args`"]));
    assert_eq!(result["_meta"]["muster/error"]["code"], 1);
}

#[test]
fn a_wish_for_the_browser_is_for_the_client() {
    let asking = failing(|| CallError::Upstream {
        code: -32042,
        message: "sign in first".to_owned(),
        data: Some(raw(r#"{"elicitations":[]}"#)),
    });
    let fault = asking.send(tool_call("call_tool", r#"{"name":"x_files_note"}"#)).unwrap_err();
    assert!(
        matches!(fault, RequestError::Upstream { code: -32042, data: Some(_), .. }),
        "{fault:?}"
    );
}

#[test]
fn a_backend_that_finds_fault_with_good_arguments_is_not_called_again() {
    let gateway = failing(|| CallError::InvalidArguments {
        tool: muster_core::name::ToolName::new("x_files_note"),
        problems: Vec::new(),
        unknown: Vec::new(),
        schema: Arc::from(raw(r#"{"type":"object"}"#)),
    });
    gateway.inner(r#"{"name":"x_files_note","arguments":{"text":"5"}}"#);
    assert_eq!(gateway.heard(), [r#"note {"text":"5"}"#]);
}

#[test]
fn questions_go_out_and_answers_come_in() {
    let offer = Offer { tools: vec![tool("files", NOTE)], ..Offer::default() };
    let gateway = Gateway::new().with(
        "files",
        offer,
        |call| {
            if call.continuation().is_empty() {
                let question = InputRequest {
                    method: "elicitation/create".to_owned(),
                    params: raw(r#"{"message":"sure?"}"#),
                };
                return Ok(Outcome::InputRequired(InputRequired {
                    requests: vec![("q".to_owned(), question)],
                    state: Some(raw(r#""s1""#)),
                    result: Some(raw(r#"{"vendor":1}"#)),
                }));
            }
            Ok(Outcome::text("sure"))
        },
        |_| panic!("not asked"),
    );
    let call = |continuation| ToolCall {
        meta: Some(raw(r#"{"progressToken":1}"#)),
        continuation,
        ..tool_call("call_tool", r#"{"name":"x_files_note","arguments":{"args":{"text":"a"}}}"#)
    };
    let Ok(Outcome::InputRequired(needs)) = gateway.send(call(Continuation::default())) else {
        panic!("no question");
    };
    assert_eq!(needs.requests[0].1.params.get(), r#"{"message":"sure?"}"#);
    assert_eq!(needs.result.unwrap().get(), r#"{"vendor":1}"#);
    let again = Continuation { responses: Some(raw("{}")), state: needs.state };
    assert!(matches!(gateway.send(call(again)), Ok(Outcome::Raw(_))));
    assert_eq!(
        gateway.heard(),
        [
            r#"note {"text":"a"} meta={"progressToken":1}"#,
            r#"note {"text":"a"} meta={"progressToken":1} state="s1""#
        ]
    );
}
