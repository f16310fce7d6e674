//! What servers may say that nobody expects: it passes as it is, or is passed over.

use std::sync::Arc;

use muster_core::{
    call::{CallError, Outcome},
    connect::ConnectionEvent,
};
use tokio::time::timeout;

use super::{
    web::{Say, Web, legacy, modern},
    world::{Fake, LIMIT, World, http, odd},
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

async fn every_result_passes(world: World) {
    let client = Fake::able();
    for result in RESULTS {
        let arguments = format!(r#"{{"result":{}}}"#, serde_json::to_string(result).unwrap());
        assert_eq!(world.call(&client, "raw", &arguments).await, result);
    }
}

#[tokio::test]
async fn results_pass_byte_by_byte_over_pipes() {
    every_result_passes(World::of(&odd(&[])).await).await;
}

/// An HTTP server that answers as its caller wrote it, with a document or with events.
fn echo(era: &'static str, by_events: bool) -> impl Fn(&super::web::Seen) -> Say + Send + Sync {
    move |seen| {
        let more = |seen: &super::web::Seen| {
            if seen.is("tools/list") {
                return Some(Say::result(seen, r#"{"tools":[{"name":"raw"}]}"#));
            }
            if !seen.is("tools/call") {
                return None;
            }
            let message: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
            let result = message["params"]["arguments"]["result"].as_str().unwrap().to_owned();
            let message = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id());
            Some(match by_events {
                true => Say::Events(vec![
                    ": hi\r\n\r\nevent: mess".to_owned(),
                    format!("age\r\ndata: {message}\r\n\r\n"),
                ]),
                false => Say::json(message),
            })
        };
        if era == "modern" { modern(seen, more) } else { legacy(seen, more) }
    }
}

#[tokio::test]
async fn results_pass_byte_by_byte_over_http() {
    for era in ["modern", "legacy"] {
        for by_events in [false, true] {
            let web = Web::start(echo(era, by_events)).await;
            every_result_passes(World::of(&http(&web.url)).await).await;
        }
    }
}

#[tokio::test]
async fn requests_pass_byte_by_byte() {
    let world = World::of(&odd(&[])).await;
    let client = Fake::able();
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
async fn listed_items_stay_as_written_and_bad_ones_are_left_out() {
    let world = World::of(&odd(&[])).await;
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
async fn noise_is_passed_over() {
    let world = World::of(&odd(&[])).await;
    assert_eq!(world.call(&Fake::able(), "noise", "{}").await, "{}");
}

#[tokio::test]
async fn a_server_that_dies_of_the_first_question_is_started_again() {
    let world = World::of(&odd(&["fragile"])).await;
    assert_eq!(world.call(&Fake::able(), "noise", "{}").await, "{}");
}

#[tokio::test]
async fn the_death_of_a_process_ends_its_calls_and_is_told() {
    let mut world = World::of(&odd(&[])).await;
    let client = Fake::able();
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
async fn a_call_that_is_dropped_is_taken_back() {
    let mut world = World::of(&odd(&[])).await;
    let client = Fake::able();
    let waiting = world.run(&client, world.permit("wait", "{}", None));
    assert!(timeout(std::time::Duration::from_millis(50), waiting).await.is_err());
    // The server logs what it is told; with no call under way that belongs to nobody.
    match world.event().await {
        ConnectionEvent::Log { params } => {
            assert!(params.get().contains(r#""method":"notifications/cancelled""#), "{params}");
            assert!(params.get().contains(r#""requestId":"#), "{params}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn on_a_pipe_a_question_goes_to_whom_it_can_only_belong() {
    let world = Arc::new(World::of(&odd(&[])).await);
    let question =
        |world: &World| world.permit("ask", r#"{"method":"sampling/createMessage"}"#, None);
    // Alone.
    let able = Fake::able();
    let Ok(Outcome::Raw(told)) = world.run(&able, question(&world)).await else { panic!() };
    assert!(told.get().contains("Paris"), "{told}");

    // Beside another call of the same caller whose client could not answer.
    let unable = Fake::new("{}", &[]);
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
    assert_eq!(able.questions().len(), 2);
}

#[tokio::test]
async fn pings_and_unknown_questions_are_answered() {
    let world = World::of(&odd(&[])).await;
    let client = Fake::able();
    let ping = world.call(&client, "ask", r#"{"method":"ping"}"#).await;
    assert!(ping.contains(r#""result":{}"#), "{ping}");
    let unknown = world.call(&client, "ask", r#"{"method":"dance/now"}"#).await;
    assert!(unknown.contains("-32601"), "{unknown}");
    let cannot = Fake::new("{}", &[]);
    let roots = world.call(&cannot, "ask", r#"{"method":"roots/list"}"#).await;
    // Whoever has none is told so; the call goes on.
    assert!(roots.contains(r#""roots":[]"#), "{roots}");
}

#[tokio::test]
async fn log_lines_belong_to_the_only_call() {
    let world = World::of(&odd(&[])).await;
    let client = Fake::able();
    world.call(&client, "log", "{}").await;
    assert_eq!(client.notices(), [r#"notifications/message {"level":"info","data":1}"#]);
    timeout(LIMIT, world.connection.close()).await.unwrap();
}
