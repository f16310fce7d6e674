//! The line between the runner and a mock that is a process somewhere below muster.
//!
//! The mock connects to a port of the runner that stands in its file, says who it is, and then reads
//! one change a line. This is how a step can kill a server that muster started, or make it misbehave.

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

use super::{config::tool_from_json, engine::Change, fault::Fault};

/// How long a mock may take to call after it was started.
const CALLING: Duration = Duration::from_secs(1);

/// The runner's end: mocks that have called in, by name.
#[derive(Debug)]
pub struct Switchboard {
    port: u16,
    lines: Arc<watch::Sender<BTreeMap<String, Arc<Line>>>>,
    /// Kept so that it ends with this.
    _tasks: JoinSet<()>,
}

/// One mock process.
#[derive(Debug)]
struct Line {
    pid: i32,
    ends: Mutex<(BufReader<OwnedReadHalf>, OwnedWriteHalf)>,
}

/// Why a mock process was not reached.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// It never called, or its process is gone.
    #[error("no process of mock server '{0}' is running")]
    NotRunning(String),
    /// It said something else than that it has done so.
    #[error("mock server '{0}' did not follow: {1}")]
    Refused(String, String),
}

impl Switchboard {
    /// Begins to listen.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let lines = Arc::new(watch::Sender::new(BTreeMap::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, Arc::clone(&lines)));
        Ok(Self { port, lines, _tasks: tasks })
    }

    /// Where mocks call.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills the process of a mock, without a word.
    pub async fn kill(&self, name: &str) -> Result<i32, Unreached> {
        let gone = || Unreached::NotRunning(name.to_owned());
        let line = self.line(name).await?;
        let pid = Pid::from_raw(line.pid).ok_or_else(gone)?;
        self.lines.send_modify(|lines| drop(lines.remove(name)));
        kill_process(pid, Signal::KILL).map_err(|_| gone())?;
        Ok(line.pid)
    }

    /// The line to a mock. One that was just started may still be on its way to call.
    async fn line(&self, name: &str) -> Result<Arc<Line>, Unreached> {
        let mut lines = self.lines.subscribe();
        let called = lines.wait_for(|lines| lines.contains_key(name));
        let lines = timeout(CALLING, called).await;
        let line = lines.ok().and_then(Result::ok).and_then(|lines| lines.get(name).cloned());
        line.ok_or_else(|| Unreached::NotRunning(name.to_owned()))
    }

    /// Tells a mock to change, and waits until it has.
    pub async fn change(&self, name: &str, change: &Change) -> Result<(), Unreached> {
        let gone = || Unreached::NotRunning(name.to_owned());
        let line = self.line(name).await?;
        let mut ends = line.ends.lock().await;
        let (read, write) = &mut *ends;
        let order = format!("{}\n", write_change(change));
        write.write_all(order.as_bytes()).await.map_err(|_| gone())?;
        let mut reply = String::new();
        match read.read_line(&mut reply).await {
            Ok(1..) if reply.trim() == "done" => Ok(()),
            Ok(1..) => Err(Unreached::Refused(name.to_owned(), reply.trim().to_owned())),
            Ok(0) | Err(_) => Err(gone()),
        }
    }
}

async fn listen(listener: TcpListener, lines: Arc<watch::Sender<BTreeMap<String, Arc<Line>>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        if let Ok(Some((name, line))) = timeout(CALLING, greet(stream)).await {
            lines.send_modify(|lines| drop(lines.insert(name, Arc::new(line))));
        }
    }
}

/// A mock says who it is before anything else; nobody else knows the port.
async fn greet(stream: TcpStream) -> Option<(String, Line)> {
    let (read, write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut hello = String::new();
    read.read_line(&mut hello).await.ok()?;
    let hello: Value = serde_json::from_str(&hello).ok()?;
    let pid = hello.get("pid").and_then(Value::as_i64).and_then(|pid| i32::try_from(pid).ok())?;
    let name = hello.get("name").and_then(Value::as_str)?.to_owned();
    Some((name, Line { pid, ends: Mutex::new((read, write)) }))
}

/// The mock's end: calls in, then passes every change on until the line is cut.
pub async fn obey(port: u16, name: &str, mut apply: impl FnMut(Change) -> bool) -> io::Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (read, mut write) = stream.into_split();
    let hello = json!({"name": name, "pid": std::process::id()});
    write.write_all(format!("{hello}\n").as_bytes()).await?;
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = match read_change(&line) {
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

fn write_change(change: &Change) -> Value {
    match change {
        Change::Fault { tool, fault } => {
            json!({"tool": tool, "fault": fault.map(Fault::to_json)})
        }
        Change::AddTool(tool) => json!({"add": tool.written}),
        Change::RemoveTool(name) => json!({"remove": name}),
    }
}

fn read_change(line: &str) -> Result<Change, String> {
    let change: Value = serde_json::from_str(line).map_err(|err| err.to_string())?;
    if let Some(tool) = change.get("add") {
        return tool_from_json(tool).map(|tool| Change::AddTool(Box::new(tool)));
    }
    if let Some(name) = change.get("remove").and_then(Value::as_str) {
        return Ok(Change::RemoveTool(name.to_owned()));
    }
    let tool = change.get("tool").and_then(Value::as_str).map(str::to_owned);
    let fault =
        change.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    Ok(Change::Fault { tool, fault })
}
