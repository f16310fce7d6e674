//! HTTP+SSE, the transport of 2024-11-05.

use std::sync::{Arc, PoisonError};

use muster_core::{
    call::CallError,
    connect::{ConnectError, ConnectionEvent, Endpoint},
};
use tokio::sync::mpsc;

use super::{
    harness::{FakeClient, TestConnection, connect, connector},
    http_server::{HttpServer, ReceivedRequest, Reply},
};

#[expect(clippy::disallowed_types, reason = "the simplest there is for tests")]
type Mutex<T> = std::sync::Mutex<T>;
type Stream = Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>;

fn answer(request: &ReceivedRequest) -> Option<String> {
    let result = match () {
        () if request.is("initialize") => {
            r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{}}"#
        }
        () if request.is("tools/list") => {
            r#"{"tools":[{"name":"t"},{"name":"bye"},{"name":"wait"}]}"#
        }
        () if request.body.contains(r#""name":"t""#) => {
            r#"{"content":[ ],"big":12345678901234567890}"#
        }
        () => return None,
    };
    Some(format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n",
        request.id()
    ))
}

async fn server(first: &'static str, stream: Stream) -> HttpServer {
    HttpServer::start(move |request| {
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        if request.header("authorization") != Some("Bearer secret") {
            return Reply::Document(401, "www-authenticate: Bearer scope=\"x\"\r\n", String::new());
        }
        if request.method == "GET" {
            let (sender, events) = mpsc::unbounded_channel();
            sender.send(format!(": welcome\n\n{first}")).unwrap();
            *stream = Some(sender);
            return Reply::OpenStream(events);
        }
        assert_eq!(request.path, "/messages?session=1");
        if request.body.contains(r#""name":"bye""#) {
            *stream = None;
        } else if let (Some(stream), Some(answer)) = (&*stream, answer(request)) {
            stream.send(answer).unwrap();
        }
        Reply::Document(202, "", "Accepted".to_owned())
    })
    .await
}

fn endpoint(web: &HttpServer, password: &str) -> Endpoint {
    let headers = vec![("Authorization".to_owned(), format!("Bearer {password}"))];
    Endpoint::Sse { url: web.url.clone(), headers }
}

#[tokio::test]
async fn a_server_is_used_and_its_end_is_reported() {
    let stream = Stream::default();
    let web = server("event: endpoint\ndata: /messages?session=1\n\n", Arc::clone(&stream)).await;
    let mut world = TestConnection::of(&endpoint(&web, "secret")).await;
    assert_eq!(world.listing.protocol, "2024-11-05");
    let client = FakeClient::with_all_capabilities();
    let result = world.call(&client, "t", "{}").await;
    assert_eq!(result, r#"{"content":[ ],"big":12345678901234567890}"#);
    assert!(web.requests_of("server/discover").is_empty());
    assert_eq!(web.requests_of("notifications/initialized").len(), 1);
    let change = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    let sender = stream.lock().unwrap().clone().unwrap();
    sender.send(change.to_owned()).unwrap();
    drop(sender);
    assert!(matches!(world.event().await, ConnectionEvent::ListChanged));
    let gone = world.run(&client, world.permit("bye", "{}", None)).await;
    let Err(CallError::Unavailable { reason, .. }) = gone else { panic!("{gone:?}") };
    assert!(reason.contains("stream"), "{reason}");
    assert!(matches!(world.event().await, ConnectionEvent::Closed { .. }));
}

#[tokio::test]
async fn messages_are_not_sent_to_another_server() {
    let web = server("event: endpoint\ndata: http://evil.example/m\n\n", Stream::default()).await;
    let refused = connect(&connector(), &endpoint(&web, "secret")).await;
    assert!(matches!(refused, Err(ConnectError::Permanent(_))));
    let refused = connect(&connector(), &endpoint(&web, "wrong")).await;
    match refused {
        Err(ConnectError::Unauthorized { challenge }) => {
            assert_eq!(challenge.as_deref(), Some("Bearer scope=\"x\""));
        }
        other => panic!("{:?}", other.err()),
    }
}
