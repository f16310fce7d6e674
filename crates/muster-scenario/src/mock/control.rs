//! The control channel between the runner and mock processes, which muster starts.
//!
//! The mock connects to the port that its configuration file names, sends its name, and then reads one command
//! per line. This is how a step kills a server that muster started, or injects faults into it.

use std::{collections::BTreeMap, io, net::Ipv4Addr, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};

use muster_core::backend::boxed;

use super::{config::tool_from_json, engine::MockChange, fault::Fault};

/// How long a mock may take to connect after its start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The runner's side: connected mock processes by name.
#[derive(Debug)]
pub struct ControlServer {
    port: u16,
    connections: Arc<watch::Sender<BTreeMap<String, Arc<ControlConnection>>>>,
    /// Dropped with the server, which ends the tasks.
    _tasks: JoinSet<()>,
}

/// A connected mock process.
#[derive(Debug)]
struct ControlConnection {
    pid: i32,
    halves: Mutex<(BufReader<OwnedReadHalf>, OwnedWriteHalf)>,
}

/// Why a mock process was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It never connected, or its process is gone.
    #[error("no process of mock server '{0}' is running")]
    NotRunning(String),
    /// It rejected the change.
    #[error("mock server '{0}' rejected the change: {1}")]
    Refused(String, String),
}

impl ControlServer {
    /// Starts listening.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let connections = Arc::new(watch::Sender::new(BTreeMap::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(boxed(listen(listener, Arc::clone(&connections))));
        Ok(Self { port, connections, _tasks: tasks })
    }

    /// The port for mocks to connect to.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills the process of a mock with `SIGKILL`.
    pub async fn kill(&self, name: &str) -> Result<i32, ControlError> {
        let gone = || ControlError::NotRunning(name.to_owned());
        let connection = self.connection(name).await?;
        let pid = Pid::from_raw(connection.pid).ok_or_else(gone)?;
        self.connections.send_modify(|connections| drop(connections.remove(name)));
        kill_process(pid, Signal::KILL).map_err(|_| gone())?;
        Ok(connection.pid)
    }

    /// The connection to a mock. One that was just started may not have connected yet.
    async fn connection(&self, name: &str) -> Result<Arc<ControlConnection>, ControlError> {
        let mut connections = self.connections.subscribe();
        let called = connections.wait_for(|connections| connections.contains_key(name));
        let connections = timeout(CONNECT_TIMEOUT, called).await;
        let line = connections
            .ok()
            .and_then(Result::ok)
            .and_then(|connections| connections.get(name).cloned());
        line.ok_or_else(|| ControlError::NotRunning(name.to_owned()))
    }

    /// Sends a change to a mock, and waits until it is applied.
    pub async fn change(&self, name: &str, change: &MockChange) -> Result<(), ControlError> {
        let gone = || ControlError::NotRunning(name.to_owned());
        let connection = self.connection(name).await?;
        let mut halves = connection.halves.lock().await;
        let (read, write) = &mut *halves;
        let message = format!("{}\n", encode_change(change));
        write.write_all(message.as_bytes()).await.map_err(|_| gone())?;
        let mut reply = String::new();
        match read.read_line(&mut reply).await {
            Ok(1..) if reply.trim() == "done" => Ok(()),
            Ok(1..) => Err(ControlError::Refused(name.to_owned(), reply.trim().to_owned())),
            Ok(0) | Err(_) => Err(gone()),
        }
    }
}

async fn listen(
    listener: TcpListener,
    connections: Arc<watch::Sender<BTreeMap<String, Arc<ControlConnection>>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        if let Ok(Some((name, line))) = timeout(CONNECT_TIMEOUT, handshake(stream)).await {
            connections.send_modify(|connections| drop(connections.insert(name, Arc::new(line))));
        }
    }
}

/// Reads the name and process id that a mock sends first.
async fn handshake(stream: TcpStream) -> Option<(String, ControlConnection)> {
    let (read, write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut greeting = String::new();
    read.read_line(&mut greeting).await.ok()?;
    let greeting: Value = serde_json::from_str(&greeting).ok()?;
    let pid =
        greeting.get("pid").and_then(Value::as_i64).and_then(|pid| i32::try_from(pid).ok())?;
    let name = greeting.get("name").and_then(Value::as_str)?.to_owned();
    Some((name, ControlConnection { pid, halves: Mutex::new((read, write)) }))
}

/// The mock's side: connects, then applies every change until the connection closes.
pub async fn run_client(
    port: u16,
    name: &str,
    mut apply: impl FnMut(MockChange) -> bool,
) -> io::Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (read, mut write) = stream.into_split();
    let greeting = json!({"name": name, "pid": std::process::id()});
    write.write_all(format!("{greeting}\n").as_bytes()).await?;
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = match decode_change(&line) {
            Ok(change) => match apply(change) {
                true => "done".to_owned(),
                false => "nothing to change".to_owned(),
            },
            Err(message) => message,
        };
        write.write_all(format!("{reply}\n").as_bytes()).await?;
    }
    Ok(())
}

fn encode_change(change: &MockChange) -> Value {
    match change {
        MockChange::Fault { tool, fault } => {
            json!({"tool": tool, "fault": fault.map(Fault::to_json)})
        }
        MockChange::AddTool(tool) => json!({"add": tool.written}),
        MockChange::RemoveTool(name) => json!({"remove": name}),
    }
}

fn decode_change(line: &str) -> Result<MockChange, String> {
    let change: Value = serde_json::from_str(line).map_err(|err| err.to_string())?;
    if let Some(tool) = change.get("add") {
        return tool_from_json(tool).map(|tool| MockChange::AddTool(Box::new(tool)));
    }
    if let Some(name) = change.get("remove").and_then(Value::as_str) {
        return Ok(MockChange::RemoveTool(name.to_owned()));
    }
    let tool = change.get("tool").and_then(Value::as_str).map(str::to_owned);
    let fault =
        change.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    Ok(MockChange::Fault { tool, fault })
}
