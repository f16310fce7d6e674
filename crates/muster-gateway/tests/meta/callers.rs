//! What one caller sees, and another does not.

use std::sync::Arc;

use muster_core::{
    backend::ResourceOperation,
    call::{Caller, Outcome},
    catalog::{Audience, Offer, ToolEntry},
    client::{Continuation, NoClient},
    policy::{
        DefaultAccess, Policy, Rule,
        callers::{CallerGrant, Subjects},
        toolset::Toolset,
    },
    request::{
        ClientRequest, Request, RequestError, RequestHandler as _, Response, ServerCapabilities,
        ServerInfo,
    },
};
use muster_gateway::{dispatch::Dispatcher, front::Front, surface::meta::Meta};
use tokio::sync::broadcast;

use crate::gateway::{Gateway, block_on, listed, plain, raw, tool, tool_call};

/// Servers `open` and `secret`, each with a tool, a resource, a template and a prompt. Only the token `key`
/// may use `secret`.
fn gateway() -> Gateway {
    let offer = |server: &str| Offer {
        tools: vec![tool(server, r#"{"name":"act","inputSchema":{"type":"object"}}"#)],
        resources: vec![listed(
            server,
            &format!("{server}://r"),
            &format!("{server}://r"),
            &format!(r#"{{"uri":"{server}://r","name":"r"}}"#),
        )],
        templates: vec![listed(
            server,
            &format!("{server}://{{id}}"),
            &format!("{server}://{{id}}"),
            &format!(r#"{{"uriTemplate":"{server}://{{id}}","name":"t"}}"#),
        )],
        prompts: vec![listed(server, &format!("x_{server}_p"), "p", r#"{"name":"p"}"#)],
    };
    let reply = || Ok(Outcome::Raw(raw(r#"{"contents":[],"messages":[],"content":[]}"#)));
    let core = ToolEntry {
        audience: Audience::Operators,
        ..plain("core", "core_thing_create", "Creates a thing", r#"{"type":"object"}"#)
    };
    let grant = CallerGrant {
        subjects: Subjects { tokens: vec!["key".to_owned()], ..Subjects::default() },
        rules: [("secret/*".to_owned(), Rule::default())].into_iter().collect(),
        ..CallerGrant::default()
    };
    let policy = Policy {
        default: DefaultAccess::Disabled,
        rules: [("open/act".to_owned(), Rule::default())].into_iter().collect(),
        callers: vec![Arc::new(grant)],
        toolsets: Arc::new([("none".to_owned(), Arc::new(Toolset::default()))].into()),
        ..Policy::default()
    };
    Gateway::new()
        .with(
            "core",
            Offer { tools: vec![core], ..Offer::default() },
            move |_| reply(),
            move |_| reply(),
        )
        .with("open", offer("open"), move |_| reply(), move |_| reply())
        .with("secret", offer("secret"), move |_| reply(), move |_| reply())
        .with_policy(policy)
}

fn token(name: &str) -> Caller {
    Caller { token: Some(name.into()), ..Caller::local() }
}

/// Sends a request as a caller, on the protocol's own methods.
fn ask(gateway: &Gateway, caller: &Caller, request: Request) -> Result<String, RequestError> {
    let dispatcher = Arc::new(Dispatcher::new(gateway.state.subscribe()));
    let all =
        ServerCapabilities { resources: true, prompts: true, ..ServerCapabilities::default() };
    let info = ServerInfo { name: "test".to_owned(), version: "1".to_owned(), instructions: None };
    let front =
        Front::new(info, all, Box::new(Meta::default()), dispatcher, broadcast::channel(1).0);
    let asked = ClientRequest { request, meta: None, continuation: Continuation::default() };
    match block_on(front.handle(caller, &NoClient::shared(), asked))? {
        Response::Done { result, .. } => Ok(result.get().to_owned()),
        Response::InputRequired(_) => panic!("asks back"),
    }
}

#[test]
fn resources_and_prompts_of_a_hidden_server_are_hidden() {
    let gateway = gateway();
    let lists = || {
        [
            Request::ListResources { cursor: None },
            Request::ListTemplates { cursor: None },
            Request::ListPrompts { cursor: None },
            Request::ListTools { cursor: None },
        ]
    };
    for list in lists() {
        let said = ask(&gateway, &token("other"), list).unwrap();
        assert!(!said.contains("secret"), "{said}");
    }
    for list in lists() {
        let said = ask(&gateway, &token("key"), list).unwrap();
        assert!(said.contains("secret") && said.contains("open"), "{said}");
    }
    let reads = || {
        let read = |uri: &str| Request::Resource(ResourceOperation::Read { uri: uri.to_owned() });
        let name = "x_secret_p".to_owned();
        let prompt = Request::Resource(ResourceOperation::Prompt { name, arguments: None });
        [read("secret://r"), read("secret://7"), prompt]
    };
    for read in reads() {
        assert!(ask(&gateway, &token("other"), read).is_err());
    }
    assert_eq!(gateway.heard(), [""; 0]);
    for read in reads() {
        ask(&gateway, &token("key"), read).unwrap();
    }
    assert_eq!(gateway.heard().len(), 3);
}

fn said(gateway: &Gateway, caller: &Caller, tool: &str, arguments: &str) -> String {
    match gateway.send_as(caller, &NoClient::shared(), tool_call(tool, arguments)).unwrap() {
        Outcome::Text { text, .. } => text,
        Outcome::Raw(result) => result.get().to_owned(),
        Outcome::InputRequired(_) => panic!("asks back"),
    }
}

#[test]
fn nothing_names_a_hidden_server() {
    let gateway = gateway();
    let hidden = said(&gateway, &token("other"), "call_tool", r#"{"name":"x_secret_act"}"#);
    let unknown = said(&gateway, &token("other"), "call_tool", r#"{"name":"x_sekret_act"}"#);
    assert_eq!(hidden.replace("secret", "sekret"), unknown);
    for (tool, arguments) in [
        ("list_tools", "{}"),
        ("filter_tools", r#"{"query":"act"}"#),
        ("list_resources", "{}"),
        ("list_prompts", "{}"),
        ("describe_tool", r#"{"name":"x_open_act"}"#),
    ] {
        let text = said(&gateway, &token("other"), tool, arguments);
        assert!(!text.contains("secret"), "{tool}: {text}");
    }
    assert!(said(&gateway, &token("key"), "list_tools", "{}").contains("x_secret_act"));
    said(&gateway, &token("key"), "call_tool", r#"{"name":"x_secret_act"}"#);
    assert_eq!(gateway.heard(), ["act {}"]);
}

#[test]
fn callers_of_one_kind_share_a_view() {
    let gateway = gateway();
    let view = |caller: &Caller| gateway.dispatcher.snapshot(caller);
    let one = view(&token("a"));
    assert!(Arc::ptr_eq(&one, &view(&token("b"))));
    assert!(!Arc::ptr_eq(&one, &view(&token("key"))));
    gateway.change(|_| ());
    assert!(!Arc::ptr_eq(&one, &view(&token("a"))));
    // Without a policy nothing is derived.
    let gateway = gateway.with_policy(Policy::default());
    let shared = Arc::clone(&gateway.state.borrow());
    assert!(Arc::ptr_eq(&shared, &gateway.dispatcher.snapshot(&token("a"))));
}
