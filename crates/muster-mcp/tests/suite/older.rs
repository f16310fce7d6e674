//! HTTP+SSE, the transport of 2024-11-05.

use std::{sync::Arc, time::Duration};

use muster_core::request::Change;
use muster_mcp::http::HttpOptions;
use serde_json::{Value, json};

use super::{
    client::{Reply, Running, call, request, start},
    replicas::pair_with,
};

struct Older<'a> {
    server: &'a Running,
    stream: Reply,
    path: String,
}

impl<'a> Older<'a> {
    async fn open(server: &'a Running) -> Self {
        let mut stream = server.send("GET", "/sse", &[], "").await;
        assert_eq!(stream.header("content-type"), "text/event-stream");
        let first = stream.raw_event().await.unwrap();
        let base = format!("http://{}", server.address);
        let path = first.strip_prefix("event: endpoint\ndata: ").unwrap();
        let path = path.strip_prefix(&base).unwrap().to_owned();
        assert!(path.starts_with("/message?sessionId="), "{path}");
        let mut client = Self { server, stream, path };
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {"elicitation": {}}});
        let answer = client.ask(0, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        client
    }

    async fn post(&self, message: &Value) -> u16 {
        self.server.send("POST", &self.path, &[], message.to_string()).await.status.as_u16()
    }

    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        assert_eq!(self.post(&request(id, method, &params)).await, 202);
        self.stream.event().await.unwrap()
    }
}

#[tokio::test]
async fn responses_arrive_on_the_stream() {
    let server = start().await;
    let mut client = Older::open(&server).await;
    assert_eq!(client.ask(1, "ping", json!({})).await["result"], json!({}));
    assert_eq!(client.ask(2, "nope", json!({})).await["error"]["code"], -32601);
    let progress = client.ask(3, "tools/call", call("progress")).await;
    assert_eq!(progress["params"]["progress"], 1);
    assert_eq!(client.stream.event().await.unwrap()["params"]["progress"], 2);
    assert_eq!(client.stream.event().await.unwrap()["id"], 3);
    let question = client.ask(4, "tools/call", call("ask")).await;
    let answer = json!({"id": question["id"], "result": {"a": 1}});
    assert_eq!(client.post(&answer).await, 202);
    let text = client.stream.event().await.unwrap()["result"]["content"][0]["text"].take();
    assert_eq!(text, r#"{"a":1}"#);
    server.fake.changes.send(Change::Tools).unwrap();
    let event = client.stream.event().await.unwrap();
    assert_eq!(event["method"], "notifications/tools/list_changed");
    assert_eq!(client.post(&json!([])).await, 400);
}

#[tokio::test]
async fn the_stream_is_the_session() {
    let mut server = start().await;
    let path = {
        let client = Older::open(&server).await;
        client.post(&request(1, "tools/call", &call("slow"))).await;
        client.path
    };
    assert_eq!(server.journal().await, "began slow");
    assert_eq!(server.journal().await, "dropped slow");
    let reply = server.send("POST", &path, &[], request(2, "ping", &json!({})).to_string()).await;
    assert_eq!(reply.status.as_u16(), 404);
}

#[tokio::test]
async fn a_request_is_cancelled_by_its_id() {
    let mut server = start().await;
    let client = Older::open(&server).await;
    client.post(&request(1, "tools/call", &call("slow"))).await;
    let notice = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.post(&notice).await, 202);
    drop(client);
    assert_eq!(server.journal().await, "began slow");
    assert_eq!(server.journal().await, "dropped slow");
}

#[tokio::test]
async fn calls_are_limited_at_all_replicas_together() {
    let wall_clock = Arc::new(|| Duration::from_secs(1_000));
    let options = HttpOptions { calls_per_second: 1, wall_clock, ..HttpOptions::default() };
    let pair = pair_with(options).await;
    let (mut one, mut other) = (Older::open(&pair.one).await, Older::open(&pair.other).await);
    assert!(one.ask(1, "tools/call", call("echo")).await["result"].is_object());
    let refused = other.ask(1, "tools/call", call("echo")).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("Too many calls"), "{refused}");
}
