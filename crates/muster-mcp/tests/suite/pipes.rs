//! Both eras on a pair of pipes.

use std::sync::Arc;

use muster_core::{call::Caller, request::Change};
use muster_mcp::{
    http::DrainOutcome,
    server::Server,
    stdio::{Input, Output, Shutdown, serve_until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

use super::{
    client::{call, modern, request, soon},
    fake::{Fake, Journal, fake},
};

struct Pipes {
    lines: Lines<BufReader<OwnedReadHalf>>,
    input: Option<OwnedWriteHalf>,
    fake: Arc<Fake>,
    journal: Journal,
    shutdown: Shutdown,
    serving: JoinSet<DrainOutcome>,
}

impl Pipes {
    fn new() -> Self {
        let (fake, journal) = fake();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (back, other) = UnixStream::pair().unwrap();
        let server = Server::new(Arc::<Fake>::clone(&fake));
        let (shutdown, mut serving) = (Shutdown::default(), JoinSet::new());
        let stop = shutdown.clone();
        serving.spawn(async move {
            let pipes = (Input::Socket(theirs), Output::Socket(other));
            serve_until(server, Caller::local(), pipes, stop).await.unwrap()
        });
        let (read, _) = back.into_split();
        let (_, write) = ours.into_split();
        let (lines, input) = (BufReader::new(read).lines(), Some(write));
        Self { lines, input, fake, journal, shutdown, serving }
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&soon(self.lines.next_line()).await.unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(&request(id, method, &params)).await;
        self.receive().await
    }

    async fn initialize(&mut self, capabilities: Value) {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
        assert!(self.ask(0, "initialize", params).await["result"].is_object());
        self.send(&json!({"method": "notifications/initialized"})).await;
    }

    async fn journal(&mut self) -> String {
        soon(self.journal.recv()).await.unwrap()
    }

    async fn left(&mut self) -> DrainOutcome {
        soon(self.serving.join_next()).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn progress_and_input_requests_are_lines() {
    let mut pipes = Pipes::new();
    pipes.initialize(json!({"elicitation": {}})).await;
    let progress = pipes.ask(1, "tools/call", call("progress")).await;
    assert_eq!(progress["params"]["progress"], 1);
    assert_eq!(pipes.receive().await["params"]["progress"], 2);
    assert_eq!(pipes.receive().await["id"], 1);
    let question = pipes.ask(2, "tools/call", call("ask")).await;
    assert_eq!(question["method"], "elicitation/create");
    pipes.send(&json!({"id": question["id"], "result": {"ok": 1}})).await;
    let answer = pipes.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"ok":1}"#);
    let crashed = pipes.ask(3, "tools/call", call("crash")).await;
    assert_eq!(crashed["error"]["code"], -32603);
}

#[tokio::test]
async fn an_abandoned_input_request_is_cancelled() {
    let mut pipes = Pipes::new();
    pipes.initialize(json!({"elicitation": {}})).await;
    let question = pipes.ask(2, "tools/call", call("ask")).await;
    pipes.send(&json!({"method": "notifications/cancelled", "params": {"requestId": 2}})).await;
    let withdrawn = pipes.receive().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(pipes.journal().await, "dropped ask");
    assert_eq!(pipes.ask(3, "ping", json!({})).await["id"], 3);
}

#[tokio::test]
async fn input_requests_fail_when_the_client_leaves() {
    let mut pipes = Pipes::new();
    pipes.initialize(json!({"elicitation": {}})).await;
    pipes.ask(2, "tools/call", call("ask")).await;
    pipes.input = None;
    let answer = pipes.receive().await;
    assert_eq!(answer["result"]["content"][0]["text"], "the client is gone");
    pipes.left().await;
}

#[tokio::test]
async fn changes_are_announced_after_the_handshake() {
    let mut pipes = Pipes::new();
    assert_eq!(pipes.ask(9, "ping", json!({})).await["id"], 9);
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
    pipes.ask(0, "initialize", params).await;
    pipes.fake.changes.send(Change::Tools).unwrap();
    assert_eq!(pipes.ask(1, "ping", json!({})).await["id"], 1);
    pipes.send(&json!({"method": "notifications/initialized"})).await;
    let told = pipes.receive().await;
    assert_eq!(told, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    pipes.ask(2, "resources/subscribe", json!({"uri": "a:b"})).await;
    for uri in ["c:d", "a:b"] {
        pipes.fake.changes.send(Change::Resource { uri: uri.to_owned() }).unwrap();
    }
    assert_eq!(pipes.receive().await["params"], json!({"uri": "a:b"}));
    pipes.input = None;
    pipes.left().await;
    assert_eq!(pipes.journal().await, "subscribed a:b");
    assert_eq!(pipes.journal().await, "unsubscribed a:b");
}

#[tokio::test]
async fn modern_clients_subscribe_and_get_input_requests_as_results() {
    let mut pipes = Pipes::new();
    let listen = modern(json!({"notifications": {"promptsListChanged": true}}));
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 1});
    let told = pipes.ask(1, "subscriptions/listen", listen.clone()).await;
    assert_eq!(told["params"]["_meta"], tag);
    pipes.fake.changes.send(Change::Tools).unwrap();
    pipes.fake.changes.send(Change::Prompts).unwrap();
    let told = pipes.receive().await;
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    assert_eq!(told["params"]["_meta"], tag);
    let asked = pipes.ask(2, "tools/call", modern(call("ask"))).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    // Taken back: no answer.
    pipes.send(&json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    assert_eq!(pipes.ask(5, "server/discover", modern(json!({}))).await["id"], 5);
    assert_eq!(pipes.fake.changes.receiver_count(), 0);
    let told = pipes.ask(3, "subscriptions/listen", listen).await;
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    pipes.input = None;
    assert_eq!(pipes.receive().await["id"], 3);
    pipes.left().await;
}

#[tokio::test]
async fn cancelled_calls_are_dropped() {
    let mut pipes = Pipes::new();
    pipes.send(&request(1, "tools/call", &call("slow"))).await;
    assert_eq!(pipes.journal().await, "began slow");
    pipes.send(&json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    assert_eq!(pipes.journal().await, "dropped slow");
}

#[tokio::test]
async fn a_shutdown_finishes_pending_calls() {
    let mut pipes = Pipes::new();
    pipes.send(&request(1, "tools/call", &call("two_parts"))).await;
    assert_eq!(pipes.journal().await, "began two_parts");
    pipes.shutdown.drain.cancel();
    assert_eq!(pipes.receive().await["params"]["progress"], 1);
    pipes.fake.finish.notify_one();
    assert_eq!(pipes.receive().await["params"]["progress"], 2);
    assert_eq!(pipes.receive().await["result"]["content"][0]["text"], "done");
    assert_eq!(pipes.left().await, DrainOutcome::Finished);
}

#[tokio::test]
async fn a_shutdown_cuts_off_and_answers_what_does_not_finish() {
    let mut pipes = Pipes::new();
    pipes.send(&request(1, "tools/call", &call("slow"))).await;
    assert_eq!(pipes.journal().await, "began slow");
    pipes.shutdown.drain.cancel();
    pipes.shutdown.cut_off.cancel();
    let answer = pipes.receive().await;
    assert_eq!(answer["id"], 1);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the gateway is shutting down and cut off this request"), "{answer}");
    assert_eq!(pipes.left().await, DrainOutcome::CutOff);
    assert_eq!(pipes.journal().await, "dropped slow");
}
