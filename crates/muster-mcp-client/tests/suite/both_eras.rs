//! Servers of both eras: legacy clients get their legacy features, modern ones the modern ones.

use muster_core::{backend::ResourceOperation, call::Outcome, connect::ConnectionEvent};

use super::{
    harness::{FakeClient, Fixture, TestConnection, http},
    http_server::{HttpServer, ReceivedRequest, Reply, modern},
};

const WATCHED: &str = "test://watched-resource";

/// A server that asks clients and accepts subscriptions in legacy sessions only.
async fn separate_eras() -> TestConnection {
    let fixture = Fixture::start(&["--separate-eras"]).await;
    let mut world = TestConnection::of(&http(&fixture.url)).await;
    world.fixture = Some(fixture);
    world
}

#[tokio::test]
async fn legacy_clients_are_asked_in_a_session_and_modern_ones_by_results() {
    let world = separate_eras().await;
    assert_eq!(world.listing.protocol, "2026-07-28");
    let client = FakeClient::legacy();
    let sampled = world.call(&client, "test_sampling", r#"{"prompt":"capital?"}"#).await;
    assert!(sampled.contains("LLM response: Paris"), "{sampled}");
    let elicited = world.call(&client, "test_elicitation", r#"{"message":"who?"}"#).await;
    assert!(elicited.contains("action=accept"), "{elicited}");
    assert_eq!(client.input_requests().len(), 2);

    let modern = FakeClient::with_all_capabilities();
    let call = world.permit("test_input_required_result_elicitation", "{}", None);
    let outcome = world.run(&modern, call).await;
    assert!(matches!(outcome, Ok(Outcome::InputRequired(_))), "{outcome:?}");
    assert!(modern.input_requests().is_empty());
}

#[tokio::test]
async fn clients_of_either_era_subscribe_where_the_server_lets_them() {
    let mut world = separate_eras().await;
    let uri = || WATCHED.to_owned();
    for client in [FakeClient::legacy(), FakeClient::with_all_capabilities()] {
        let subscribed = world.request_for(&client, ResourceOperation::Subscribe { uri: uri() });
        assert!(subscribed.await.is_ok());
        world.call(&client, "test_trigger_resource_update", "{}").await;
        match world.event().await {
            ConnectionEvent::ResourceUpdated { uri } => assert_eq!(uri, WATCHED),
            other => panic!("{other:?}"),
        }
        let ended = world.request_for(&client, ResourceOperation::Unsubscribe { uri: uri() });
        assert!(ended.await.is_ok());
        // The next event is not one of the resource.
        world.call(&client, "test_trigger_resource_update", "{}").await;
        world.call(&client, "test_trigger_tool_change", "{}").await;
        // Both eras announce the change.
        for _ in 0..2 {
            assert!(matches!(world.event().await, ConnectionEvent::ListChanged));
        }
    }
}

/// A server that is modern but for what it answers to `initialize`.
async fn answering_initialize(
    answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> HttpServer {
    HttpServer::start(move |request| {
        let done = r#"{"resultType":"complete","content":[]}"#;
        match () {
            () if request.is("initialize") => answer(request),
            () if request.is("notifications/initialized") => Reply::status(202),
            () if request.is("tools/call") => Reply::result(request, done),
            () => modern(request, |_| None),
        }
    })
    .await
}

#[tokio::test]
async fn a_server_without_legacy_sessions_is_asked_once() {
    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{}}"#;
    let modern_only = answering_initialize(|_| Reply::status(400)).await;
    let sessionless = answering_initialize(|request| Reply::result(request, result)).await;
    for web in [modern_only, sessionless] {
        let world = TestConnection::of(&http(&web.url)).await;
        let client = FakeClient::legacy();
        for _ in 0..3 {
            assert!(world.call(&client, "t", "{}").await.contains("content"));
        }
        assert_eq!(web.requests_of("initialize").len(), 1);
        assert!(
            web.requests_of("tools/call")
                .iter()
                .all(|call| { call.header("mcp-protocol-version") == Some("2026-07-28") })
        );
    }
}

#[tokio::test]
async fn a_failure_that_may_pass_does_not_decide_the_era() {
    let overloaded = answering_initialize(|_| Reply::status(503)).await;
    let world = TestConnection::of(&http(&overloaded.url)).await;
    for _ in 0..2 {
        assert!(world.call(&FakeClient::legacy(), "t", "{}").await.contains("content"));
    }
    assert_eq!(overloaded.requests_of("initialize").len(), 2);
}
