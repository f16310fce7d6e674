//! What servers may reply that nobody expects: it passes as it is, or is passed over.

use std::sync::Arc;

use muster_core::{
    call::{CallError, Outcome},
    connect::ConnectionEvent,
};
use tokio::time::timeout;

use super::{
    harness::{FakeClient, LIMIT, TestConnection, http, misbehaving},
    http_server::{HttpServer, Reply, legacy, modern},
};

/// Results that a typed client would change or refuse.
const RESULTS: [&str; 9] = [
    r#"{"content":[{"type":"hologram","voxels":[1,2]},{"type":"text","text":"a","vendor":true}]}"#,
    r#"{ "z" : 1 , "a" : 2 , "content" : [ ] }"#,
    r#"{"content":[],"structuredContent":null,"isError":null}"#,
    r#"{"n":[12345678901234567890123,1.0,1e400,-0,0.1000000000000000055]}"#,
    r#"{"content":[{"type":"text","text":"\u00e9\ud83d\ude00\u0000/\/"}],"a\u0062":1}"#,
    r#"{"content":[{"type":"resource_link","uri":"x"}],"_meta":{"v/x":{"deep":[[[]]]}}}"#,
    r#"{"resultType":"task","taskId":"1","ttlMs":60000.0}"#,
    r#"{"dup":1,"dup":2}"#,
    r#"{"text":"input_required"}"#,
];

async fn every_result_passes(world: TestConnection) {
    let client = FakeClient::with_all_capabilities();
    for result in RESULTS {
        let arguments = format!(r#"{{"result":{}}}"#, serde_json::to_string(result).unwrap());
        assert_eq!(world.call(&client, "raw", &arguments).await, result);
    }
}

#[tokio::test]
async fn results_pass_byte_by_byte_over_pipes() {
    every_result_passes(TestConnection::of(&misbehaving(&[])).await).await;
}

/// An HTTP server that answers as its caller wrote it, with a document or with events.
fn echo(
    era: &'static str,
    by_events: bool,
) -> impl Fn(&super::http_server::ReceivedRequest) -> Reply + Send + Sync {
    move |request| {
        let more = |request: &super::http_server::ReceivedRequest| {
            if request.is("tools/list") {
                return Some(Reply::result(request, r#"{"tools":[{"name":"raw"}]}"#));
            }
            if !request.is("tools/call") {
                return None;
            }
            let message: serde_json::Value = serde_json::from_str(&request.body).unwrap();
            let result = message["params"]["arguments"]["result"].as_str().unwrap().to_owned();
            let message = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.id());
            Some(match by_events {
                true => Reply::Events(vec![
                    ": hi\r\n\r\nevent: mess".to_owned(),
                    format!("age\r\ndata: {message}\r\n\r\n"),
                ]),
                false => Reply::json(message),
            })
        };
        if era == "modern" { modern(request, more) } else { legacy(request, more) }
    }
}

#[tokio::test]
async fn results_pass_byte_by_byte_over_http() {
    for era in ["modern", "legacy"] {
        for by_events in [false, true] {
            let web = HttpServer::start(echo(era, by_events)).await;
            every_result_passes(TestConnection::of(&http(&web.url)).await).await;
        }
    }
}

#[tokio::test]
async fn requests_pass_byte_by_byte() {
    let world = TestConnection::of(&misbehaving(&[])).await;
    let client = FakeClient::with_all_capabilities();
    let arguments = r#"{"z":12345678901234567890123,"a":1.0,"u":"\u00e9","n":null}"#;
    let meta = r#"{"v/x":{"k": 1e400},"progressToken":"mine","traceparent":"00-ab"}"#;
    let call = world.permit("echo", arguments, Some(meta));
    let Ok(Outcome::Raw(result)) = world.run(&client, call).await else { panic!() };
    let text = result.get();
    assert!(text.contains(&format!(r#""arguments":{arguments}"#)), "{text}");
    assert!(
        text.contains(r#""_meta":{"v/x":{"k": 1e400},"traceparent":"00-ab","progressToken":"#),
        "{text}"
    );
    assert!(!text.contains("mine"));
    // A value that spans lines must not become two messages.
    let call = world.permit("echo", "{\n\"a\":\r\n1}", None);
    let Ok(Outcome::Raw(result)) = world.run(&client, call).await else { panic!() };
    assert!(result.get().contains(r#""arguments":{ "a":  1}"#), "{result}");
}

#[tokio::test]
async fn listed_items_stay_as_written_and_malformed_ones_are_omitted() {
    let world = TestConnection::of(&misbehaving(&[])).await;
    let tools: Vec<&str> = world.listing.tools.iter().map(|tool| tool.get()).collect();
    assert_eq!(tools.len(), 7, "{tools:?}");
    assert_eq!(
        tools[0],
        r#"{"name":"raw","inputSchema":{"type":"object"},"vendor":{"x":[1.0,1e400]}}"#
    );
    assert_eq!(tools[1], r#"{"name":"echo"}"#);
    assert_eq!(world.listing.protocol, "2025-06-18");
    assert_eq!(world.listing.instructions.as_deref(), Some("Be odd."));
}

#[tokio::test]
async fn lines_that_are_not_messages_are_ignored() {
    let world = TestConnection::of(&misbehaving(&[])).await;
    assert_eq!(world.call(&FakeClient::with_all_capabilities(), "noise", "{}").await, "{}");
}

#[tokio::test]
async fn a_server_that_exits_at_the_probe_is_started_again() {
    let world = TestConnection::of(&misbehaving(&["fragile"])).await;
    assert_eq!(world.call(&FakeClient::with_all_capabilities(), "noise", "{}").await, "{}");
}

#[tokio::test]
async fn the_exit_of_a_process_fails_its_calls_and_is_reported() {
    let mut world = TestConnection::of(&misbehaving(&[])).await;
    let client = FakeClient::with_all_capabilities();
    let waiting = world.run(&client, world.permit("wait", "{}", None));
    let dying = world.run(&client, world.permit("die", "{}", None));
    let (waiting, dying) = tokio::join!(waiting, dying);
    for failed in [waiting, dying] {
        let Err(CallError::Unavailable { reason, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(reason, "it exited with code 3: boom");
    }
    match world.event().await {
        ConnectionEvent::Closed { reason } => assert_eq!(reason, "it exited with code 3: boom"),
        other => panic!("{other:?}"),
    }
    let late = world.run(&client, world.permit("raw", "{}", None)).await;
    assert!(matches!(late, Err(CallError::Unavailable { .. })), "{late:?}");
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let mut world = TestConnection::of(&misbehaving(&[])).await;
    let client = FakeClient::with_all_capabilities();
    let waiting = world.run(&client, world.permit("wait", "{}", None));
    assert!(timeout(std::time::Duration::from_millis(50), waiting).await.is_err());
    // The server logs; without a pending call the message belongs to no client.
    match world.event().await {
        ConnectionEvent::Log { params } => {
            assert!(params.get().contains(r#""method":"notifications/cancelled""#), "{params}");
            assert!(params.get().contains(r#""requestId":"#), "{params}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_input_request_on_a_pipe_reaches_the_only_possible_client() {
    let world = Arc::new(TestConnection::of(&misbehaving(&[])).await);
    let question = |world: &TestConnection| {
        world.permit("ask", r#"{"method":"sampling/createMessage"}"#, None)
    };
    // Alone.
    let able = FakeClient::with_all_capabilities();
    let Ok(Outcome::Raw(told)) = world.run(&able, question(&world)).await else { panic!() };
    assert!(told.get().contains("Paris"), "{told}");

    // Beside another call of the same caller whose client could not answer.
    let unable = FakeClient::new("{}", &[]);
    let beside = Arc::clone(&world);
    let other = async { beside.run(&unable, beside.permit("wait", "{}", None)).await };
    let asking = async { world.run(&able, question(&world)).await };
    tokio::select! {
        biased;
        _ = other => panic!("nobody answers it"),
        told = asking => assert!(format!("{told:?}").contains("Paris"), "{told:?}"),
    }

    // Beside a call of someone else.
    let beside = Arc::clone(&world);
    let other = async { beside.run_as("eve", &able, beside.permit("wait", "{}", None)).await };
    let asking = async { world.run(&able, question(&world)).await };
    tokio::select! {
        biased;
        _ = other => panic!("nobody answers it"),
        told = asking => {
            let told = format!("{told:?}");
            assert!(told.contains("cannot tell whose request this belongs to"), "{told}");
        }
    }
    assert_eq!(able.input_requests().len(), 2);
}

#[tokio::test]
async fn pings_and_unknown_requests_get_a_response() {
    let world = TestConnection::of(&misbehaving(&[])).await;
    let client = FakeClient::with_all_capabilities();
    let ping = world.call(&client, "ask", r#"{"method":"ping"}"#).await;
    assert!(ping.contains(r#""result":{}"#), "{ping}");
    let unknown = world.call(&client, "ask", r#"{"method":"dance/now"}"#).await;
    assert!(unknown.contains("-32601"), "{unknown}");
    let cannot = FakeClient::new("{}", &[]);
    let roots = world.call(&cannot, "ask", r#"{"method":"roots/list"}"#).await;
    // A client without roots returns an error; the call continues.
    assert!(roots.contains(r#""roots":[]"#), "{roots}");
}

#[tokio::test]
async fn log_messages_reach_the_only_call() {
    let world = TestConnection::of(&misbehaving(&[])).await;
    let client = FakeClient::with_all_capabilities();
    world.call(&client, "log", "{}").await;
    assert_eq!(client.notifications(), [r#"notifications/message {"level":"info","data":1}"#]);
    timeout(LIMIT, world.connection.close()).await.unwrap();
}
