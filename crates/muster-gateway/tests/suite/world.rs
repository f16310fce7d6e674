//! A gateway over a backend that records calls and runs nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ToolCaller as _},
    call::{Call, CallError, Caller, Checking, Outcome},
    catalog::{Audience, BackendInfo, CatalogSnapshot, CatalogSource, Offer, ToolEntry},
    client::{ClientHandle, Continuation, NoClient},
    json::raw,
    name::{BackendName, ToolName},
    policy::{Permitted, Policy},
    python,
    request::{
        ClientRequest, Request, RequestHandler as _, Response, ServerCapabilities, ServerInfo,
    },
    schema,
    spooled::ToolResult,
};
use muster_gateway::{
    dispatch::{Dispatcher, GatewaySnapshot},
    front::Front,
    surface::Surface,
};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

/// The tools of every test.
const TOOLS: &str = "\
name: demo
description: For tests
category: test
command: never run
tools:
  - name: say
    description: Says something
    args:
      - {name: text, required: true}
      - {name: count, type: integer}
      - {name: tone, enum: [loud, low]}
  - name: plain
    description: Takes nothing
  - name: nest
    description: Calls itself
";

/// Records each call; `nest` calls itself.
#[derive(Debug)]
struct Notes {
    sender: mpsc::Sender<String>,
}

impl Backend for Notes {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let arguments = call.arguments().iter();
        let arguments: String =
            arguments.map(|(name, value)| format!(" {name}={}", python::repr(value))).collect();
        let note = format!("{}{arguments}", call.entry().local_name);
        self.sender.send(note.clone()).unwrap();
        Box::pin(async move {
            if &*call.entry().local_name == "nest" {
                let inner = Caller { depth: cx.caller.depth + 1, ..cx.caller.clone() };
                let call = request("nest", serde_json::json!({}));
                return cx.tools.call(&inner, cx.client, call).await.map(Into::into);
            }
            Ok(Outcome::text(note).into())
        })
    }
}

pub(crate) fn request(tool: &str, arguments: Value) -> Call {
    Call::new(ToolName::new(tool), raw(&arguments), Checking::Coerce)
}

/// A gateway, the calls that reach its backend, and the sender of its state.
pub(crate) struct World {
    dispatcher: Arc<Dispatcher>,
    reached: mpsc::Receiver<String>,
    writer: watch::Sender<Arc<GatewaySnapshot>>,
}

impl World {
    /// A world under this policy; without one everything is allowed.
    pub(crate) fn new(policy: Option<&str>) -> Self {
        let policy = policy.map_or_else(Policy::default, |policy| {
            muster_config::policy::parse(policy).unwrap().value
        });
        let (sender, reached) = mpsc::channel();
        let backends = BTreeMap::from([(name(), Arc::new(Notes { sender }) as Arc<dyn Backend>)]);
        let catalog = CatalogSnapshot::default().with(source());
        let state = GatewaySnapshot {
            catalog,
            policy: Arc::new(policy),
            backends,
            ..GatewaySnapshot::default()
        };
        let (writer, reader) = watch::channel(Arc::new(state));
        Self { dispatcher: Arc::new(Dispatcher::new(reader)), reached, writer }
    }

    /// Calls through the dispatcher.
    pub(crate) fn call(&self, call: Call) -> Result<Outcome, CallError> {
        block_on(self.dispatcher.call(&Caller::local(), &nobody(), call))
    }

    /// The calls that reached the backend since the last check.
    pub(crate) fn reached(&self) -> Vec<String> {
        self.reached.try_iter().collect()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut GatewaySnapshot)) {
        self.writer.send_modify(|state| change(Arc::make_mut(state)));
    }

    /// Sends a request as a client does. Returns the result as JSON.
    pub(crate) fn ask(&self, surface: Box<dyn Surface>, request: Request) -> Value {
        let identity =
            ServerInfo { name: "test".to_owned(), version: "1".to_owned(), instructions: None };
        let (changes, _) = broadcast::channel(1);
        let dispatcher = Arc::clone(&self.dispatcher);
        let front =
            Front::new(identity, ServerCapabilities::default(), surface, dispatcher, changes);
        let asked = ClientRequest { request, meta: None, continuation: Continuation::default() };
        let reply = block_on(front.handle(&Caller::local(), &nobody(), asked)).unwrap();
        let Response::Done { result, .. } = reply else { panic!("{reply:?}") };
        serde_json::from_str(result.get()).unwrap()
    }
}

fn nobody() -> Arc<dyn ClientHandle> {
    Arc::new(NoClient)
}

fn name() -> BackendName {
    BackendName::new("demo")
}

fn source() -> CatalogSource {
    let config = muster_config::cli::parse(TOOLS).unwrap().value;
    let about = BackendInfo {
        title: config.name.into(),
        description: config.description.into(),
        category: config.category.map(Into::into),
        tags: config.tags.into(),
    };
    let entries = config.tools.into_iter().map(|tool| ToolEntry {
        name: ToolName::new(tool.name.as_str()),
        backend: name(),
        local_name: tool.name.into(),
        description: tool.description.into(),
        input_schema: schema::input_schema(&tool.params).into(),
        params: Some(tool.params.into()),
        definition: None,
        effect: tool.effect,
        validator: Arc::default(),
        audience: Audience::default(),
    });
    CatalogSource::new(name(), about, Offer { tools: entries.collect(), ..Offer::default() })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
