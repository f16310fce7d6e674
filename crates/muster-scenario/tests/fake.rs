//! A fake muster, complete enough to run scenarios against. `defect: <name>` in its `config.yaml` makes it
//! misbehave in one way.

mod backends;
mod login;
mod net;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{self, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backends::Backends;
use login::Logins;
use muster_config::yaml::{self, Node, NodeValue};
use muster_exec::launcher::Launcher;
use muster_scenario::wire::{self, Message, RpcError, text_result};
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinSet};

/// The state of the fake.
pub(crate) struct Fake {
    defect: String,
    backends: Backends,
    logins: Logins,
    calls: AtomicU64,
    notes: broadcast::Sender<String>,
}

#[expect(clippy::print_stderr, reason = "this is where the tester finds the logs of an instance")]
pub(crate) async fn serve(dir: &Path) -> Result<ExitCode, String> {
    let config = read(&dir.join("config.yaml"))?;
    let port = text(&config, &["aggregator", "port"]).and_then(|port| port.parse().ok());
    let port: u16 = port.ok_or("no port")?;
    let defect = text(&config, &["defect"]).unwrap_or_default();
    eprintln!("fake muster on port {port}, defect: {defect:?}");
    if defect == "crash" {
        eprintln!("something terrible happened");
        return Ok(ExitCode::FAILURE);
    }
    let launcher = Launcher::new();
    let fake = Fake {
        backends: Backends::load(dir, &launcher).await?,
        logins: Logins::new(port, &defect),
        defect,
        calls: AtomicU64::new(0),
        notes: broadcast::Sender::new(16),
    };
    if !dir.join("honest").exists() {
        fake.leave_an_orphan()?;
    }
    let fake = Arc::new(fake);
    let mut tasks = JoinSet::new();
    tasks.spawn(net::listen(port, Arc::clone(&fake)));
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|err| err.to_string())?;
    loop {
        tokio::select! {
            _ = term.recv() => {
                eprintln!("received SIGTERM");
                if fake.defect != "deaf" {
                    break;
                }
            }
            ended = tasks.join_next() => return Err(format!("the listener ended: {ended:?}")),
        }
    }
    launcher.shut_down().await;
    Ok(ExitCode::SUCCESS)
}

impl Fake {
    /// Leaves an orphan process behind, as a careless gateway would.
    #[expect(clippy::disallowed_methods, reason = "this is what the tester has to find")]
    fn leave_an_orphan(&self) -> Result<(), String> {
        if self.defect == "orphan" {
            let mut command = process::Command::new("sleep");
            let started = command.arg("60").process_group(0).stdout(Stdio::null()).spawn();
            drop(started.map_err(|err| err.to_string())?);
        }
        Ok(())
    }

    /// Handles one message of a session.
    pub(crate) async fn handle(&self, message: Message, session: &str) -> Option<String> {
        let Message::Request { id, method, params } = message else { return None };
        let outcome = match method.as_str() {
            "initialize" => Ok(json!({
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "fake", "version": "1"},
            })),
            "tools/list" => Ok(with_meta_tools(self.list(session).await)),
            "resources/read" => {
                let text = json!({"servers": [{"name": "one", "status": "connected"}]}).to_string();
                Ok(json!({"contents": [{"uri": "auth://status", "text": text}]}))
            }
            "tools/call" => self.call(&params, session).await,
            _ => Err(RpcError::new(wire::METHOD_NOT_FOUND, "no such method")),
        };
        let id =
            if self.defect == "wrong-id" && method == "tools/call" { json!(999_999) } else { id };
        Some(wire::answer(&id, &outcome))
    }

    async fn list(&self, session: &str) -> Value {
        let mut names = vec!["core_echo".to_owned(), "core_count".to_owned()];
        names.extend(self.backends.tool_names(&self.logins.tokens(session).await).await);
        if self.defect == "nothing" {
            names.clear();
        }
        if self.defect == "leak" || session.starts_with("privileged") {
            names.push("x_private_tool".to_owned());
        }
        let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({ "tools": tools })
    }

    async fn call(&self, params: &Value, session: &str) -> Result<Value, RpcError> {
        let name = at(params, "/name").as_str().unwrap_or_default();
        match name {
            "list_tools" => {
                let offset = at(params, "/arguments/offset").as_u64().unwrap_or_default();
                Ok(text_result(&page(&self.list(session).await, offset).to_string()))
            }
            "call_tool" => {
                let inner = at(params, "/arguments/name").as_str().unwrap_or_default();
                let (failed, text) =
                    match self.tool(inner, at(params, "/arguments/arguments"), session).await {
                        Ok(text) => (false, text),
                        Err(text) => (true, text),
                    };
                Ok(self.envelope(failed, &text))
            }
            other => Err(RpcError::new(wire::INVALID_PARAMS, format!("tool '{other}' not found"))),
        }
    }

    fn envelope(&self, failed: bool, text: &str) -> Value {
        match self.defect.as_str() {
            "no-envelope" => text_result(text),
            "never-fails" => {
                let inner = json!({"isError": false, "content": [{"type": "text", "text": text}]});
                text_result(&inner.to_string())
            }
            _ => {
                let inner = json!({"isError": failed, "content": [{"type": "text", "text": text}]});
                text_result(&inner.to_string())
            }
        }
    }

    async fn tool(&self, name: &str, args: &Value, session: &str) -> Result<String, String> {
        let count = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match name {
            "core_echo" => Ok(self.echo(args).await),
            "core_count" => Ok(json!({"count": count}).to_string()),
            "core_state" => {
                let state = if count < 3 || self.defect == "stuck" { "stopped" } else { "running" };
                Ok(json!({"name": at(args, "/name"), "state": state}).to_string())
            }
            "core_note" => {
                if self.defect != "silent" {
                    let note = wire::notification("notifications/tools/list_changed", &Value::Null);
                    let _nobody = self.notes.send(note);
                }
                Ok("noted".to_owned())
            }
            "core_mcpserver_list" => {
                let names = self.backends.names().map(|name| json!({"name": name}));
                Ok(json!({"mcpServers": names.collect::<Vec<_>>()}).to_string())
            }
            "core_auth_login" => {
                let server = at(args, "/server").as_str().unwrap_or_default();
                let port = self.backends.port(server).ok_or("server not found")?;
                self.logins.begin(server, port, session).await
            }
            name => self.backends.call(name, args, &self.logins.tokens(session).await).await,
        }
    }

    async fn echo(&self, args: &Value) -> String {
        match self.defect.as_str() {
            "wrong-text" => "something else".to_owned(),
            "big" => "x".repeat(10_000),
            "slow" => {
                tokio::time::sleep(Duration::from_secs(2)).await;
                args.to_string()
            }
            _ => args.to_string(),
        }
    }

    pub(crate) fn defect(&self) -> &str {
        &self.defect
    }

    pub(crate) const fn logins(&self) -> &Logins {
        &self.logins
    }

    pub(crate) fn notes(&self) -> broadcast::Receiver<String> {
        self.notes.subscribe()
    }
}

/// A page of a tool list with a single tool, to test paging.
fn page(list: &Value, offset: u64) -> Value {
    let tools = at(list, "/tools").as_array().map_or(&[][..], Vec::as_slice);
    let here = usize::try_from(offset).ok().and_then(|offset| tools.get(offset..));
    match here.unwrap_or_default() {
        [] => json!({"tools": []}),
        [last] => json!({"tools": [last]}),
        [first, ..] => json!({"tools": [first], "next_offset": offset + 1}),
    }
}

/// The value at a JSON pointer, or null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn read(path: &Path) -> Result<Node, String> {
    let text = fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
    yaml::parse(&text).map_err(|err| err.to_string())
}

/// The scalar at a path of keys, as written.
fn text(node: &Node, path: &[&str]) -> Option<String> {
    let found = path.iter().try_fold(node, |node, key| child(node, key))?;
    found.written().map(str::to_owned)
}

fn child<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match &node.value {
        NodeValue::Map(pairs) => {
            let pair = pairs.iter().find(|(name, _)| name.written() == Some(key));
            pair.map(|(_, value)| value)
        }
        NodeValue::List(items) => items.get(key.parse::<usize>().ok()?),
        NodeValue::Scalar(_) => None,
    }
}

/// The files of a directory, by name without extension.
fn files(dir: &Path) -> BTreeMap<String, Node> {
    let Ok(entries) = fs::read_dir(dir) else { return BTreeMap::new() };
    let files = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_stem()?.to_str()?.to_owned();
        Some((name, read(&path).ok()?))
    });
    files.collect()
}

/// A listing with the tools that the gateway shows beside those behind them.
fn with_meta_tools(mut list: Value) -> Value {
    if let Some(tools) = list.get_mut("tools").and_then(Value::as_array_mut) {
        tools.extend(["list_tools", "call_tool"].map(|name| json!({ "name": name })));
    }
    list
}
