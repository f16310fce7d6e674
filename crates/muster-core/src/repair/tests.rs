//! Malformed calls and their repairs.

mod properties;
mod values;

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{RepairedCall, UnreadableCall, advice::SchemaFragment, envelope::read};
use crate::{
    catalog::{ToolAudience, ToolEntry},
    cli::{Param, ParamType, Placement},
    name::{BackendName, ToolName},
    schema,
};

fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).unwrap()
}

fn entry(name: &str, schema: &str) -> ToolEntry {
    ToolEntry {
        name: ToolName::new(name),
        backend: BackendName::new("b"),
        local_name: Arc::from(name),
        description: Arc::from(""),
        input_schema: Arc::from(raw(schema)),
        params: None,
        definition: None,
        effect: None,
        validator: Arc::default(),
        audience: ToolAudience::default(),
    }
}

fn cli(name: &str, arguments: &[(&str, ParamType)]) -> ToolEntry {
    let params: Vec<Param> = arguments
        .iter()
        .map(|(name, kind)| Param {
            name: (*name).to_owned(),
            description: String::new(),
            kind: *kind,
            required: false,
            default: None,
            placement: Placement::Positional,
            choices: Vec::new(),
            pattern: None,
            allow_leading_dash: false,
            recursive: false,
        })
        .collect();
    let schema = schema::input_schema(&params);
    ToolEntry { params: Some(params.into()), ..entry(name, schema.get()) }
}

fn tools() -> Vec<ToolEntry> {
    vec![
        entry(
            "files",
            r#"{"type":"object","properties":{"path":{"type":"string"},"count":{"type":"integer"}},"required":["path"]}"#,
        ),
        entry(
            "strict",
            r#"{"type":"object","properties":{"path":{"type":"string"},"count":{"type":"integer"}},"additionalProperties":false}"#,
        ),
        entry("open", r#"{"type":"object"}"#),
        entry("none", r#"{"type":"object","properties":{},"additionalProperties":false}"#),
        entry(
            "wraps",
            r#"{"type":"object","properties":{"arguments":{"type":"object"},"input":{"type":"string"},"params":{"type":"object"}}}"#,
        ),
        entry(
            "user",
            r#"{"type":"object","properties":{"name":{"type":"string"},"tool":{"type":"string"}},"required":["name"]}"#,
        ),
        cli("cli", &[("path", ParamType::String), ("count", ParamType::Integer)]),
    ]
}

fn understood(given: &str) -> String {
    let tools = tools();
    let lookup = |name: &str| tools.iter().find(|entry| entry.name.as_str() == name);
    match read(&raw(given), &lookup) {
        Ok(RepairedCall { tool, arguments, repairs }) => {
            [tool + " " + arguments.get()].into_iter().chain(repairs).collect::<Vec<_>>().join("; ")
        }
        Err(UnreadableCall::MissingTool { fix }) => format!("no name: {}", fix.unwrap_or_default()),
        Err(UnreadableCall::NotAnObject { fix }) => format!("not an object: {fix}"),
        Err(UnreadableCall::Ambiguous { problem, fix, fragment }) => {
            format!("unclear: {problem}: {fix}{}", shown(fragment))
        }
    }
}

fn shown(fragment: Option<SchemaFragment>) -> String {
    let Some(SchemaFragment { argument, schema }) = fragment else { return String::new() };
    format!(" {argument}={}", schema.map_or_else(|| "…".to_owned(), |raw| raw.get().to_owned()))
}

#[track_caller]
fn check(given: &str, expect: &str) {
    assert_eq!(understood(given), expect, "{given}");
}

#[test]
fn valid_calls_are_unchanged() {
    check(r#"{"name":"files","arguments":{"path":"a"}}"#, r#"files {"path":"a"}"#);
    check(r#"{"arguments":{ "path" : "a" },"name":"files"}"#, r#"files { "path" : "a" }"#);
    check(r#"{"name":"files","arguments":{"path":5}}"#, r#"files {"path":5}"#);
    check(r#"{"name":"files","arguments":{"other":1e400}}"#, r#"files {"other":1e400}"#);
    check(r#"{"name":"none"}"#, "none {}");
    check(r#"{"name":"none","arguments":{}}"#, "none {}");
    check(r#"{"name":"open","arguments":{"arguments":{"a":1}}}"#, r#"open {"arguments":{"a":1}}"#);
    check(r#"{"name":"open","arguments":{"input":{}}}"#, r#"open {"input":{}}"#);
    check(r#"{"name":"wraps","arguments":{"arguments":{}}}"#, r#"wraps {"arguments":{}}"#);
    check(r#"{"name":"wraps","arguments":{"input":"{}"}}"#, r#"wraps {"input":"{}"}"#);
    check(r#"{"name":"user","arguments":{"name":"user"}}"#, r#"user {"name":"user"}"#);
    check(r#"{"name":"cli","arguments":{"count":"5"}}"#, r#"cli {"count":"5"}"#);
}

#[test]
fn a_call_inside_a_call() {
    const TOOK: &str = "took the call out of a second `call_tool` around it";
    check(
        r#"{"name":"call_tool","arguments":{"name":"files","arguments":{"path":"a"}}}"#,
        &format!(r#"files {{"path":"a"}}; {TOOK}"#),
    );
    check(
        r#"{"name":"call_tool","arguments":{"name":"call_tool","arguments":{"name":"none"}}}"#,
        &format!("none {{}}; {TOOK}; {TOOK}"),
    );
    check(
        r#"{"name":"call_tool","arguments":"{\"name\":\"files\",\"arguments\":{\"path\":\"a\"}}"}"#,
        &format!(r#"files {{"path":"a"}}; {TOOK}"#),
    );
    check(
        r#"{"name":"call_tool","arguments":{"name":"files"},"path":"a"}"#,
        &format!(r#"files {{"path":"a"}}; {TOOK}; moved `path` into `arguments`"#),
    );
    check(
        r#"{"name":"call_tool","tool_name":"files","args":{"path":"a"}}"#,
        &format!(
            r#"files {{"path":"a"}}; {TOOK}; read the tool's name from `tool_name`; read the arguments from `args`"#
        ),
    );
    check(
        r#"{"arguments":{"name":"files","arguments":{"path":"a"}}}"#,
        r#"files {"path":"a"}; took the call out of the object around it"#,
    );
    check(
        r#"{"function":{"name":"files","arguments":"{\"path\":\"a\"}"}}"#,
        r#"files {"path":"a"}; took the call out of the object around it; read `arguments` from JSON text"#,
    );
    check(
        r#"{"name":"files","arguments":{"name":"files","arguments":{"path":"a"}}}"#,
        r#"files {"path":"a"}; took the arguments out of a second `arguments`"#,
    );
    check(
        r#"{"name":"call_tool","arguments":{"path":"a"}}"#,
        r#"no name: send {"name":"<tool>","arguments":{…}}"#,
    );
    let deep = (0..9).fold(r#"{"name":"none"}"#.to_owned(), |call, _| {
        format!(r#"{{"name":"call_tool","arguments":{call}}}"#)
    });
    check(&deep, r#"no name: send {"name":"<tool>","arguments":{…}}"#);
}

#[test]
fn arguments_in_other_forms() {
    check(
        r#"{"name":"files","arguments":"{\"path\": \"a\"}"}"#,
        r#"files {"path": "a"}; read `arguments` from JSON text"#,
    );
    check(
        r#"{"name":"files","arguments":"\"{\\\"path\\\":\\\"a\\\"}\""}"#,
        r#"files {"path":"a"}; read `arguments` from JSON text"#,
    );
    check(r#"{"name":"none","arguments":null}"#, "none {}; took `arguments: null` as none");
    check(r#"{"name":"none","arguments":""}"#, r#"none {}; took `arguments: ""` as none"#);
    check(r#"{"name":"none","arguments":[]}"#, "none {}; took `arguments: []` as none");
    check(r#"{"name":"none","arguments":"null"}"#, r#"none {}; took `arguments: "null"` as none"#);
    check(
        r#"{"name":"files","arguments":"a.txt"}"#,
        r#"not an object: send {"name":"files","arguments":{"path":"<string>"}}"#,
    );
    check(
        r#"{"name":"files","arguments":["a"]}"#,
        r#"not an object: send {"name":"files","arguments":{"path":"<string>"}}"#,
    );
    check(
        r#"{"name":"none","arguments":5}"#,
        r#"not an object: send {"name":"none","arguments":{}}"#,
    );
    check(
        r#"{"name":"strict","arguments":"[1]"}"#,
        r#"not an object: send {"name":"strict","arguments":{"path":"<string>"}}"#,
    );
    check(
        r#"{"name":"none","arguments":true}"#,
        r#"not an object: send {"name":"none","arguments":{}}"#,
    );
}

#[test]
fn aliases_of_the_two_keys() {
    for key in
        ["args", "params", "parameters", "input", "tool_args", "toolArgs", "Arguments", "kwargs"]
    {
        check(
            &format!(r#"{{"name":"files","{key}":{{"path":"a"}}}}"#),
            &format!(r#"files {{"path":"a"}}; read the arguments from `{key}`"#),
        );
    }
    for key in ["tool", "tool_name", "toolName", "Name", "function_name"] {
        check(
            &format!(r#"{{"{key}":"files","arguments":{{"path":"a"}}}}"#),
            &format!(r#"files {{"path":"a"}}; read the tool's name from `{key}`"#),
        );
    }
    check(
        r#"{"name":"files","args":"{\"path\":\"a\"}"}"#,
        r#"files {"path":"a"}; read the arguments from `args`"#,
    );
    check(
        r#"{"name":"files","arguments":{},"params":{"path":"a"}}"#,
        r#"files {"path":"a"}; read the arguments from `params`"#,
    );
    check(
        r#"{"name":"files","arguments":null,"input":{"path":"a"}}"#,
        r#"files {"path":"a"}; took `arguments: null` as none; read the arguments from `input`"#,
    );
    check(r#"{"name":"none","args":null}"#, "none {}; read the arguments from `args`");
    check(r#"{"name":" files ","arguments":{"path":"a"}}"#, r#"files {"path":"a"}"#);
    check(
        r#"{"name":"files","args":{"path":"a"},"params":{"path":"b"}}"#,
        r#"unclear: the arguments are given under two names: send {"name":"files","arguments":{"path":"<string>"}}"#,
    );
    check(
        r#"{"name":"files","args":"a.txt"}"#,
        "unclear: `files` does not take `args`: there is no argument `args`; there are: `path`, `count`",
    );
}

#[test]
fn keys_that_the_tool_declares_itself() {
    check(
        r#"{"name":"wraps","input":"text"}"#,
        r#"wraps {"input":"text"}; moved `input` into `arguments`"#,
    );
    check(
        r#"{"name":"wraps","input":""}"#,
        r#"wraps {"input":""}; moved `input` into `arguments`"#,
    );
    check(
        r#"{"name":"wraps","params":{"a":1}}"#,
        r#"wraps {"params":{"a":1}}; moved `params` into `arguments`"#,
    );
    check(
        r#"{"name":"wraps","input":{"params":{}}}"#,
        r#"wraps {"params":{}}; read the arguments from `input`"#,
    );
    check(
        r#"{"name":"wraps","params":{"input":"a"}}"#,
        r#"unclear: `params` may be one argument or all of them: send {"name":"wraps","arguments":{"arguments":"<object>"}}"#,
    );
    check(
        r#"{"tool":"user","name":"Ada"}"#,
        r#"user {"name":"Ada"}; read the tool's name from `tool`; moved `name` into `arguments`"#,
    );
    check(
        r#"{"name":"user","arguments":{"name":"Ada"},"tool":"hammer"}"#,
        r#"user {"name":"Ada","tool":"hammer"}; moved `tool` into `arguments`"#,
    );
}

#[test]
fn arguments_beside_the_name() {
    check(r#"{"name":"files","path":"a"}"#, r#"files {"path":"a"}; moved `path` into `arguments`"#);
    check(
        r#"{"name":"files","arguments":{"path":"a"},"count":1}"#,
        r#"files {"path":"a","count":1}; moved `count` into `arguments`"#,
    );
    check(
        r#"{"name":"files","arguments":{},"path":"a"}"#,
        r#"files {"path":"a"}; moved `path` into `arguments`"#,
    );
    check(
        r#"{"name":"files","arguments":null,"path":"a"}"#,
        r#"files {"path":"a"}; took `arguments: null` as none; moved `path` into `arguments`"#,
    );
    check(r#"{"name":"open","any":[1]}"#, r#"open {"any":[1]}; moved `any` into `arguments`"#);
    check(r#"{"name":"files","arguments":{"path":"a"},"path":"a"}"#, r#"files {"path":"a"}"#);
    check(r#"{"name":"files","tool":"files","arguments":{"path":"a"}}"#, r#"files {"path":"a"}"#);
    check(r#"{"name":"none","_meta":{"x":1}}"#, "none {}");
    check(
        r#"{"name":"files","arguments":{"path":"a"},"path":"b"}"#,
        r#"unclear: `path` is given twice, with two values: send {"name":"files","arguments":{"path":"<string>"}}"#,
    );
    check(
        r#"{"name":"files","arguments":{"path":"a"},"cuont":1}"#,
        r#"unclear: `files` does not take `cuont`: there is no argument `cuont`; did you mean `count`? count={"type":"integer"}"#,
    );
    check(
        r#"{"name":"none","path":"a"}"#,
        "unclear: `none` does not take `path`: `none` takes no arguments: leave out `path`",
    );
    check(
        r#"{"name":"open","arguments":{"a":1},"b":2}"#,
        "unclear: `open` does not take `b`: put `b` into `arguments` if it is one",
    );
}

#[test]
fn arguments_inside_arguments() {
    check(
        r#"{"name":"files","arguments":{"arguments":{"path":"a"}}}"#,
        r#"files {"path":"a"}; took the arguments out of a second `arguments`"#,
    );
    check(
        r#"{"name":"strict","arguments":{"args":{"count":1}}}"#,
        r#"strict {"count":1}; took the arguments out of a second `args`"#,
    );
    check(
        r#"{"name":"files","arguments":{"input":{"params":{"path":"a"}}}}"#,
        r#"files {"input":{"params":{"path":"a"}}}"#,
    );
    check(
        r#"{"name":"files","arguments":{"arguments":"{\"path\":\"a\"}"}}"#,
        r#"files {"path":"a"}; took the arguments out of a second `arguments`"#,
    );
    check(
        r#"{"name":"strict","arguments":{"arguments":{}}}"#,
        "strict {}; took the arguments out of a second `arguments`",
    );
    check(
        r#"{"name":"files","arguments":{"arguments":{"other":1}}}"#,
        r#"files {"arguments":{"other":1}}"#,
    );
    check(
        r#"{"name":"files","arguments":{"path":"a","arguments":{"path":"b"}}}"#,
        r#"files {"path":"a","arguments":{"path":"b"}}"#,
    );
}

#[test]
fn unknown_arguments_of_a_cli_tool_are_rejected() {
    check(
        r#"{"name":"cli","arguments":{"pth":"a"}}"#,
        r#"unclear: `cli` does not take `pth`: there is no argument `pth`; did you mean `path`? path={"type":"string"}"#,
    );
    check(
        r#"{"name":"cli","arguments":{"path":"a","zzz":1}}"#,
        "unclear: `cli` does not take `zzz`: there is no argument `zzz`; there are: `path`, `count`",
    );
    check(
        r#"{"name":"cli","arguments":{"args":{"count":1}}}"#,
        r#"cli {"count":1}; took the arguments out of a second `args`"#,
    );
}

#[test]
fn missing_and_unknown_tools() {
    const FIX: &str = r#"no name: send {"name":"<tool>","arguments":{…}}"#;
    check("{}", "no name: ");
    check("null", "no name: ");
    check(r#"{"name":""}"#, FIX);
    check(r#"{"name":5,"arguments":{}}"#, FIX);
    check(r#"{"arguments":{"path":"a"}}"#, FIX);
    check(r#"{"arguments":{"name":"Ada"}}"#, FIX);
    check(r#"{"name":"nope","arguments":{"a":1}}"#, r#"nope {"a":1}"#);
    check(r#"{"name":"nope","a":1}"#, r#"nope {"a":1}"#);
    check(r#"{"name":"nope","arguments":"x"}"#, r#"nope "x""#);
    check(r#"{"tool":"nope"}"#, "nope {}; read the tool's name from `tool`");
    check(
        r#""{\"name\":\"files\",\"arguments\":{\"path\":\"a\"}}""#,
        r#"files {"path":"a"}; read the call from JSON text"#,
    );
}
