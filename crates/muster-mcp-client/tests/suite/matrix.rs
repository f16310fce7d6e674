//! Everything that a server can do, on both wires and in both eras, against the conformance fixture.

use std::sync::Arc;

use muster_core::{
    backend::ResourceOperation,
    call::{CallError, Outcome},
    client::{Continuation, InputRequired},
    connect::{ConnectionEvent, Endpoint},
    protocol_request::Network,
};
use tokio::time::timeout;

use super::harness::{FakeClient, Fixture, LIMIT, TestConnection, fixture, http, raw};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Http,
    Stdio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Modern,
    Legacy,
}

async fn world(wire: Wire, era: Era) -> TestConnection {
    let more: &[&str] = if era == Era::Legacy { &["--legacy-only"] } else { &[] };
    match wire {
        Wire::Http => {
            let fixture = Fixture::start(more).await;
            let mut world = TestConnection::of(&http(&fixture.url)).await;
            world.fixture = Some(fixture);
            world
        }
        Wire::Stdio => {
            let fixture = fixture();
            let args =
                [fixture.to_str().unwrap(), "--stdio"].into_iter().chain(more.iter().copied());
            let args = args.map(str::to_owned).collect();
            TestConnection::of(&Endpoint::Stdio {
                command: "python3".to_owned(),
                args,
                env: vec![],
                inherit: vec![],
            })
            .await
        }
    }
}

macro_rules! matrix {
    ($($check:ident),* $(,)?) => {
        mod http_modern { $(#[tokio::test] async fn $check() {
            super::$check(super::world(super::Wire::Http, super::Era::Modern).await, super::Era::Modern).await;
        })* }
        mod http_legacy { $(#[tokio::test] async fn $check() {
            super::$check(super::world(super::Wire::Http, super::Era::Legacy).await, super::Era::Legacy).await;
        })* }
        mod stdio_modern { $(#[tokio::test] async fn $check() {
            super::$check(super::world(super::Wire::Stdio, super::Era::Modern).await, super::Era::Modern).await;
        })* }
        mod stdio_legacy { $(#[tokio::test] async fn $check() {
            super::$check(super::world(super::Wire::Stdio, super::Era::Legacy).await, super::Era::Legacy).await;
        })* }
    };
}

matrix!(
    lists,
    calls,
    describes_requests,
    progress_and_logs,
    input_requests,
    input_requests_in_results,
    cancels,
    resources_and_prompts,
    receives_change_notifications,
    subscribes,
    runs_concurrently,
    closes,
);

async fn lists(world: TestConnection, era: Era) {
    let listing = &world.listing;
    assert_eq!(listing.tools.len(), 36, "{:#?}", listing.tools);
    assert_eq!(listing.resources.len(), 3);
    assert_eq!(listing.templates.len(), 1);
    assert_eq!(listing.prompts.len(), 5);
    assert_eq!(listing.instructions.as_deref(), Some("A fixture for conformance tests."));
    let version = if era == Era::Modern { "2026-07-28" } else { "2025-11-25" };
    assert_eq!(listing.protocol, version);
    assert!(listing.subscriptions && listing.completions && listing.logging);
    assert_eq!(
        listing.tools[0].get(),
        r#"{"name":"test_simple_text","description":"Returns one text","inputSchema":{"type":"object","properties":{}}}"#
    );
}

async fn calls(world: TestConnection, _: Era) {
    let client = FakeClient::with_all_capabilities();
    let text = world.call(&client, "test_simple_text", "{}").await;
    let plain =
        r#""content":[{"type":"text","text":"This is a simple text response for testing."}]"#;
    // What belongs to the era is not part of the result.
    assert_eq!(text, format!("{{{plain}}}"));
    assert!(world.call(&client, "test_image_content", "{}").await.contains("image/png"));
    assert!(world.call(&client, "test_error_handling", "{}").await.contains(r#""isError":true"#));
    // Repeated in a header, in a wrapping where it must be.
    let region = world.call(&client, "test_custom_header", r#"{"region":"eu-Zürich"}"#).await;
    assert!(region.contains("Region: eu-Zürich"), "{region}");
}

async fn describes_requests(world: TestConnection, era: Era) {
    world.call(&FakeClient::with_all_capabilities(), "test_simple_text", "{}").await;
    let request = world.sent.take().unwrap();
    let version = if era == Era::Modern { "2026-07-28" } else { "2025-11-25" };
    assert_eq!(request.version.as_deref(), Some(version));
    assert!(request.id.unwrap().parse::<u64>().unwrap() > 0);
    let port = world
        .fixture
        .as_ref()
        .and_then(|fixture| fixture.url.trim_end_matches("/mcp").rsplit(':').next()?.parse().ok());
    let server = port.map(|port: u16| ("127.0.0.1".to_owned(), port));
    let network = if server.is_some() { Network::Http } else { Network::Pipe };
    assert_eq!((request.network, request.server), (network, server));
    assert_eq!(world.sent.take(), None);
}

async fn progress_and_logs(world: TestConnection, _: Era) {
    let client = FakeClient::with_all_capabilities();
    // A token that no number type holds comes back as it was written.
    let meta = r#"{"progressToken":123456789012345678901234567890,"traceparent":"00-1"}"#;
    let call = world.permit("test_tool_with_progress", "{}", Some(meta));
    world.run(&client, call).await.unwrap();
    let progress = |value: u8| {
        format!(
            r#"notifications/progress {{"progressToken":123456789012345678901234567890,"progress":{value},"total":100}}"#
        )
    };
    assert_eq!(client.notifications(), [progress(0), progress(50), progress(100)]);

    let client = FakeClient::with_all_capabilities();
    let call = world.permit("test_tool_with_progress", "{}", None);
    world.run(&client, call).await.unwrap();
    assert!(client.notifications().is_empty());

    world.call(&client, "test_tool_with_logging", "{}").await;
    assert_eq!(
        client.notifications()[0],
        r#"notifications/message {"level":"info","logger":"fixture","data":"Tool execution started"}"#
    );
    assert_eq!(client.notifications().len(), 3);
}

/// Input requests of a legacy server reach the client at once; a modern one makes them by its result.
async fn input_requests(world: TestConnection, era: Era) {
    let client = FakeClient::with_all_capabilities();
    let call = world.permit("test_sampling", r#"{"prompt":"capital?"}"#, None);
    let outcome = world.run(&client, call).await.unwrap();
    if era == Era::Modern {
        let Outcome::InputRequired(InputRequired { requests: questions, state, result }) = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(questions[0].0, "prompt");
        assert_eq!(questions[0].1.method, "sampling/createMessage");
        assert!(state.is_none());
        assert!(result.unwrap().get().contains(r#""resultType":"input_required""#));
        // A client that did not declare it is never asked.
        let call = world.permit("test_sampling", r#"{"prompt":"capital?"}"#, None);
        let refused = world.run(&FakeClient::new("{}", &[]), call).await;
        let Err(CallError::Upstream { code: -32021, .. }) = refused else { panic!("{refused:?}") };
        return;
    }
    let Outcome::Raw(result) = outcome else { panic!("{outcome:?}") };
    assert!(result.get().contains("LLM response: Paris"), "{result}");
    let asked = client.input_requests();
    assert_eq!(
        asked,
        [
            r#"sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"capital?"}}],"maxTokens":100}"#
        ]
    );
    let elicited = world.call(&client, "test_elicitation", r#"{"message":"who?"}"#).await;
    assert!(elicited.contains("action=accept"), "{elicited}");
    let roots = world.call(&client, "test_input_required_result_list_roots", "{}").await;
    assert!(roots.contains("file:///home"), "{roots}");
    // A client that cannot, and one that will not.
    let cannot = FakeClient::new("{}", &[]);
    let text = world.call(&cannot, "test_sampling", r#"{"prompt":"x"}"#).await;
    assert!(text.contains("did not declare the capability `sampling`"), "{text}");
    assert!(cannot.input_requests().is_empty());
    let refusing = FakeClient::new(r#"{"sampling":{}}"#, &[]);
    let text = world.call(&refusing, "test_sampling", r#"{"prompt":"x"}"#).await;
    assert!(text.contains("The client refused: no"), "{text}");
}

async fn input_requests_in_results(world: TestConnection, era: Era) {
    let client = FakeClient::with_all_capabilities();
    let tool = "test_input_required_result_multi_round";
    if era == Era::Legacy {
        let text = world.call(&client, "test_input_required_result_multiple_inputs", "{}").await;
        assert!(text.contains("Paris Ada (file:///home)"), "{text}");
        return;
    }
    let first = world.run(&client, world.permit(tool, "{}", None)).await;
    let Ok(Outcome::InputRequired(InputRequired {
        requests: questions, state: Some(state), ..
    })) = first
    else {
        panic!("{first:?}")
    };
    assert_eq!(questions[0].0, "step1");
    let again =
        |answers: &str, state| Continuation { responses: Some(raw(answers)), state: Some(state) };
    let step1 = again(r#"{"step1":{"action":"accept","content":{"name":"Ada"}}}"#, state);
    let second = world.run(&client, world.permit_with(tool, "{}", None, step1)).await;
    let Ok(Outcome::InputRequired(InputRequired {
        requests: questions, state: Some(state), ..
    })) = second
    else {
        panic!("{second:?}")
    };
    assert_eq!(questions[0].0, "step2");
    let step2 = again(r#"{"step2":{"action":"accept","content":{"color":"red"}}}"#, state);
    let third = world.run(&client, world.permit_with(tool, "{}", None, step2)).await;
    let Ok(Outcome::Raw(result)) = third else { panic!("{third:?}") };
    assert!(result.get().contains("Ada likes red."), "{result}");
}

/// The fixture does not report that a call ended early, but a call that sleeps for a minute and is not
/// cancelled keeps it from exiting in time.
async fn cancels(mut world: TestConnection, _: Era) {
    let client = FakeClient::with_all_capabilities();
    let call = world.permit("slow_compute", r#"{"seconds":60}"#, None);
    let running = world.run(&client, call);
    assert!(timeout(std::time::Duration::from_millis(300), running).await.is_err());
    // The connection is as good as before.
    assert!(world.call(&client, "test_simple_text", "{}").await.contains("simple text"));
    world.connection.close().await;
    world.events.close();
}

async fn resources_and_prompts(world: TestConnection, era: Era) {
    let read =
        world.request_text(ResourceOperation::Read { uri: "test://static-text".to_owned() }).await;
    assert!(read.contains("This is the content of the static text resource."), "{read}");
    let missing = world.request(ResourceOperation::Read { uri: "test://nothing".to_owned() }).await;
    let expect = if era == Era::Modern { -32602 } else { -32002 };
    match missing {
        Err(CallError::Upstream { code, message, data }) => {
            assert_eq!((code, message.as_str()), (expect, "Resource not found"));
            assert_eq!(data.unwrap().get(), r#"{"uri":"test://nothing"}"#);
        }
        other => panic!("{other:?}"),
    }
    let prompt = ResourceOperation::Prompt {
        name: "test_prompt_with_arguments".to_owned(),
        arguments: Some(raw(r#"{"arg1":"a","arg2":"b"}"#)),
    };
    assert!(world.request_text(prompt).await.contains("arg1='a', arg2='b'"));
    let params = raw(
        r#"{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"par"}}"#,
    );
    let completed = world.request_text(ResourceOperation::Complete { params }).await;
    assert!(completed.contains(r#"["paris","park","party"]"#), "{completed}");
}

async fn receives_change_notifications(mut world: TestConnection, _: Era) {
    let client = FakeClient::with_all_capabilities();
    for tool in ["test_trigger_tool_change", "test_trigger_prompt_change"] {
        world.call(&client, tool, "{}").await;
        assert!(matches!(world.event().await, ConnectionEvent::ListChanged));
    }
}

async fn subscribes(mut world: TestConnection, _: Era) {
    let client = FakeClient::with_all_capabilities();
    let watched = || "test://watched-resource".to_owned();
    assert_eq!(world.request_text(ResourceOperation::Subscribe { uri: watched() }).await, "{}");
    world.call(&client, "test_trigger_resource_update", "{}").await;
    match world.event().await {
        ConnectionEvent::ResourceUpdated { uri } => assert_eq!(uri, watched()),
        other => panic!("{other:?}"),
    }
    let nothing =
        world.request(ResourceOperation::Subscribe { uri: "test://nothing".to_owned() }).await;
    assert!(matches!(nothing, Err(CallError::Upstream { .. })), "{nothing:?}");
    world.request_text(ResourceOperation::Unsubscribe { uri: watched() }).await;
    // A modern server learns of it when the stream is closed, which takes a moment.
    let until_quiet = async {
        loop {
            world.call(&client, "test_trigger_resource_update", "{}").await;
            world.call(&client, "test_trigger_tool_change", "{}").await;
            match world.event().await {
                ConnectionEvent::ResourceUpdated { .. } => drop(world.event().await),
                ConnectionEvent::ListChanged => return,
                other => panic!("{other:?}"),
            }
        }
    };
    timeout(LIMIT, until_quiet).await.unwrap();
}

async fn runs_concurrently(world: TestConnection, _: Era) {
    let world = Arc::new(world);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let world = Arc::clone(&world);
        calls.spawn(async move {
            let client = FakeClient::with_all_capabilities();
            let meta = format!(r#"{{"progressToken":"t{number}"}}"#);
            let call = world.permit("test_tool_with_progress", "{}", Some(&meta));
            world.run(&client, call).await.unwrap();
            let notifications = client.notifications();
            assert_eq!(notifications.len(), 3, "{notifications:?}");
            assert!(notifications.iter().all(|notice| notice.contains(&format!(r#""t{number}""#))));
        });
    }
    while let Some(done) = timeout(LIMIT, calls.join_next()).await.unwrap() {
        done.unwrap();
    }
}

async fn closes(world: TestConnection, _: Era) {
    let TestConnection { connection, connector, mut events, .. } = world;
    connection.close().await;
    drop(connection);
    timeout(LIMIT, connector.shut_down()).await.expect("nothing is left running");
    while let Some(event) = events.recv().await {
        assert!(!matches!(event, ConnectionEvent::Closed { .. }), "we closed it ourselves");
    }
}
