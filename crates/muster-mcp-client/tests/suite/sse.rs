//! HTTP+SSE, the transport of 2024-11-05.

use std::sync::{Arc, PoisonError};

use muster_core::{
    call::CallError,
    connect::{ConnectError, ConnectionEvent, Endpoint},
};
use tokio::sync::mpsc;

use super::{
    web::{Say, Seen, Web},
    world::{Fake, World, connect, connector},
};

#[expect(clippy::disallowed_types, reason = "the simplest there is for tests")]
type Mutex<T> = std::sync::Mutex<T>;
type Stream = Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>;

fn answer(seen: &Seen) -> Option<String> {
    let result = match () {
        () if seen.is("initialize") => {
            r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{}}"#
        }
        () if seen.is("tools/list") => r#"{"tools":[{"name":"t"},{"name":"bye"},{"name":"wait"}]}"#,
        () if seen.body.contains(r#""name":"t""#) => {
            r#"{"content":[ ],"big":12345678901234567890}"#
        }
        () => return None,
    };
    Some(format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n",
        seen.id()
    ))
}

async fn server(first: &'static str, stream: Stream) -> Web {
    Web::start(move |seen| {
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.header("authorization") != Some("Bearer secret") {
            return Say::Whole(401, "www-authenticate: Bearer scope=\"x\"\r\n", String::new());
        }
        if seen.method == "GET" {
            let (sender, events) = mpsc::unbounded_channel();
            sender.send(format!(": welcome\n\n{first}")).unwrap();
            *stream = Some(sender);
            return Say::Open(events);
        }
        assert_eq!(seen.path, "/messages?session=1");
        if seen.body.contains(r#""name":"bye""#) {
            *stream = None;
        } else if let (Some(stream), Some(answer)) = (&*stream, answer(seen)) {
            stream.send(answer).unwrap();
        }
        Say::Whole(202, "", "Accepted".to_owned())
    })
    .await
}

fn endpoint(web: &Web, password: &str) -> Endpoint {
    let headers = vec![("Authorization".to_owned(), format!("Bearer {password}"))];
    Endpoint::Sse { url: web.url.clone(), headers }
}

#[tokio::test]
async fn a_server_is_used_and_its_end_is_told() {
    let stream = Stream::default();
    let web = server("event: endpoint\ndata: /messages?session=1\n\n", Arc::clone(&stream)).await;
    let mut world = World::of(&endpoint(&web, "secret")).await;
    assert_eq!(world.listing.protocol, "2024-11-05");
    let client = Fake::able();
    let result = world.call(&client, "t", "{}").await;
    assert_eq!(result, r#"{"content":[ ],"big":12345678901234567890}"#);
    assert!(web.seen_of("server/discover").is_empty());
    assert_eq!(web.seen_of("notifications/initialized").len(), 1);
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
async fn messages_go_nowhere_else() {
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
