//! Several replicas that serve the same sessions.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use muster_core::{request::Change, shared::SharedState};
use muster_mcp::http::HttpOptions;
use muster_shared::{MemoryShared, Replica, clock::Clock};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Legacy, Reply, Running, call, request, soon, start_with};

/// Two replicas and what keeps them connected.
struct Pair {
    one: Running,
    other: Running,
    _links: JoinSet<()>,
    links: [Arc<Replica>; 2],
}

async fn pair() -> Pair {
    pair_with(HttpOptions::default()).await
}

async fn pair_with(options: HttpOptions) -> Pair {
    let state: Arc<dyn SharedState> = Arc::new(MemoryShared::new(Clock::system()));
    let links = [(); 2].map(|()| Replica::new(Arc::clone(&state)).unwrap());
    let mut running = JoinSet::new();
    let mut servers = Vec::new();
    for link in &links {
        let keep = Arc::clone(link);
        running.spawn(async move { match keep.run().await {} });
        let replica = Some(Arc::<Replica>::clone(link) as _);
        servers.push(start_with(HttpOptions { replica, ..options.clone() }).await);
    }
    let connected = async {
        while links.iter().any(|link| link.pending_reason().is_some()) {
            tokio::task::yield_now().await;
        }
    };
    soon(connected).await;
    let (other, one) = (servers.pop().unwrap(), servers.pop().unwrap());
    Pair { one, other, _links: running, links }
}

/// The same client, whose requests reach another replica.
fn at<'a>(server: &'a Running, client: &Legacy<'_>) -> Legacy<'a> {
    Legacy { server, session: client.session.clone() }
}

/// The message and the id of an event.
fn parsed(event: &str) -> (Value, Option<String>) {
    let data = event
        .split("data: ")
        .nth(1)
        .map_or(Value::Null, |data| serde_json::from_str(data).unwrap());
    let id = event.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
    (data, id)
}

async fn next(reply: &mut Reply) -> (Value, Option<String>) {
    parsed(&reply.raw_event().await.unwrap())
}

async fn resume(server: &Running, client: &Legacy<'_>, last: &str) -> Reply {
    let headers = [
        ("mcp-session-id", client.session.as_str()),
        ("accept", "text/event-stream"),
        ("last-event-id", last),
    ];
    server.send("GET", "/mcp", &headers, "").await
}

#[tokio::test]
async fn a_session_goes_on_at_another_replica() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({"elicitation": {}})).await;
    let there = at(&pair.other, &client);
    assert_eq!(there.tell("notifications/initialized", json!({})).await.status.as_u16(), 202);
    let pong = there.ask(1, "ping", json!({})).await;
    assert_eq!(pong.header("mcp-session-id"), client.session);
    assert_eq!(pong.json().await["result"], json!({}));
    // What one replica learned, the other knows.
    assert_eq!(
        there.ask(2, "logging/setLevel", json!({"level": "error"})).await.status.as_u16(),
        200
    );
    let mut logged = client.ask(3, "tools/call", call("log")).await;
    assert_eq!(next(&mut logged).await.0["params"]["level"], "error");
    assert_eq!(next(&mut logged).await.0["id"], 3);
    // It ends everywhere.
    assert_eq!(there.send("DELETE").await.status.as_u16(), 200);
    assert_eq!(client.ask(4, "ping", json!({})).await.status.as_u16(), 404);
    assert_eq!(there.ask(4, "ping", json!({})).await.status.as_u16(), 404);
    let never = Legacy { server: &pair.other, session: "mcp-session-0".to_owned() };
    assert_eq!(never.ask(5, "ping", json!({})).await.status.as_u16(), 404);
}

#[tokio::test]
async fn answers_reach_the_replica_that_waits_for_them() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({"elicitation": {}})).await;
    let there = at(&pair.other, &client);
    let mut reply = client.ask(1, "tools/call", call("ask")).await;
    let (question, _) = next(&mut reply).await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(there.post(&answer).await.status.as_u16(), 202);
    let (result, _) = next(&mut reply).await;
    assert_eq!(result["result"]["content"][0]["text"], r#"{"action":"accept"}"#);
    // A replica that does not exist gets nothing, and the client no error.
    let lost = json!({"jsonrpc": "2.0", "id": "muster-0123456789abcdef-0", "result": {}});
    assert_eq!(there.post(&lost).await.status.as_u16(), 202);
}

#[tokio::test]
async fn a_call_is_cancelled_from_another_replica() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let mut reply = client.ask(7, "tools/call", call("talking")).await;
    let (progress, _) = next(&mut reply).await;
    assert_eq!(progress["params"]["progress"], 1);
    let session = client.session.clone();
    assert_eq!(pair.one.journal.recv().await.unwrap(), "began talking");
    let there = Legacy { server: &pair.other, session };
    let cancelled = there.tell("notifications/cancelled", json!({"requestId": 7})).await;
    assert_eq!(cancelled.status.as_u16(), 202);
    assert_eq!(pair.one.journal().await, "dropped talking");
    assert_eq!(reply.raw_event().await, None);
}

#[tokio::test]
async fn a_stream_is_resumed_at_another_replica() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let session = client.session.clone();
    let mut reply = client.ask(7, "tools/call", call("two_parts")).await;
    let (progress, id) = next(&mut reply).await;
    assert_eq!(progress["params"]["progress"], 1);
    let id = id.unwrap();
    // The connection breaks, and the call goes on.
    drop(reply);
    assert_eq!(pair.one.journal().await, "began two_parts");
    let client = Legacy { server: &pair.one, session };
    let mut resumed = resume(&pair.other, &client, &id).await;
    pair.one.fake.finish.notify_one();
    let (progress, _) = next(&mut resumed).await;
    assert_eq!(progress["params"]["progress"], 2);
    let (response, last) = next(&mut resumed).await;
    assert_eq!(
        (&response["id"], &response["result"]["content"][0]["text"]),
        (&json!(7), &json!("done"))
    );
    assert_eq!(resumed.raw_event().await, None);
    // It can be resumed again, from any event, and by this session only.
    let mut again = resume(&pair.one, &client, &id).await;
    assert_eq!(next(&mut again).await.0["params"]["progress"], 2);
    let mut nothing_more = resume(&pair.one, &client, &last.unwrap()).await;
    let stranger = pair.one.initialize(json!({})).await;
    let mut not_theirs = resume(&pair.other, &stranger, &id).await;
    for reply in [&mut nothing_more, &mut not_theirs] {
        assert_eq!(reply.status.as_u16(), 200);
        assert_eq!(reply.raw_event().await, None);
    }
}

#[tokio::test]
async fn a_stream_whose_replica_died_ends_with_an_error() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let session = client.session.clone();
    let mut reply = client.ask(9, "tools/call", call("two_parts")).await;
    let (_, id) = next(&mut reply).await;
    drop(reply);
    assert_eq!(pair.one.journal().await, "began two_parts");
    // Its lease is over.
    pair._links.shutdown().await;
    pair.links[0].retire().await;
    pair.one.serving.shutdown().await;
    let client = Legacy { server: &pair.other, session };
    let mut resumed = resume(&pair.other, &client, &id.unwrap()).await;
    let (response, _) = next(&mut resumed).await;
    assert_eq!(response["id"], 9);
    assert!(response["error"]["message"].as_str().unwrap().contains("died"), "{response}");
    assert_eq!(resumed.raw_event().await, None);
    assert_eq!(client.ask(10, "ping", json!({})).await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_stream_that_moves_begins_with_what_may_have_been_missed() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let there = at(&pair.other, &client);
    let uri = "a:b";
    assert_eq!(
        client.ask(1, "resources/subscribe", json!({"uri": uri})).await.status.as_u16(),
        200
    );
    // The first stream is where the client has missed nothing.
    let mut first = client.send("GET").await;
    pair.one.fake.changes.send(Change::Tools).unwrap();
    assert_eq!(first.event().await.unwrap()["method"], "notifications/tools/list_changed");
    drop(first);
    assert_eq!(there.ask(2, "ping", json!({})).await.status.as_u16(), 200);
    let mut second = there.send("GET").await;
    let mut methods = Vec::new();
    for _ in 0..4 {
        methods.push(second.event().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    let expected = [
        "tools/list_changed",
        "resources/list_changed",
        "prompts/list_changed",
        "resources/updated",
    ];
    assert_eq!(methods, expected.map(|name| format!("notifications/{name}")));
    // The resource is subscribed here, too.
    assert_eq!(soon(pair.one.journal.recv()).await.unwrap(), format!("subscribed {uri}"));
    assert_eq!(soon(pair.other.journal.recv()).await.unwrap(), format!("subscribed {uri}"));
    pair.other.fake.changes.send(Change::Resource { uri: uri.to_owned() }).unwrap();
    assert_eq!(second.event().await.unwrap()["params"]["uri"], uri);
}

#[tokio::test]
async fn calls_are_limited_at_all_replicas_together() {
    const LIMIT: u32 = 20;
    let options = HttpOptions { calls_per_second: LIMIT, ..HttpOptions::default() };
    let pair = pair_with(options).await;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (began, mut served) = (now(), 0);
    for number in 0..3 * LIMIT {
        let server = if number % 2 == 0 { &pair.one } else { &pair.other };
        let reply = server.modern(number, "tools/call", call("echo")).await;
        match reply.status.as_u16() {
            200 => served += 1,
            429 => assert_eq!(reply.header("retry-after"), "1"),
            status => panic!("{status}"),
        }
    }
    let seconds = u32::try_from(now() - began + 1).unwrap();
    assert!(served <= LIMIT * seconds, "{served} in {seconds} s");
    assert!(served >= LIMIT.min(3 * LIMIT), "{served}");
}

#[tokio::test]
async fn a_session_is_served_by_its_owner_only() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    for id in ["", "mcp-session-", &"x".repeat(10_000), "mcp-session-\u{7f}"] {
        let headers = [("mcp-session-id", id)];
        let Ok(_) = http::HeaderValue::from_str(id) else { continue };
        let reply = pair.other.post(&headers, &request(1, "ping", &json!({}))).await;
        assert_eq!(reply.status.as_u16(), 404, "{id:.20}");
    }
    assert_eq!(at(&pair.other, &client).ask(1, "ping", json!({})).await.status.as_u16(), 200);
}
