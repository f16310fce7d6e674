//! The era of sessions over streamable HTTP.

use std::time::Duration;

use muster_core::request::Change;
use muster_mcp::http::HttpOptions;
use serde_json::json;

use super::client::{call, request, start, start_with};

#[tokio::test]
async fn a_session_from_start_to_end() {
    let server = start().await;
    let client = server.initialize(json!({})).await;
    assert!(client.session.starts_with("mcp-session-"));
    assert_eq!(client.tell("notifications/initialized", json!({})).await.status.as_u16(), 202);
    let pong = client.ask(1, "ping", json!({})).await;
    assert_eq!(pong.header("mcp-session-id"), client.session);
    assert_eq!(pong.json().await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    let tools = client.ask(2, "tools/list", json!({})).await.json().await;
    assert_eq!(tools["result"].as_object().unwrap().len(), 1, "{tools}");
    assert_eq!(client.send("DELETE").await.status.as_u16(), 200);
    for reply in [
        client.ask(3, "ping", json!({})).await,
        client.ask(3, "nope", json!({})).await,
        client.send("GET").await,
        client.send("DELETE").await,
    ] {
        assert_eq!(reply.status.as_u16(), 404);
    }
    let gone = client.ask(3, "ping", json!({})).await.json().await;
    assert_eq!((gone["id"].as_i64(), gone["error"]["code"].as_i64()), (Some(3), Some(-32001)));
}

#[tokio::test]
async fn without_a_session_there_is_only_initialize() {
    let server = start().await;
    let reply = server.post(&[], &request(5, "tools/list", &json!({}))).await;
    assert_eq!(reply.status.as_u16(), 400);
    assert_eq!(reply.json().await["id"], 5);
    let headers = [("mcp-session-id", "mcp-session-0")];
    let reply = server.post(&headers, &request(5, "tools/list", &json!({}))).await;
    assert_eq!(reply.status.as_u16(), 404);
}

#[tokio::test]
async fn errors_of_the_handler_are_http_successes() {
    let server = start().await;
    let client = server.initialize(json!({})).await;
    for (method, params, code) in [
        ("nope", json!({}), -32601),
        ("server/nope", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!([]), -32602),
        ("tools/call", call("nope"), -32602),
        ("tools/call", call("needy"), -32021),
        ("tools/call", call("crash"), -32603),
        ("resources/read", json!({"uri": "a:gone"}), -32002),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
    ] {
        let reply = client.ask(8, method, params).await;
        assert_eq!(reply.status.as_u16(), 200, "{method}");
        let answer = reply.json().await;
        assert_eq!(answer["error"]["code"], code, "{method} {answer}");
        assert_eq!(answer["id"], 8);
    }
}

#[tokio::test]
async fn legacy_results_have_no_modern_fields() {
    let server = start().await;
    let client = server.initialize(json!({})).await;
    let result = client.ask(1, "tools/call", call("modern")).await.json().await["result"].take();
    assert_eq!(result, json!({"content": []}));
}

#[tokio::test]
async fn progress_precedes_the_response() {
    let server = start().await;
    let client = server.initialize(json!({})).await;
    let mut reply = client.ask(1, "tools/call", call("progress")).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.event().await.unwrap()["params"]["progress"], 1);
    assert_eq!(reply.event().await.unwrap()["params"]["progress"], 2);
    assert_eq!(reply.event().await.unwrap()["result"]["content"][0]["text"], "done");
    assert_eq!(reply.event().await, None);
}

#[tokio::test]
async fn log_messages_follow_the_level() {
    let server = start().await;
    let client = server.initialize(json!({})).await;
    let mut reply = client.ask(1, "tools/call", call("log")).await;
    assert_eq!(reply.event().await.unwrap()["params"]["level"], "debug");
    assert_eq!(reply.event().await.unwrap()["params"]["level"], "error");
    client.ask(2, "logging/setLevel", json!({"level": "error"})).await;
    let mut reply = client.ask(3, "tools/call", call("log")).await;
    assert_eq!(reply.event().await.unwrap()["params"]["level"], "error");
    assert_eq!(reply.event().await.unwrap()["id"], 3);
}

#[tokio::test]
async fn an_input_request_is_sent_on_the_stream_of_its_call() {
    let server = start().await;
    let client = server.initialize(json!({"elicitation": {}})).await;
    let mut reply = client.ask(1, "tools/call", call("ask")).await;
    let question = reply.event().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "sure?");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(client.post(&answer).await.status.as_u16(), 202);
    let result = reply.event().await.unwrap()["result"].take();
    assert_eq!(result["content"][0]["text"], r#"{"action":"accept"}"#);

    let mut reply = client.ask(2, "tools/call", call("ask")).await;
    let question = reply.event().await.unwrap();
    let answer = json!({"id": question["id"], "error": {"code": -1, "message": "no"}});
    client.post(&answer).await;
    assert_eq!(reply.event().await.unwrap()["result"]["content"][0]["text"], "no");
}

#[tokio::test]
async fn input_requests_need_the_capability() {
    let server = start().await;
    let client = server.initialize(json!({"sampling": {}})).await;
    let answer = client.ask(1, "tools/call", call("ask")).await.json().await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "the client did not declare the capability `elicitation`");
}

#[tokio::test]
async fn another_session_cannot_respond() {
    let server = start().await;
    let client = server.initialize(json!({"elicitation": {}})).await;
    let other = server.initialize(json!({"elicitation": {}})).await;
    let mut reply = client.ask(1, "tools/call", call("ask")).await;
    let question = reply.event().await.unwrap();
    let answer = |who: &str| json!({"id": question["id"], "result": {"by": who}});
    other.post(&answer("other")).await;
    client.post(&answer("client")).await;
    let text = reply.event().await.unwrap()["result"]["content"][0]["text"].take();
    assert_eq!(text, r#"{"by":"client"}"#);
}

#[tokio::test]
async fn a_request_is_cancelled_by_its_id() {
    let mut server = start().await;
    let session = {
        let client = server.initialize(json!({"elicitation": {}})).await;
        let mut talking = client.ask(1, "tools/call", call("talking")).await;
        assert_eq!(talking.event().await.unwrap()["method"], "notifications/progress");
        client.tell("notifications/cancelled", json!({"requestId": 2})).await;
        client.tell("notifications/cancelled", json!({"requestId": 1})).await;
        assert_eq!(talking.event().await, None);
        let mut asking = client.ask(3, "tools/call", call("ask")).await;
        let question = asking.event().await.unwrap();
        client.tell("notifications/cancelled", json!({"requestId": 3})).await;
        let event = asking.event().await.unwrap();
        assert_eq!(event["method"], "notifications/cancelled");
        assert_eq!(event["params"]["requestId"], question["id"]);
        assert_eq!(asking.event().await, None);
        client.session
    };
    assert!(!session.is_empty());
    assert_eq!(server.journal().await, "began talking");
    assert_eq!(server.journal().await, "dropped talking");
    assert_eq!(server.journal().await, "dropped ask");
}

#[tokio::test]
async fn changes_wait_for_the_standalone_stream() {
    let mut server = start().await;
    let client = server.initialize(json!({})).await;
    client.ask(1, "resources/subscribe", json!({"uri": "a:b"})).await;
    for change in [
        Change::Tools,
        Change::Resource { uri: "c:d".to_owned() },
        Change::Resource { uri: "a:b".to_owned() },
    ] {
        server.fake.changes.send(change).unwrap();
    }
    let mut stream = client.send("GET").await;
    assert_eq!(stream.header("content-type"), "text/event-stream");
    let event = stream.event().await.unwrap();
    assert_eq!(event, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let event = stream.event().await.unwrap();
    assert_eq!(event["method"], "notifications/resources/updated");
    assert_eq!(event["params"], json!({"uri": "a:b"}));
    // The next one takes over.
    let mut next = client.send("GET").await;
    assert_eq!(stream.event().await, None);
    server.fake.changes.send(Change::Prompts).unwrap();
    let event = next.event().await.unwrap();
    assert_eq!(event["method"], "notifications/prompts/list_changed");
    client.send("DELETE").await;
    assert_eq!(next.event().await, None);
    assert_eq!(server.journal().await, "subscribed a:b");
    assert_eq!(server.journal().await, "unsubscribed a:b");
}

#[tokio::test]
async fn the_last_unsubscribe_ends_a_subscription() {
    let mut server = start().await;
    let (one, other) = (server.initialize(json!({})).await, server.initialize(json!({})).await);
    let uri = json!({"uri": "a:b"});
    for client in [&one, &other] {
        let reply = client.ask(1, "resources/subscribe", uri.clone()).await;
        assert_eq!(reply.json().await["result"], json!({}));
    }
    // Twice is as good as once, and nobody ends it for others.
    let stranger = server.initialize(json!({})).await;
    for client in [&one, &one, &stranger] {
        let reply = client.ask(2, "resources/unsubscribe", uri.clone()).await;
        assert_eq!(reply.json().await["result"], json!({}));
    }
    server.fake.changes.send(Change::Resource { uri: "a:b".to_owned() }).unwrap();
    let mut stream = other.send("GET").await;
    assert_eq!(stream.event().await.unwrap()["params"], uri);
    other.ask(2, "resources/unsubscribe", uri).await;
    for entry in ["subscribed a:b", "subscribed a:b", "unsubscribed a:b"] {
        assert_eq!(server.journal().await, entry);
    }
}

#[tokio::test]
async fn the_end_of_a_session_cancels_what_it_runs() {
    let mut server = start().await;
    let client = server.initialize(json!({})).await;
    let mut talking = client.ask(1, "tools/call", call("talking")).await;
    talking.event().await.unwrap();
    client.send("DELETE").await;
    assert_eq!(talking.event().await, None);
    assert_eq!(server.journal().await, "began talking");
    assert_eq!(server.journal().await, "dropped talking");
}

#[tokio::test]
async fn calls_of_a_silent_client_are_cancelled() {
    let mut server = start().await;
    let client = server.initialize(json!({})).await;
    drop(client.ask(1, "tools/call", call("talking")).await);
    assert_eq!(server.journal().await, "began talking");
    assert_eq!(server.journal().await, "dropped talking");
}

#[tokio::test]
async fn calls_of_a_client_that_left_early_are_cancelled() {
    let mut server = start().await;
    {
        let client = server.initialize(json!({})).await;
        let waiting = client.ask(1, "tools/call", call("slow"));
        tokio::time::timeout(Duration::from_millis(300), waiting).await.err().unwrap();
    }
    assert_eq!(server.journal().await, "began slow");
    assert_eq!(server.journal().await, "dropped slow");
}

#[tokio::test]
async fn calls_of_a_listening_client_continue() {
    let mut server = start().await;
    let stream = {
        let client = server.initialize(json!({})).await;
        let stream = client.send("GET").await;
        drop(client.ask(1, "tools/call", call("talking")).await);
        stream
    };
    assert_eq!(server.journal().await, "began talking");
    let quiet = tokio::time::timeout(Duration::from_millis(1500), server.journal.recv()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    drop(stream);
    assert_eq!(server.journal().await, "dropped talking");
}

#[tokio::test]
async fn idle_sessions_end() {
    let options = HttpOptions {
        session_idle: Duration::from_millis(50),
        max_sessions: 2,
        ..HttpOptions::default()
    };
    let server = start_with(options).await;
    let client = server.initialize(json!({})).await;
    let listening = server.initialize(json!({})).await;
    let _stream = listening.send("GET").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.ask(1, "ping", json!({})).await.status.as_u16(), 404);
    assert_eq!(listening.ask(1, "ping", json!({})).await.status.as_u16(), 200);
}

#[tokio::test]
async fn above_the_limit_the_least_recently_used_session_ends() {
    let server = start_with(HttpOptions { max_sessions: 2, ..HttpOptions::default() }).await;
    let first = server.initialize(json!({})).await;
    let second = server.initialize(json!({})).await;
    first.ask(1, "ping", json!({})).await;
    let third = server.initialize(json!({})).await;
    for (client, status) in [(&first, 200), (&second, 404), (&third, 200)] {
        assert_eq!(client.ask(1, "ping", json!({})).await.status.as_u16(), status);
    }
}

#[tokio::test]
async fn a_flood_of_sessions_ends_its_own() {
    let server = start_with(HttpOptions { max_sessions: 10, ..HttpOptions::default() }).await;
    let client = server.initialize(json!({})).await;
    assert_eq!(client.ask(1, "ping", json!({})).await.status.as_u16(), 200);
    for _ in 0..100 {
        server.initialize(json!({})).await;
    }
    assert_eq!(client.ask(2, "ping", json!({})).await.status.as_u16(), 200);
}

#[tokio::test]
async fn calls_of_one_caller_are_limited() {
    let options = HttpOptions { calls_per_second: 1, ..HttpOptions::default() };
    let server = start_with(options).await;
    let client = server.initialize(json!({})).await;
    let mut statuses = Vec::new();
    for id in 0..5 {
        statuses.push(client.ask(id, "tools/call", call("echo")).await.status.as_u16());
    }
    assert_eq!(statuses.first(), Some(&200));
    assert!(statuses.contains(&429), "{statuses:?}");
    // A new session is the same caller.
    statuses.clear();
    for id in 0..5 {
        let another = server.initialize(json!({})).await;
        statuses.push(another.ask(id, "tools/call", call("echo")).await.status.as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(client.ask(10, "ping", json!({})).await.status.as_u16(), 200);
}
