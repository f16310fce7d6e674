//! A gateway over scripted backends.

use std::{
    fmt,
    sync::{Arc, mpsc},
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest},
    call::{CallError, Caller, Outcome},
    catalog::{
        BackendInfo, CatalogItem, CatalogSnapshot, CatalogSource, NameCollision, Offer,
        ToolAudience, ToolEntry,
    },
    client::{ClientHandle, Continuation, NoClient},
    json::Raw,
    name::{BackendName, ToolName},
    policy::{Permitted, Policy},
    request::RequestError,
    spooled::ToolResult,
};
use muster_gateway::{
    dispatch::{Dispatcher, GatewaySnapshot},
    surface::{Surface, SurfaceContext, ToolCall, meta::Meta},
};
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

/// The reply of a backend.
pub(crate) type Answer = Result<Outcome, CallError>;

/// The script of a backend.
type Says<T> = dyn Fn(&T) -> Answer + Send + Sync;

/// A gateway with one client.
pub(crate) struct Gateway {
    pub(crate) meta: Meta,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) state: watch::Sender<Arc<GatewaySnapshot>>,
    /// What reached the backends, in order.
    pub(crate) heard: mpsc::Receiver<String>,
    tell: mpsc::Sender<String>,
}

/// A scripted backend.
pub(crate) struct Fake {
    run: Box<Says<Permitted>>,
    ask: Box<Says<ResourceRequest>>,
    tell: mpsc::Sender<String>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl Backend for Fake {
    fn run<'a>(
        &'a self,
        _: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let meta = call.meta().map(|meta| format!(" meta={meta}")).unwrap_or_default();
        let state = call.continuation().state.as_ref();
        let state = state.map(|state| format!(" state={state}")).unwrap_or_default();
        let heard = format!("{} {}{meta}{state}", call.entry().local_name, call.raw_arguments());
        self.tell.send(heard).unwrap();
        Box::pin(std::future::ready((self.run)(&call).map(Into::into)))
    }

    fn request<'a>(&'a self, _: CallContext<'a>, ask: ResourceRequest) -> BoxFuture<'a, Answer> {
        let heard = match &ask.operation {
            ResourceOperation::Read { uri } => format!("read {uri}"),
            ResourceOperation::Prompt { name, arguments } => {
                format!("prompt {name} {}", arguments.as_ref().map_or("-", |raw| raw.get()))
            }
            other => format!("{other:?}"),
        };
        self.tell.send(heard).unwrap();
        Box::pin(std::future::ready((self.ask)(&ask)))
    }
}

impl Gateway {
    pub(crate) fn new() -> Self {
        let catalog = CatalogSnapshot::with_collisions(NameCollision::FirstWins);
        let (state, follow) =
            watch::channel(Arc::new(GatewaySnapshot { catalog, ..GatewaySnapshot::default() }));
        let (tell, heard) = mpsc::channel();
        Self { meta: Meta::default(), dispatcher: Dispatcher::new(follow), state, heard, tell }
    }

    /// Adds a backend that replies to calls with `run` and to other requests with `ask`.
    pub(crate) fn with(
        self,
        name: &str,
        offer: Offer,
        run: impl Fn(&Permitted) -> Answer + Send + Sync + 'static,
        ask: impl Fn(&ResourceRequest) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let tell = self.tell.clone();
        let fake = Fake { run: Box::new(run), ask: Box::new(ask), tell };
        let about = BackendInfo {
            title: Arc::from(name),
            description: Arc::from(""),
            category: None,
            tags: Arc::from([]),
        };
        let backend = BackendName::new(name);
        self.change(|state| {
            state.catalog = state.catalog.with(CatalogSource::new(backend.clone(), about, offer));
            state.backends.insert(backend, Arc::new(fake));
        });
        self
    }

    /// Adds a backend whose tools all return `result`.
    pub(crate) fn with_tools(
        self,
        name: &str,
        tools: Vec<ToolEntry>,
        result: &'static str,
    ) -> Self {
        let offer = Offer { tools, ..Offer::default() };
        self.with(name, offer, move |_| Ok(Outcome::Raw(raw(result))), |_| panic!("not asked"))
    }

    pub(crate) fn with_policy(self, policy: Policy) -> Self {
        self.change(|state| state.policy = Arc::new(policy));
        self
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut GatewaySnapshot)) {
        let mut state = GatewaySnapshot::clone(&self.state.borrow());
        change(&mut state);
        self.state.send_replace(Arc::new(state));
    }

    pub(crate) fn send(&self, call: ToolCall) -> Result<Outcome, RequestError> {
        let (caller, client) = (Caller::local(), NoClient::shared());
        self.send_as(&caller, &client, call)
    }

    pub(crate) fn send_as(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        call: ToolCall,
    ) -> Result<Outcome, RequestError> {
        let (dispatcher, snapshot) = (&self.dispatcher, &self.dispatcher.snapshot(caller));
        let cx = SurfaceContext { dispatcher, snapshot, caller, client };
        block_on(self.meta.call(cx, call))
    }

    /// The reply of another surface.
    pub(crate) fn reply_of(&self, surface: &dyn Surface, tool: &str, arguments: &str) -> Outcome {
        let (caller, client) = (Caller::local(), NoClient::shared());
        let (dispatcher, snapshot) = (&self.dispatcher, &self.dispatcher.snapshot(&caller));
        let cx = SurfaceContext { dispatcher, snapshot, caller: &caller, client: &client };
        block_on(surface.call(cx, tool_call(tool, arguments))).unwrap()
    }

    /// The text that another surface replies with.
    pub(crate) fn text_of(&self, surface: &dyn Surface, tool: &str, arguments: &str) -> String {
        match self.reply_of(surface, tool, arguments) {
            Outcome::Text { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    /// The result of a meta-tool, as it is sent.
    pub(crate) fn result(&self, tool: &str, arguments: &str) -> Raw {
        match self.send(tool_call(tool, arguments)).unwrap() {
            Outcome::Raw(result) => result,
            Outcome::Text { text, failed, details } => {
                assert!(details.is_none());
                let content = serde_json::json!([{"type":"text","text":text}]);
                raw(&serde_json::json!({"content":content,"isError":failed}).to_string())
            }
            Outcome::InputRequired(_) => panic!("asks back"),
        }
    }

    /// The text of a result, with `!` before it if it is an error.
    pub(crate) fn text(&self, tool: &str, arguments: &str) -> String {
        let result: Value = serde_json::from_str(self.result(tool, arguments).get()).unwrap();
        let content = result["content"].as_array().unwrap();
        let texts: Vec<&str> = content.iter().map(|item| item["text"].as_str().unwrap()).collect();
        let mark = if result["isError"] == true { "!" } else { "" };
        format!("{mark}{}", texts.join("\n---\n"))
    }

    /// The text of a result, read as JSON.
    pub(crate) fn json(&self, tool: &str, arguments: &str) -> Value {
        serde_json::from_str(&self.text(tool, arguments)).expect("an answer in JSON")
    }

    /// The text inside the envelope of `call_tool`, with `!` before it if it is an error.
    pub(crate) fn inner(&self, arguments: &str) -> String {
        let text = self.text("call_tool", arguments);
        let (mark, text) = text.strip_prefix('!').map_or(("", &*text), |text| ("!", text));
        let inner: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(inner["isError"] == true, mark == "!");
        format!("{mark}{}", inner["content"][0]["text"].as_str().unwrap())
    }

    /// What reached the backends since the last check.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.try_iter().collect()
    }
}

pub(crate) fn tool_call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall {
        name: tool.to_owned(),
        arguments: raw(arguments),
        meta: None,
        continuation: Continuation::default(),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn raw(text: &str) -> Raw {
    RawValue::from_string(text.to_owned()).expect(text)
}

/// A tool of an MCP server, from its definition.
pub(crate) fn tool(backend: &str, definition: &str) -> ToolEntry {
    let value: Value = serde_json::from_str(definition).unwrap();
    let local = value["name"].as_str().unwrap();
    ToolEntry {
        name: ToolName::new(format!("x_{backend}_{local}")),
        backend: BackendName::new(backend),
        local_name: Arc::from(local),
        description: Arc::from(value["description"].as_str().unwrap_or_default()),
        input_schema: Arc::from(raw(&value["inputSchema"].to_string())),
        params: None,
        definition: Some(Arc::from(raw(definition))),
        effect: None,
        validator: Arc::default(),
        audience: ToolAudience::default(),
    }
}

/// A tool that muster describes itself.
pub(crate) fn plain(backend: &str, name: &str, description: &str, schema: &str) -> ToolEntry {
    ToolEntry {
        name: ToolName::new(name),
        backend: BackendName::new(backend),
        local_name: Arc::from(name),
        description: Arc::from(description),
        input_schema: Arc::from(raw(schema)),
        params: None,
        definition: None,
        effect: None,
        validator: Arc::default(),
        // As the engine's core tools, which have an index of their own.
        audience: if backend == "core" { ToolAudience::Everyone } else { ToolAudience::Callers },
    }
}

/// A resource, a template or a prompt.
pub(crate) fn listed(backend: &str, name: &str, local: &str, definition: &str) -> CatalogItem {
    CatalogItem {
        name: Arc::from(name),
        backend: BackendName::new(backend),
        local_name: Arc::from(local),
        definition: Arc::from(raw(definition)),
    }
}
