//! Tools that clients see under their own names.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::{CallError, Caller, Outcome},
    catalog::{ToolAudience, ToolEntry},
    client::{ClientHandle, InputError, InputMode, InputRequest, NoClient, Notification},
    glob::{CaseSensitivity, Glob},
    json::Raw,
    policy::{
        Policy,
        toolset::{ToolPattern, Toolset},
    },
    request::RequestError,
};
use muster_gateway::{
    dispatch::GatewaySnapshot,
    surface::{
        Surface as _, SurfaceContext,
        meta::{Meta, native::NativeOptions},
    },
};
use serde_json::Value;

use crate::gateway::{Gateway, listed, plain, raw, tool, tool_call};

const READ: &str =
    r#"{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"x":1}"#;
const WRITE: &str = r#"{"name":"put","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://put/form"}}}"#;
const RESULT: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

fn gateway(options: NativeOptions) -> Gateway {
    let core = plain("core", "core_stats", "Statistics", "{}");
    let core = vec![ToolEntry { audience: ToolAudience::Everyone, ..core }];
    let mut gateway = Gateway::new()
        .with_tools("s", vec![tool("s", READ), tool("s", WRITE)], RESULT)
        .with_tools("core", core, RESULT);
    gateway.meta = Meta::default().with_native(options);
    gateway
}

/// The number of meta-tools.
fn meta_tools() -> usize {
    Meta::default().tools(&GatewaySnapshot::default()).len()
}

fn names_for(gateway: &Gateway, caller: &Caller, client: &Arc<dyn ClientHandle>) -> Vec<String> {
    let (dispatcher, snapshot) = (&gateway.dispatcher, &gateway.dispatcher.snapshot(caller));
    let cx = SurfaceContext { dispatcher, snapshot, caller, client };
    let name = |tool: &Raw| {
        let tool: Value = serde_json::from_str(tool.get()).unwrap();
        tool["name"].as_str().unwrap().to_owned()
    };
    gateway.meta.tools_for(cx).iter().map(name).collect()
}

fn names(gateway: &Gateway, caller: &Caller) -> Vec<String> {
    names_for(gateway, caller, &NoClient::shared())
}

fn toolset(pinned: &str) -> Policy {
    let glob = Glob::new(pinned, CaseSensitivity::Sensitive).unwrap();
    let pinned = vec![ToolPattern { glob, with_server: false, names_core: false }];
    let set = Toolset { pinned, ..Toolset::default() };
    let toolsets = Arc::new([("front".to_owned(), Arc::new(set))].into());
    Policy { toolsets, ..Policy::default() }
}

#[test]
fn without_a_choice_there_are_only_meta_tools() {
    let gateway = gateway(NativeOptions::default());
    let names = names(&gateway, &Caller::local());
    assert_eq!(names.len(), meta_tools());
    assert!(!names.iter().any(|name| name.starts_with("x_") || name == "read_tool"), "{names:?}");
    let refused = gateway.send(tool_call("x_s_look", "{}"));
    assert!(matches!(refused, Err(RequestError::InvalidParams(_))), "{refused:?}");
    let refused = gateway.send(tool_call("read_tool", r#"{"name":"x_s_look"}"#));
    assert!(matches!(refused, Err(RequestError::InvalidParams(_))), "{refused:?}");
}

#[test]
fn pinned_tools_are_listed_beside_the_meta_tools() {
    let gateway = gateway(NativeOptions::default()).with_policy(toolset("x_s_l*"));
    let bound = Caller { toolset: Some("front".into()), ..Caller::local() };
    assert_eq!(names(&gateway, &Caller::local()).len(), meta_tools());
    let listed = names(&gateway, &bound);
    assert_eq!(listed.len(), meta_tools() + 1);
    assert_eq!(listed[meta_tools()], "x_s_look");
    let client = NoClient::shared();
    let answer = gateway.send_as(&bound, &client, tool_call("x_s_look", r#"{"a":1}"#));
    let Ok(Outcome::Raw(result)) = answer else { panic!("{answer:?}") };
    assert_eq!(result.get(), RESULT);
    assert_eq!(gateway.heard(), [r#"look {"a":1}"#]);
    for (caller, tool) in [(&bound, "x_s_put"), (&Caller::local(), "x_s_look")] {
        let refused = gateway.send_as(caller, &client, tool_call(tool, "{}"));
        assert!(matches!(refused, Err(RequestError::InvalidParams(_))), "{refused:?}");
    }
    assert!(gateway.meta.lists_catalog(&gateway.dispatcher.snapshot(&bound)));
}

#[test]
fn a_small_catalog_is_listed_directly_for_the_whole_session() {
    let options = NativeOptions { direct_tokens: Some(500), ..NativeOptions::default() };
    let gateway = gateway(options);
    let session = |id: &str| Caller { session: Some(id.into()), ..Caller::local() };
    let (first, second) = (session("1"), session("2"));
    // Long results are read with get_output.
    assert_eq!(names(&gateway, &first), ["x_s_look", "x_s_put", "get_output"]);
    let client = NoClient::shared();
    let answer = gateway.send_as(&first, &client, tool_call("x_s_put", "{}"));
    assert!(matches!(answer, Ok(Outcome::Raw(_))), "{answer:?}");
    // The meta-tools are not listed, and can be called: the command line uses them.
    let answer =
        gateway.send_as(&first, &client, tool_call("call_tool", r#"{"name":"core_stats"}"#));
    assert!(answer.is_ok(), "{answer:?}");
    let many = (0..50).map(|n| plain("t", &format!("x_t_{n}"), "Does a thing", "{}")).collect();
    let gateway = gateway.with_tools("t", many, RESULT);
    // What the session began with stays, and the meta-tools lead to the others.
    let grown = names(&gateway, &first);
    assert_eq!(
        (grown.len(), &grown[..2]),
        (meta_tools() + 2, &["x_s_look", "x_s_put"].map(str::to_owned)[..])
    );
    assert!(names(&gateway, &second).contains(&"call_tool".to_owned()));
    gateway.change(|state| {
        state.catalog = state.catalog.without(&muster_core::name::BackendName::new("t"));
    });
    assert!(names(&gateway, &second).contains(&"call_tool".to_owned()));
    assert_eq!(names(&gateway, &first), ["x_s_look", "x_s_put", "get_output"]);
}

#[test]
fn each_session_and_toolset_has_its_own_list() {
    let options = NativeOptions { direct_tokens: Some(500), ..NativeOptions::default() };
    let gateway = gateway(options).with_policy(toolset("x_s_l*"));
    let caller = |session: &str, toolset: Option<&str>| Caller {
        session: Some(session.into()),
        toolset: toolset.map(Into::into),
        ..Caller::local()
    };
    let all = ["x_s_look", "x_s_put", "get_output"];
    assert_eq!(names(&gateway, &caller("1", None)), all);
    let many = (0..50).map(|n| plain("t", &format!("x_t_{n}"), "Does a thing", "{}")).collect();
    let gateway = gateway.with_tools("t", many, RESULT);
    // Another session of the same user, and another toolset in the same session, begin with the meta-tools.
    for other in [caller("2", None), caller("1", Some("front"))] {
        assert_eq!(names(&gateway, &other)[0], "list_tools", "{other:?}");
    }
    assert_eq!(names(&gateway, &caller("1", None))[..2], all[..2]);
}

#[test]
fn long_errors_of_servers_are_cut() {
    let options = NativeOptions { direct_tokens: Some(500), ..NativeOptions::default() };
    let offer = muster_core::catalog::Offer { tools: vec![tool("s", READ)], ..Default::default() };
    let failing = |_: &_| {
        let (message, data) =
            ("m ".repeat(100_000), Some(raw(&format!("\"{}\"", "d ".repeat(99_999)))));
        Err(CallError::Upstream { code: -32000, message, data })
    };
    let mut gateway = Gateway::new().with("s", offer, failing, |_| panic!("not asked"));
    gateway.meta = Meta::default().with_native(options);
    let failed = gateway.send(tool_call("x_s_look", "{}"));
    let Err(RequestError::Upstream { code: -32000, message, data: None }) = failed else {
        panic!("{failed:?}")
    };
    assert!(muster_core::token_estimate::estimate(&message) <= 16_000, "{}", message.len());
}

#[test]
fn the_ui_of_a_tool_comes_from_its_server() {
    let ui = |text: &'static str| move |_: &_| Ok(Outcome::Raw(raw(text)));
    let listed = listed("other", "ui://put/form", "ui://put/form", r#"{"uri":"ui://put/form"}"#);
    let imposter = muster_core::catalog::Offer { resources: vec![listed], ..Default::default() };
    let own = muster_core::catalog::Offer { tools: vec![tool("s", WRITE)], ..Default::default() };
    let gateway = Gateway::new()
        .with(
            "other",
            imposter,
            |_| panic!("not called"),
            ui(r#"{"contents":[{"text":"theirs"}]}"#),
        )
        .with("s", own, |_| panic!("not called"), ui(r#"{"contents":[{"text":"own"}]}"#));
    assert_eq!(gateway.text("get_resource", r#"{"uri":"ui://put/form"}"#), "own");
    let gateway = gateway.with_tools("t", vec![tool("t", WRITE)], RESULT);
    assert_eq!(
        gateway.text("get_resource", r#"{"uri":"ui://put/form"}"#),
        "!`ui://put/form` is ambiguous: tools of `s` and `t` refer to it"
    );
}

#[test]
fn a_session_without_tools_is_not_decided_yet() {
    let options = NativeOptions { direct_tokens: Some(500), ..NativeOptions::default() };
    let mut gateway = Gateway::new();
    gateway.meta = Meta::default().with_native(options);
    let session = Caller { session: Some("1".into()), ..Caller::local() };
    assert!(names(&gateway, &session).contains(&"filter_tools".to_owned()));
    let gateway = gateway.with_tools("s", vec![tool("s", READ)], RESULT);
    assert_eq!(names(&gateway, &session), ["x_s_look", "get_output"]);
    // Without its server the meta-tools are what is left.
    gateway.change(|state| {
        state.catalog = state.catalog.without(&muster_core::name::BackendName::new("s"));
    });
    assert!(names(&gateway, &session).contains(&"filter_tools".to_owned()));
}

#[test]
fn instructions_are_true_for_both_kinds_of_list() {
    let direct = NativeOptions { direct_tokens: Some(500), ..NativeOptions::default() };
    let said = Meta::default().with_native(direct).instructions();
    assert!(
        said.contains("called directly") && said.contains("If filter_tools is listed"),
        "{said}"
    );
    let said = Meta::default().instructions();
    assert!(!said.contains("directly"), "{said}");
}

#[test]
fn read_tool_runs_tools_that_only_read() {
    let options = NativeOptions { read_tool: true, ..NativeOptions::default() };
    let gateway = gateway(options);
    let listed = gateway.meta.tools(&gateway.dispatcher.snapshot(&Caller::local()));
    let last = listed.last().unwrap().get();
    assert!(last.contains(r#""name":"read_tool""#) && last.contains(r#""readOnlyHint":true"#));
    let read = |arguments| gateway.text("read_tool", arguments);
    assert!(read(r#"{"name":"x_s_look"}"#).contains("done"));
    for refused in [r#"{"name":"x_s_put"}"#, r#"{"name":"x_s_put","effect":"write"}"#] {
        let said = read(refused);
        let expect =
            "`x_s_put` is write, and `read_tool` runs only tools that read\\nhint: use `call_tool`";
        assert!(said.starts_with('!') && said.contains(expect), "{said}");
    }
    assert_eq!(gateway.heard(), ["look {}"]);
    let said = gateway.text("call_tool", r#"{"name":"read_tool"}"#);
    assert!(said.contains("`read_tool` is not behind call_tool: call it directly"), "{said}");
}

/// A client that can show UIs.
#[derive(Debug)]
struct UiClient;

impl ClientHandle for UiClient {
    fn capabilities(&self) -> Raw {
        raw(
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
        )
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Unsupported
    }

    fn notify(&self, _: Notification) {}

    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(std::future::ready(Err(InputError::Disconnected)))
    }
}

#[test]
fn tools_with_a_ui_reach_clients_that_can_show_it() {
    let options = NativeOptions { ui_tools: true, ..NativeOptions::default() };
    let gateway = gateway(options);
    let client: Arc<dyn ClientHandle> = Arc::new(UiClient);
    assert_eq!(names(&gateway, &Caller::local()).len(), meta_tools());
    let listed = names_for(&gateway, &Caller::local(), &client);
    assert_eq!((listed.len(), listed[meta_tools()].as_str()), (meta_tools() + 1, "x_s_put"));
    let answer = gateway.send_as(&Caller::local(), &client, tool_call("x_s_put", "{}"));
    assert!(matches!(answer, Ok(Outcome::Raw(_))), "{answer:?}");
}
