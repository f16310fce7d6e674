//! Several replicas that serve the same sessions.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use muster_core::{
    backend::BoxFuture,
    call::Caller,
    credentials::{Admission, Authenticator, Peer, Principal},
    request::Change,
    shared::SharedState,
};
use muster_mcp::http::HttpOptions;
use muster_shared::{MemoryShared, Replica, clock::Clock};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    client::{Legacy, Reply, Running, call, request, soon, start_with},
    fake::CHATTY,
};

/// Two replicas and what keeps them connected.
pub(crate) struct Pair {
    pub(crate) one: Running,
    pub(crate) other: Running,
    _links: JoinSet<()>,
    links: [Arc<Replica>; 2],
}

async fn pair() -> Pair {
    pair_with(HttpOptions::default()).await
}

pub(crate) async fn pair_with(options: HttpOptions) -> Pair {
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
        .filter(|data| !data.is_empty())
        .map_or(Value::Null, |data| serde_json::from_str(data).unwrap());
    let id = event.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
    (data, id)
}

/// The next message and the id of its event.
async fn next(reply: &mut Reply) -> (Value, Option<String>) {
    loop {
        let (message, id) = parsed(&reply.raw_event().await.unwrap());
        if !message.is_null() {
            return (message, id);
        }
    }
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
async fn an_answer_that_is_too_large_for_another_replica_is_refused() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({"elicitation": {}})).await;
    let there = at(&pair.other, &client);
    let mut reply = client.ask(1, "tools/call", call("ask")).await;
    let (question, _) = next(&mut reply).await;
    let answer = |content: &str| {
        let result = json!({"action": "accept", "content": {"text": content}});
        json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
    };
    let refused = there.post(&answer(&"x".repeat(4 * 1024 * 1024))).await;
    assert_eq!(refused.status.as_u16(), 413);
    let reason = refused.text().await;
    assert!(reason.contains("at most 4194304 bytes"), "{reason}");
    // The question is still open, for a shorter answer as for one that needs no other replica.
    assert_eq!(there.post(&answer("short")).await.status.as_u16(), 202);
    let (result, _) = next(&mut reply).await;
    let text = result["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, r#"{"action":"accept","content":{"text":"short"}}"#);
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
    assert_eq!(nothing_more.status.as_u16(), 200);
    assert_eq!(nothing_more.raw_event().await, None);
    assert_eq!(resume(&pair.other, &stranger, &id).await.status.as_u16(), 410);
}

#[tokio::test]
async fn a_stream_can_be_resumed_before_its_first_message() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let mut reply = client.ask(7, "tools/call", call("two_parts")).await;
    let (nothing, id) = parsed(&reply.raw_event().await.unwrap());
    assert_eq!(nothing, Value::Null);
    drop(reply);
    let mut resumed = resume(&pair.other, &client, &id.unwrap()).await;
    assert_eq!(next(&mut resumed).await.0["params"]["progress"], 1);
    pair.one.fake.finish.notify_one();
    assert_eq!(next(&mut resumed).await.0["params"]["progress"], 2);
    assert_eq!(next(&mut resumed).await.0["id"], 7);
    // Earlier versions of the protocol do not know such an event.
    let headers = [("mcp-session-id", &*client.session), ("mcp-protocol-version", "2025-06-18")];
    let mut older = pair.one.post(&headers, &request(8, "tools/call", &call("two_parts"))).await;
    assert_eq!(parsed(&older.raw_event().await.unwrap()).0["params"]["progress"], 1);
}

/// A call with more messages than the log of its stream stores; its first and its last event.
async fn chatty(client: &Legacy<'_>) -> [String; 2] {
    let mut reply = client.ask(9, "tools/call", call("chatty")).await;
    let first = next(&mut reply).await.1.unwrap();
    loop {
        let (message, id) = next(&mut reply).await;
        if message["params"]["progress"] == CHATTY {
            return [first, id.unwrap()];
        }
    }
}

#[tokio::test]
async fn a_long_stream_is_resumed_from_an_event_that_is_no_longer_stored() {
    let pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let [first, _] = chatty(&client).await;
    let mut resumed = resume(&pair.other, &client, &first).await;
    pair.one.fake.finish.notify_one();
    let mut received = 0;
    loop {
        let (message, _) = next(&mut resumed).await;
        if message["id"] == 9 {
            assert_eq!(message["result"]["content"][0]["text"], "done");
            break;
        }
        received += 1;
    }
    // The last 256 entries at most.
    assert!((200..=256).contains(&received), "{received}");
}

#[tokio::test]
async fn a_long_stream_whose_replica_died_ends_with_an_error() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let session = client.session.clone();
    let ids = chatty(&client).await;
    pair._links.shutdown().await;
    pair.links[0].retire().await;
    pair.one.serving.shutdown().await;
    let client = Legacy { server: &pair.other, session };
    for id in ids {
        let mut resumed = resume(&pair.other, &client, &id).await;
        let response = loop {
            let (message, _) = next(&mut resumed).await;
            if message.get("id").is_some() {
                break message;
            }
        };
        assert_eq!(response["id"], 9);
        assert!(response["error"]["message"].as_str().unwrap().contains("died"), "{response}");
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
    let wall_clock = Arc::new(|| Duration::from_secs(1_000));
    let options = HttpOptions { calls_per_second: LIMIT, wall_clock, ..HttpOptions::default() };
    let pair = pair_with(options).await;
    let mut served = 0;
    for number in 0..3 * LIMIT {
        let server = if number % 2 == 0 { &pair.one } else { &pair.other };
        let reply = server.modern(number, "tools/call", call("echo")).await;
        match reply.status.as_u16() {
            200 => served += 1,
            429 => assert_eq!(reply.header("retry-after"), "1"),
            status => panic!("{status}"),
        }
    }
    assert_eq!(served, LIMIT);
}

#[tokio::test]
async fn a_session_is_served_by_its_owner_only() {
    let guard = Some(Arc::new(Trusting) as _);
    let pair = pair_with(HttpOptions { guard, ..HttpOptions::default() }).await;
    let client = pair.one.initialize(json!({})).await;
    for id in ["", "mcp-session-", &"x".repeat(10_000), "mcp-session-\u{7f}"] {
        let headers = [("mcp-session-id", id)];
        let Ok(_) = http::HeaderValue::from_str(id) else { continue };
        let reply = pair.other.post(&headers, &request(1, "ping", &json!({}))).await;
        assert_eq!(reply.status.as_u16(), 404, "{id:.20}");
    }
    for (name, status) in [("nobody", 200), ("somebody", 404), ("nobody", 200)] {
        let headers = [("mcp-session-id", &*client.session), ("x-name", name)];
        for server in [&pair.other, &pair.one] {
            let reply = server.post(&headers, &request(1, "ping", &json!({}))).await;
            assert_eq!(reply.status.as_u16(), status, "{name}");
        }
    }
}

/// Callers are who they say they are.
#[derive(Debug)]
struct Trusting;

impl Authenticator for Trusting {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, http::Response<bytes::Bytes>>> {
        let name = headers.get("x-name").map_or("nobody", |name| name.to_str().unwrap());
        let admission = Admission::of(Arc::new(Principal {
            id: Principal::id_of("test", name),
            issuer: "test".into(),
            subject: name.into(),
            email: None,
            name: None,
            groups: Arc::new([]),
            login: "l".into(),
            identity: None,
            client: None,
        }));
        Box::pin(std::future::ready(Ok(admission)))
    }

    fn still_admits<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

#[tokio::test]
async fn an_evicted_session_comes_back() {
    let pair = pair_with(HttpOptions { max_sessions: 1, ..HttpOptions::default() }).await;
    let first = pair.one.initialize(json!({})).await;
    let stream_of = async |client: &Legacy<'_>| {
        let mut reply = client.ask(1, "tools/call", call("progress")).await;
        let id = next(&mut reply).await.1.unwrap();
        id.rsplit_once('.').unwrap().0.to_owned()
    };
    let before = stream_of(&first).await;
    let second = pair.one.initialize(json!({})).await;
    for client in [&second, &first, &second, &first] {
        assert_eq!(client.ask(2, "ping", json!({})).await.status.as_u16(), 200);
    }
    // Its streams are others.
    assert_ne!(stream_of(&first).await, before);
}

#[tokio::test]
async fn a_subscription_ends_at_every_replica() {
    let mut pair = pair().await;
    let client = pair.one.initialize(json!({})).await;
    let (session, uri) = (client.session.clone(), json!({"uri": "a:b"}));
    let subscribed = client.ask(1, "resources/subscribe", uri.clone()).await;
    assert_eq!(subscribed.status.as_u16(), 200);
    assert_eq!(pair.one.journal().await, "subscribed a:b");
    let there = Legacy { server: &pair.other, session };
    let unsubscribed = there.ask(2, "resources/unsubscribe", uri).await;
    assert_eq!(unsubscribed.status.as_u16(), 200);
    assert_eq!(pair.one.journal().await, "unsubscribed a:b");
}
