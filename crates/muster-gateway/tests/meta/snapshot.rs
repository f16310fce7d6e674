//! One request reads the state once, however it is served.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use muster_core::{
    backend::{BoxFuture, ResourceOperation},
    call::{Caller, Outcome},
    catalog::Offer,
    client::{Continuation, NoClient},
    request::{ClientRequest, Request, RequestHandler as _, ServerCapabilities, ServerInfo},
};
use muster_gateway::{
    dispatch::{CallerSnapshots, Dispatcher, GatewaySnapshot},
    front::Front,
    surface::{Surface, classic::Classic, discovery::DiscoverySurface, meta::Meta},
};
use tokio::sync::broadcast;

use crate::gateway::{Gateway, block_on, listed, raw, tool};

const READS: &str =
    r#"{"name":"act","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
const DESTROYS: &str =
    r#"{"name":"act","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}"#;

/// A catalog that changes after every read of the state: the tool that only read now destroys.
#[derive(Debug)]
struct ChangingCatalog {
    changed: Arc<GatewaySnapshot>,
    reads: AtomicUsize,
}

impl CallerSnapshots for ChangingCatalog {
    fn snapshot(&self, _: &Caller, shared: Arc<GatewaySnapshot>) -> Arc<GatewaySnapshot> {
        match self.reads.fetch_add(1, Ordering::Relaxed) {
            0 => shared,
            _ => Arc::clone(&self.changed),
        }
    }

    fn touch(self: Arc<Self>, _: &Caller) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// A gateway with one tool, one resource and one prompt, all answering `result`.
fn gateway(definition: &str, result: &'static str) -> Gateway {
    let offer = Offer {
        tools: vec![tool("a", definition)],
        resources: vec![listed("a", "a://r", "a://r", r#"{"uri":"a://r","name":"r"}"#)],
        prompts: vec![listed("a", "x_a_p", "p", r#"{"name":"p"}"#)],
        ..Offer::default()
    };
    let reply = move || Ok(Outcome::Raw(raw(result)));
    Gateway::new().with("a", offer, move |_| reply(), move |_| reply())
}

/// Serves one request while the catalog changes: how often the state was read, and what the backends of the
/// old and of the changed catalog received.
fn serve(surface: Box<dyn Surface>, request: Request) -> (usize, Vec<String>, Vec<String>) {
    let (before, after) = (gateway(READS, "{}"), gateway(DESTROYS, "{}"));
    let changed = Arc::clone(&after.state.borrow());
    let catalog = Arc::new(ChangingCatalog { changed, reads: AtomicUsize::new(0) });
    let principals = Arc::clone(&catalog) as Arc<dyn CallerSnapshots>;
    let dispatcher = Dispatcher::new(before.state.subscribe()).with_principals(principals);
    let identity =
        ServerInfo { name: "test".to_owned(), version: "1".to_owned(), instructions: None };
    let offers =
        ServerCapabilities { resources: true, prompts: true, ..ServerCapabilities::default() };
    let (changes, _) = broadcast::channel(1);
    let front = Front::new(identity, offers, surface, Arc::new(dispatcher), changes);
    let asked = ClientRequest { request, meta: None, continuation: Continuation::default() };
    block_on(front.handle(&Caller::local(), &NoClient::shared(), asked)).unwrap();
    (catalog.reads.load(Ordering::Relaxed), before.heard(), after.heard())
}

fn call(name: &str, arguments: &str) -> Request {
    Request::CallTool { name: name.to_owned(), arguments: Some(raw(arguments)) }
}

#[test]
fn a_tool_that_becomes_destructive_does_not_slip_under_an_effect_ceiling() {
    let meta = call("call_tool", r#"{"name":"x_a_act","effect":"read"}"#);
    let discovery = call("climax_call", r#"{"tool_name":"x_a_act","effect":"read"}"#);
    let judged_and_run = (1, vec!["act {}".to_owned()], Vec::new());
    assert_eq!(serve(Box::new(Meta::default()), meta), judged_and_run);
    assert_eq!(serve(Box::new(DiscoverySurface::default()), discovery), judged_and_run);
}

#[test]
fn every_request_reads_the_state_once() {
    type NewSurface = fn() -> Box<dyn Surface>;
    let surfaces: [NewSurface; 3] = [
        || Box::new(Meta::default()),
        || Box::new(DiscoverySurface::default()),
        || Box::new(Classic),
    ];
    let requests = || {
        [
            Request::ListTools { cursor: None },
            Request::ListResources { cursor: None },
            Request::ListPrompts { cursor: None },
            Request::Resource(ResourceOperation::Read { uri: "a://r".to_owned() }),
            Request::Resource(ResourceOperation::Prompt {
                name: "x_a_p".to_owned(),
                arguments: None,
            }),
        ]
    };
    for surface in surfaces {
        for request in requests() {
            let name = format!("{request:?}");
            assert_eq!(serve(surface(), request).0, 1, "{name}");
        }
    }
    let calls = [
        call("call_tool", r#"{"name":"x_a_missing"}"#),
        call("filter_tools", r#"{"query":"act"}"#),
        call("get_resource", r#"{"uri":"a://r"}"#),
        call("get_prompt", r#"{"name":"x_a_p"}"#),
    ];
    for call in calls {
        let name = format!("{call:?}");
        assert_eq!(serve(Box::new(Meta::default()), call).0, 1, "{name}");
    }
    for tool in ["x_a_act", "x_a_missing"] {
        assert_eq!(serve(Box::new(Classic), call(tool, "{}")).0, 1, "{tool}");
    }
}
