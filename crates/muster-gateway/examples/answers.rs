//! What answers of `filter_tools` cost: what `bench/retrieval/run.py --tokens` drives.
//!
//! Reads JSON lines: `{"tool": {server, name, description, input_schema}}` adds a tool, `{"query": text}`
//! asks. Writes the tokens of each answer, by a tokenizer that is in wide use, one a line.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, BufRead as _, Write as _},
    sync::Arc,
};

use muster_core::{
    call::{Caller, Outcome},
    catalog::{
        Audience, BackendInfo, CatalogSnapshot, CatalogSource, NameCollision, Offer, ToolEntry,
    },
    client::{Continuation, NoClient},
    json::{Raw, raw},
    name::{BackendName, ToolName},
};
use muster_gateway::{
    dispatch::{Dispatcher, GatewaySnapshot},
    surface::{Surface as _, SurfaceContext, ToolCall, meta::Meta},
};
use serde_json::{Value, json};
use tokio::sync::watch;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let (meta, mut asking, mut tools) = (Meta::default(), None, BTreeMap::new());
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        if let Some(tool) = line.get("tool") {
            let server = text(tool, "server").to_owned();
            tools.entry(server).or_insert_with(Vec::new).push(tool.clone());
            continue;
        }
        let dispatcher = asking.get_or_insert_with(|| dispatcher(&tools));
        let (caller, client) = (Caller::local(), NoClient::shared());
        let snapshot = &dispatcher.snapshot(&caller);
        let cx = SurfaceContext { dispatcher, snapshot, caller: &caller, client: &client };
        let call = ToolCall {
            name: "filter_tools".to_owned(),
            arguments: raw(&json!({"query": text(&line, "query")})),
            meta: None,
            continuation: Continuation::default(),
        };
        let answer = match runtime.block_on(meta.call(cx, call)) {
            Ok(Outcome::Text { text, .. }) => text,
            Ok(Outcome::Raw(result)) => result.get().to_owned(),
            Ok(Outcome::InputRequired(_)) | Err(_) => return Err("a search that fails".into()),
        };
        writeln!(out, "{}", tokenizer.encode_ordinary(&answer).len())?;
    }
    Ok(out.flush()?)
}

fn dispatcher(tools: &BTreeMap<String, Vec<Value>>) -> Dispatcher {
    let mut catalog = CatalogSnapshot::with_collisions(NameCollision::FirstWins);
    for (server, tools) in tools {
        let backend = BackendName::new(server.as_str());
        let about = BackendInfo {
            title: Arc::from(server.as_str()),
            description: Arc::from(""),
            category: None,
            tags: Arc::from([]),
        };
        let entries = tools.iter().map(|tool| entry(&backend, tool)).collect();
        let offer = Offer { tools: entries, ..Offer::default() };
        catalog = catalog.with(CatalogSource::new(backend, about, offer));
    }
    let (_, follow) =
        watch::channel(Arc::new(GatewaySnapshot { catalog, ..GatewaySnapshot::default() }));
    Dispatcher::new(follow)
}

fn entry(backend: &BackendName, tool: &Value) -> ToolEntry {
    let name = text(tool, "name");
    let none = json!({"type": "object"});
    let schema = tool.get("input_schema").filter(|schema| schema.is_object()).unwrap_or(&none);
    let definition: Raw = raw(&json!({"name": name, "inputSchema": schema}));
    ToolEntry {
        name: ToolName::new(format!("x_{backend}_{name}")),
        backend: backend.clone(),
        local_name: name.into(),
        description: text(tool, "description").into(),
        input_schema: raw(schema).into(),
        params: None,
        definition: Some(definition.into()),
        effect: None,
        validator: Arc::default(),
        audience: Audience::default(),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
