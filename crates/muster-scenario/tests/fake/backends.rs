//! Upstream servers of the fake: stdio processes, and streamable HTTP through the tester's own client.

use std::{collections::BTreeMap, path::Path, time::Duration};

use muster_config::yaml::NodeValue;
use muster_exec::{
    child::Child,
    command::{Command, Stdin},
    launcher::Launcher,
};
use muster_scenario::{
    client::{Client, ClientTarget, NotificationStream},
    wire::{self, Message},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::unix::pipe::{Receiver, Sender},
    sync::Mutex,
};

const LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Backends(BTreeMap<String, Backend>);

enum Backend {
    Process(Box<Mutex<Process>>),
    Remote(u16),
    Idle,
}

struct Process {
    stdin: Sender,
    lines: tokio::io::Lines<BufReader<Receiver>>,
    last_id: u64,
    _child: muster_exec::child::ProcessTree,
}

impl Backends {
    pub(crate) async fn load(dir: &Path, launcher: &Launcher) -> Result<Self, String> {
        let mut backends = BTreeMap::new();
        for (name, file) in super::files(&dir.join("mcpservers")) {
            let of = |path: &[&str]| super::text(&file, path);
            let args = super::child(&file, "spec").and_then(|spec| super::child(spec, "args"));
            let starts = of(&["spec", "autoStart"]).as_deref() == Some("true");
            let backend = match (starts, of(&["spec", "url"]), of(&["spec", "command"])) {
                (true, Some(url), _) => {
                    let port = url.split([':', '/']).find_map(|part| part.parse().ok());
                    Backend::Remote(port.ok_or("no port in the address")?)
                }
                (true, None, Some(command)) => {
                    let mut words = vec![command];
                    if let Some(NodeValue::List(args)) = args.map(|args| &args.value) {
                        words
                            .extend(args.iter().filter_map(|arg| arg.written().map(str::to_owned)));
                    }
                    Backend::Process(Box::new(Mutex::new(Process::start(words, launcher).await?)))
                }
                _ => Backend::Idle,
            };
            backends.insert(name, backend);
        }
        Ok(Self(backends))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The port of a remote server.
    pub(crate) fn port(&self, server: &str) -> Option<u16> {
        match self.0.get(server) {
            Some(Backend::Remote(port)) => Some(*port),
            Some(Backend::Process(_) | Backend::Idle) | None => None,
        }
    }

    pub(crate) async fn tool_names(&self, tokens: &BTreeMap<String, String>) -> Vec<String> {
        let mut names = Vec::new();
        for (server, backend) in &self.0 {
            let list = backend
                .request("tools/list", &json!({}), tokens.get(server))
                .await
                .unwrap_or_default();
            for tool in super::at(&list, "/tools").as_array().into_iter().flatten() {
                names.push(format!(
                    "x_{server}_{}",
                    super::at(tool, "/name").as_str().unwrap_or_default()
                ));
            }
        }
        names
    }

    pub(crate) async fn call(
        &self,
        name: &str,
        args: &Value,
        tokens: &BTreeMap<String, String>,
    ) -> Result<String, String> {
        let backends = self.0.iter();
        let found = backends.filter_map(|(server, backend)| {
            Some((server, name.strip_prefix(&format!("x_{server}_"))?, backend))
        });
        let Some((server, tool, backend)) = found.into_iter().next() else {
            return Err(format!("Tool execution failed: tool not found: {name}"));
        };
        let args = if args.is_null() { json!({}) } else { args.clone() };
        let params = json!({"name": tool, "arguments": args});
        let result = backend.request("tools/call", &params, tokens.get(server)).await;
        let result = result.map_err(|err| format!("Tool execution failed: {err}"))?;
        Ok(super::at(&result, "/content/0/text").as_str().unwrap_or_default().to_owned())
    }
}

impl Backend {
    async fn request(
        &self,
        method: &str,
        params: &Value,
        token: Option<&String>,
    ) -> Result<Value, String> {
        match self {
            Self::Idle => Err("server not found".to_owned()),
            Self::Process(process) => {
                let mut process = process.lock().await;
                let answer = tokio::time::timeout(LIMIT, process.request(method, params)).await;
                answer.unwrap_or_else(|_| Err("no answer".to_owned()))
            }
            Self::Remote(port) => {
                let target = ClientTarget {
                    port: *port,
                    session: String::from("fake"),
                    bearer: token.cloned(),
                    listening: NotificationStream::Closed,
                };
                let client = Client::connect(target).await.map_err(|err| err.to_string())?;
                client.request(method, params, LIMIT).await.map_err(|err| err.to_string())
            }
        }
    }
}

impl Process {
    async fn start(words: Vec<String>, launcher: &Launcher) -> Result<Self, String> {
        let command = Command { stdin: Stdin::Piped, ..Command::new(words) };
        let child = launcher.start(command).await.map_err(|err| err.to_string())?;
        let Child { stdin: Some(stdin), stdout, tree, .. } = child else {
            return Err("no pipe".to_owned());
        };
        let lines = BufReader::new(stdout).lines();
        let mut process = Self { stdin, lines, last_id: 0, _child: tree };
        process.request("initialize", &json!({"protocolVersion": "2024-11-05"})).await?;
        Ok(process)
    }

    async fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.last_id += 1;
        let line = format!("{}\n", wire::request(self.last_id, method, params));
        self.stdin.write_all(line.as_bytes()).await.map_err(|err| err.to_string())?;
        loop {
            let line = self.lines.next_line().await.map_err(|err| err.to_string())?;
            let line = line.ok_or("the server is gone")?;
            match wire::parse(&line) {
                Some(Message::Answer { id, outcome }) if id == self.last_id => {
                    return outcome.map_err(|err| err.message);
                }
                Some(_) => {}
                None => return Err(format!("no message: {line}")),
            }
        }
    }
}
