//! How the server stops.

use std::{sync::Arc, time::Duration};

use muster_mcp::http::HttpOptions;
use serde_json::json;
use tokio::{net::TcpStream, sync::mpsc};

use super::client::{Running, call, soon, start_on_threads, start_with};

async fn stopped(server: &mut Running) {
    soon(server.serving.join_next()).await.unwrap().unwrap();
}

/// A server on the threads of the test, and one with threads of its own.
async fn both(options: HttpOptions) -> [Running; 2] {
    [start_with(options.clone()).await, start_on_threads(options).await]
}

#[tokio::test]
async fn shutdown_waits_for_running_calls() {
    for server in both(HttpOptions::default()).await {
        waits_for_running_calls(server).await;
    }
}

async fn waits_for_running_calls(mut server: Running) {
    let (stop, fake) = (server.stop.clone(), Arc::clone(&server.fake));
    let (_, nothing) = mpsc::unbounded_channel();
    let mut journal = std::mem::replace(&mut server.journal, nothing);
    let (reply, ()) = tokio::join!(server.modern(1, "tools/call", call("brief")), async {
        assert_eq!(soon(journal.recv()).await.unwrap(), "began brief");
        stop.cancel();
        fake.finish.notify_one();
    });
    let answer = reply.json().await;
    assert_eq!(answer["result"]["content"][0]["text"], "finished");
    stopped(&mut server).await;
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn shutdown_ends_open_streams() {
    for server in both(HttpOptions::default()).await {
        ends_open_streams(server).await;
    }
}

async fn ends_open_streams(mut server: Running) {
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = server.modern(3, "subscriptions/listen", listen).await;
    listening.event().await.unwrap();
    let mut standing = server.initialize(json!({})).await.send("GET").await;
    let mut older = server.send("GET", "/sse", &[], "").await;
    older.raw_event().await.unwrap();
    server.stop.cancel();
    let last = listening.event().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(3), &json!("complete")));
    assert_eq!(listening.event().await, None);
    assert_eq!(standing.event().await, None);
    assert_eq!(older.event().await, None);
    stopped(&mut server).await;
}

#[tokio::test]
async fn shutdown_cuts_off_calls_after_the_drain_timeout_and_answers_them() {
    let drain_timeout = Duration::from_millis(100);
    for server in both(HttpOptions { drain_timeout, ..HttpOptions::default() }).await {
        cuts_off_calls(server).await;
    }
}

async fn cuts_off_calls(mut server: Running) {
    let mut modern = server.modern(1, "tools/call", call("talking")).await;
    modern.event().await.unwrap();
    let mut legacy = server.initialize(json!({})).await.ask(1, "tools/call", call("talking")).await;
    legacy.event().await.unwrap();
    server.stop.cancel();
    stopped(&mut server).await;
    for stream in [&mut modern, &mut legacy] {
        let answer = stream.event().await.unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("the gateway is shutting down and cut off this request"),
            "{answer}"
        );
        assert_eq!(stream.event().await, None);
    }
    let mut entries = Vec::new();
    for _ in 0..4 {
        entries.push(server.journal().await);
    }
    entries.sort();
    let (began, dropped) = ("began talking", "dropped talking");
    assert_eq!(entries, [began, began, dropped, dropped]);
}
