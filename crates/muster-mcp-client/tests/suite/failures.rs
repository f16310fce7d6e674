//! Failures to connect, and lost connections over HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use muster_core::{
    call::{CallError, Outcome},
    connect::{
        ConnectError, ConnectRequest, ConnectionEvent, Connector as _, Endpoint, ProtocolEra,
    },
};
use tokio::io::AsyncWriteExt as _;

use super::{
    harness::{
        EventRecorder, FakeClient, Fixture, TestConnection, connect, connector, http, request,
    },
    http_server::{HttpServer, ReceivedRequest, Reply, legacy, modern},
};

async fn failure(endpoint: &Endpoint) -> ConnectError {
    connect(&connector(), endpoint).await.map(drop).unwrap_err()
}

#[track_caller]
fn permanent(error: ConnectError, expect: &str) {
    match error {
        ConnectError::Permanent(text) => assert!(text.contains(expect), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn transient(error: ConnectError, expect: &str) {
    match error {
        ConnectError::Transient(text) => assert!(text.contains(expect), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn stdio(command: &str, args: &[&str]) -> Endpoint {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Endpoint::Stdio { command: command.to_owned(), args, env: Vec::new(), inherit: Vec::new() }
}

#[tokio::test]
async fn commands_that_are_not_servers() {
    permanent(
        failure(&stdio("no-such-command-here", &[])).await,
        "`no-such-command-here` not found",
    );
    let dies = stdio("sh", &["-c", "echo no config >&2; exit 7"]);
    permanent(failure(&dies).await, "it exited with code 7: no config");
    permanent(failure(&stdio("true", &[])).await, "it exited with code 0");
}

#[tokio::test]
async fn urls_that_are_not_servers() {
    permanent(failure(&http("nonsense")).await, "the address of the server");
    let port = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    transient(failure(&http(&format!("http://127.0.0.1:{port}/mcp"))).await, "connection refused");
    let endpoint = Endpoint::Sse { url: format!("http://127.0.0.1:{port}/sse"), headers: vec![] };
    transient(failure(&endpoint).await, "connection refused");
    // What speaks no TLS will not speak it later.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let endpoint = http(&url);
    let (failure, _stream) = tokio::join!(failure(&endpoint), plain);
    match failure {
        ConnectError::Insecure { reason, certificate: None } => {
            assert!(reason.contains("no TLS"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn responses_that_are_not_messages() {
    let status = |status: u16| async move {
        let web = HttpServer::start(move |_| Reply::status(status)).await;
        failure(&http(&web.url)).await
    };
    permanent(status(404).await, "status 404");
    permanent(status(403).await, "status 403");
    permanent(status(307).await, "redirects (status 307)");
    transient(status(503).await, "status 503");
    transient(status(429).await, "status 429");
    let web = HttpServer::start(|_| {
        Reply::Document(200, "content-type: text/html\r\n", "<p>".to_owned())
    })
    .await;
    permanent(failure(&http(&web.url)).await, "`text/html`");
    let web = HttpServer::start(|_| Reply::Disconnect).await;
    transient(failure(&http(&web.url)).await, "the connection broke");
    let web = HttpServer::start(|request| Reply::result(request, "{}")).await;
    permanent(failure(&http(&web.url)).await, "names no protocol version");
}

#[tokio::test]
async fn a_login_is_required() {
    let web = HttpServer::start(|_| {
        Reply::Document(401, "www-authenticate: Bearer resource_metadata=\"u\"\r\n", String::new())
    })
    .await;
    match failure(&http(&web.url)).await {
        ConnectError::Unauthorized { challenge } => {
            assert_eq!(challenge.as_deref(), Some("Bearer resource_metadata=\"u\""));
        }
        other => panic!("{other:?}"),
    }
    let web = HttpServer::start(|request| {
        modern(request, |request| request.is("tools/call").then(|| Reply::status(401)))
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    let refused =
        world.run(&FakeClient::with_all_capabilities(), world.permit("t", "{}", None)).await;
    let Err(CallError::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, "authentication required (status 401)");
}

#[tokio::test]
async fn open_connections_are_counted() {
    let web = HttpServer::start(|request| modern(request, |_| None)).await;
    let connector = connector();
    let open = connector.open_connections();
    assert_eq!(open.count(), 0);
    let (connection, _) = connect(&connector, &http(&web.url)).await.unwrap();
    assert!(open.count() > 0, "the connection is idle in its pool");
    connection.close().await;
    drop(connection);
    connector.shut_down().await;
    assert_eq!(open.count(), 0);
}

#[tokio::test]
async fn the_era_is_detected_and_remembered() {
    let web = HttpServer::start(|request| legacy(request, |_| None)).await;
    let connector = connector();
    for _ in 0..2 {
        connect(&connector, &http(&web.url)).await.unwrap();
    }
    assert_eq!(web.requests_of("server/discover").len(), 1);
    let initialize = &web.requests_of("initialize")[0];
    assert_eq!(initialize.header("mcp-protocol-version"), None);
    assert!(initialize.body.contains(r#""protocolVersion":"2025-11-25""#));
    assert!(initialize.body.contains(
        r#""capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"muster","version":"1.0.0"}"#
    ));
    let initialized = &web.requests_of("notifications/initialized")[0];
    assert_eq!(initialized.header("mcp-session-id"), Some("s1"));
    assert_eq!(initialized.header("mcp-protocol-version"), Some("2025-06-18"));

    // A modern refusal is a modern server, whatever it refuses.
    let web = HttpServer::start(|request| {
        modern(request, |request| {
            let error = |code: i64| {
                let id = request.id();
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#)
            };
            let json = "content-type: application/json\r\n";
            match () {
                () if request.is("server/discover") => {
                    Some(Reply::Document(404, json, error(-32601)))
                }
                () if request.is("tools/list") => None,
                () => Some(Reply::Document(404, json, error(-32601))),
            }
        })
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    assert_eq!(world.listing.tools.len(), 1);
    assert_eq!(world.listing.protocol, "2026-07-28");
    assert!(web.requests_of("initialize").is_empty());
}

#[tokio::test]
async fn the_configuration_chooses_the_era() {
    // A server of both eras.
    let web = HttpServer::start(|request| match request.is("server/discover") {
        true => modern(request, |_| None),
        false if request.header("mcp-protocol-version") == Some("2026-07-28") => {
            modern(request, |_| None)
        }
        false => legacy(request, |_| None),
    })
    .await;
    let (connector, endpoint) = (connector(), http(&web.url));
    let protocol = async |era: Option<ProtocolEra>| {
        let (sender, _events) = tokio::sync::mpsc::unbounded_channel();
        let asked = request(&endpoint, None, Arc::new(EventRecorder(sender)));
        let connection = connector.connect(ConnectRequest { era, ..asked }).await.unwrap();
        connection.list().await.unwrap().protocol
    };
    assert_eq!(protocol(None).await, "2026-07-28");
    assert_eq!(protocol(Some(ProtocolEra::Legacy)).await, "2025-06-18");
    assert_eq!(protocol(Some(ProtocolEra::Modern)).await, "2026-07-28");
    // A choice that is withdrawn is not remembered.
    assert_eq!(protocol(Some(ProtocolEra::Legacy)).await, "2025-06-18");
    assert_eq!(protocol(None).await, "2026-07-28");

    let old = HttpServer::start(|request| legacy(request, |_| None)).await;
    let endpoint = http(&old.url);
    let (sender, _events) = tokio::sync::mpsc::unbounded_channel();
    let asked = request(&endpoint, None, Arc::new(EventRecorder(sender)));
    let asked = ConnectRequest { era: Some(ProtocolEra::Modern), ..asked };
    let refused = connector.connect(asked).await.unwrap_err();
    assert!(refused.to_string().contains("protocolEra"), "{refused}");
}

#[tokio::test]
async fn modern_requests_repeat_their_body_in_headers() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lists);
    let web = HttpServer::start(move |request| {
        modern(request, |request| {
            if request.is("tools/list") {
                // The header that a tool wants changes after the first listing.
                let header = if count.fetch_add(1, Ordering::Relaxed) == 0 { "Old" } else { "New" };
                let tool = format!(
                    r#"{{"name":"tö","inputSchema":{{"type":"object","properties":{{"r":{{"type":"string","x-mcp-header":"{header}"}}}}}}}}"#
                );
                let bad = r#"{"name":"bad","inputSchema":{"properties":{"r":{"type":"object","x-mcp-header":"R"}}}}"#;
                return Some(Reply::result(request, &format!(r#"{{"tools":[{tool},{bad}]}}"#)));
            }
            if !request.is("tools/call") {
                return None;
            }
            if request.header("mcp-param-new").is_none() {
                let id = request.id();
                let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"m"}}}}"#);
                return Some(Reply::Document(400, "content-type: application/json\r\n", error));
            }
            Some(Reply::result(request, "{}"))
        })
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    assert_eq!(world.listing.tools.len(), 1, "a tool that cannot be called is left out");
    let client = FakeClient::new(r#"{"sampling":{},"x":1.0}"#, &[]);
    let called = world.run(&client, world.permit("tö", r#"{"r":"eu"}"#, None)).await;
    assert!(matches!(called, Ok(Outcome::Raw(_))), "{called:?}");
    let calls = web.requests_of("tools/call");
    assert_eq!(calls.len(), 2);
    let call = &calls[1];
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("=?base64?dMO2?="));
    assert_eq!(call.header("mcp-param-new"), Some("eu"));
    assert_eq!(call.header("mcp-session-id"), None);
    assert!(
        call.body
            .contains(r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{},"x":1.0}"#)
    );
    assert!(
        call.body.contains(
            r#""io.modelcontextprotocol/clientInfo":{"name":"muster","version":"1.0.0"}"#
        )
    );
}

#[tokio::test]
async fn a_lost_session_is_replaced_and_the_call_repeated() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sessions);
    let web = HttpServer::start(move |request| {
        legacy(request, |request| {
            if request.is("initialize") {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let forgotten = count.load(Ordering::Relaxed) == 1;
            match () {
                () if !request.is("tools/call") => None,
                () if forgotten => Some(Reply::status(404)),
                () => Some(Reply::result(request, r#"{"content":[]}"#)),
            }
        })
    })
    .await;
    let mut world = TestConnection::of(&http(&web.url)).await;
    assert_eq!(
        world.call(&FakeClient::with_all_capabilities(), "t", "{}").await,
        r#"{"content":[]}"#
    );
    assert_eq!(sessions.load(Ordering::Relaxed), 2);
    assert!(matches!(world.event().await, ConnectionEvent::ListChanged));
}

#[tokio::test]
async fn log_messages_are_requested_in_every_session() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sessions);
    let server = |is_stateless: bool| {
        let count = Arc::clone(&count);
        HttpServer::start(move |request| {
            legacy(request, |request| match () {
                () if request.is("initialize") => {
                    count.fetch_add(1, Ordering::Relaxed);
                    let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}}}"#;
                    let body =
                        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.id());
                    let session = "content-type: application/json\r\nmcp-session-id: s1\r\n";
                    let stateless = "content-type: application/json\r\n";
                    Some(Reply::Document(200, if is_stateless { stateless } else { session }, body))
                }
                () if request.is("logging/setLevel") => Some(Reply::result(request, "{}")),
                () if !request.is("tools/call") => None,
                () if !is_stateless && count.load(Ordering::Relaxed) == 1 => {
                    Some(Reply::status(404))
                }
                () => Some(Reply::result(request, r#"{"content":[]}"#)),
            })
        })
    };
    let web = server(false).await;
    let world = TestConnection::of(&http(&web.url)).await;
    world.call(&FakeClient::with_all_capabilities(), "t", "{}").await;
    assert_eq!(sessions.load(Ordering::Relaxed), 2);
    assert_eq!(web.requests_of("logging/setLevel").len(), 2);
    let web = server(true).await;
    let world = TestConnection::of(&http(&web.url)).await;
    world.call(&FakeClient::with_all_capabilities(), "t", "{}").await;
    assert_eq!(web.requests_of("logging/setLevel").len(), 0);
}

#[tokio::test]
async fn a_broken_stream_is_resumed() {
    let web = HttpServer::start(|request| {
        legacy(request, |request| match () {
            () if request.is("tools/call") => {
                Some(Reply::Events(vec!["id: 7\nretry: 10\ndata: \n\n".to_owned()]))
            }
            () if request.header("last-event-id") == Some("7") => Some(Reply::Events(vec![
                // The id of a call is its place in the order of our requests.
                (1..20)
                    .map(|id| format!("id: 8\ndata: {{\"id\":{id},\"result\":{{\"n\":1}}}}\n\n"))
                    .collect(),
            ])),
            () => None,
        })
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    assert_eq!(world.call(&FakeClient::with_all_capabilities(), "t", "{}").await, r#"{"n":1}"#);
}

#[tokio::test]
async fn a_stream_without_a_response_is_an_error() {
    let web = HttpServer::start(|request| {
        modern(request, |request| {
            request.is("tools/call").then(|| Reply::Events(vec![": x\n\n".to_owned()]))
        })
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    let lost = world.run(&FakeClient::with_all_capabilities(), world.permit("t", "{}", None)).await;
    let Err(CallError::Unavailable { reason, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!(reason, "the stream ended before the answer");
}

#[tokio::test]
async fn a_server_killed_during_a_call_is_noticed() {
    let mut fixture = Fixture::start(&[]).await;
    let world = TestConnection::of(&http(&fixture.url)).await;
    let client = FakeClient::with_all_capabilities();
    let meta = r#"{"progressToken":"t"}"#;
    let call = world.run(&client, world.permit("slow_compute", r#"{"seconds":60}"#, Some(meta)));
    let kill = async {
        client.notified().await;
        fixture.kill();
    };
    let (lost, ()) = tokio::join!(call, kill);
    let Err(CallError::Unavailable { reason, .. }) = lost else { panic!("{lost:?}") };
    assert!(reason.contains("the stream broke off"), "{reason}");
    let refused = world.run(&client, world.permit("test_simple_text", "{}", None)).await;
    let Err(CallError::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("connection refused"), "{reason}");
}

/// A legacy server receives a notification; a modern one sees the end of the stream.
#[tokio::test]
async fn a_dropped_call_is_cancelled_over_http() {
    let nothing = |request: &ReceivedRequest| request.is("tools/call").then_some(Reply::Silence);
    let web = HttpServer::start(move |request| modern(request, nothing)).await;
    let world = TestConnection::of(&http(&web.url)).await;
    let client = FakeClient::with_all_capabilities();
    let call = world.run(&client, world.permit("t", "{}", None));
    tokio::select! {
        _ = call => panic!("nobody answers it"),
        _ = web.wait_for(|request| request.is("tools/call")) => (),
    }
    web.wait_for(|request| request.method == "CLOSED").await;
    assert!(web.requests_of("notifications/cancelled").is_empty());

    let web = HttpServer::start(move |request| legacy(request, nothing)).await;
    let world = TestConnection::of(&http(&web.url)).await;
    let call = world.run(&client, world.permit("t", "{}", None));
    tokio::select! {
        _ = call => panic!("nobody answers it"),
        _ = web.wait_for(|request| request.is("tools/call")) => (),
    }
    let cancelled = web.wait_for(|request| request.is("notifications/cancelled")).await;
    let id = web.requests_of("tools/call")[0].id();
    assert!(cancelled.body.contains(&format!(r#""requestId":{id}"#)), "{cancelled:?}");
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn connections_are_reused_and_replaced() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let web = HttpServer::start(move |request| {
        modern(request, |request| {
            request.is("tools/call").then(|| {
                count.fetch_add(1, Ordering::Relaxed);
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request.id());
                Reply::Document(
                    200,
                    "content-type: application/json\r\nconnection: close\r\n",
                    body,
                )
            })
        })
    })
    .await;
    let world = TestConnection::of(&http(&web.url)).await;
    for _ in 0..5 {
        world.call(&FakeClient::with_all_capabilities(), "t", "{}").await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), 5, "no call is made twice");
}

#[tokio::test]
async fn a_subscription_is_repeated() {
    let web = HttpServer::start(move |request| {
        modern(request, |request| match () {
            () if request.is("server/discover") => Some(Reply::result(
                request,
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#,
            )),
            () if request.is("subscriptions/listen") => {
                let id = request.id();
                let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
                Some(Reply::Events(vec![
                    format!("data: {{\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"notifications\":{{}},{meta}}}}}\n\n"),
                    format!("data: {{\"id\":{id},\"result\":{{}}}}\n\n"),
                ]))
            }
            () => None,
        })
    })
    .await;
    let mut world = TestConnection::of(&http(&web.url)).await;
    let listens = web.requests_of("subscriptions/listen");
    assert!(listens[0].body.contains(r#""notifications":{"toolsListChanged":true}"#));
    // What changed meanwhile is not known.
    assert!(matches!(world.event().await, ConnectionEvent::ListChanged));
    let first = listens[0].id();
    web.wait_for(|request| request.is("subscriptions/listen") && request.id() != first).await;
}
