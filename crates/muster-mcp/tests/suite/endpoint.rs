//! What HTTP itself decides: paths, methods, types, names, sizes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use muster_core::{
    backend::BoxFuture,
    call::Caller,
    credentials::{Admission, Authenticator, Peer, Principal, WebPages},
};
use muster_mcp::http::{HealthResponse, HttpOptions};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::client::{call, modern, request, soon, start, start_with};

#[tokio::test]
async fn paths_and_methods() {
    let server = start().await;
    for (method, path, status) in [
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
        ("GET", "/mcp", 200),
        ("DELETE", "/mcp", 405),
        ("PUT", "/mcp", 405),
        ("GET", "/", 200),
        ("POST", "/sse", 405),
        ("GET", "/message", 405),
        ("POST", "/message", 404),
        ("GET", "/elsewhere", 404),
    ] {
        let reply = server.send(method, path, &[], "").await;
        assert_eq!(reply.status.as_u16(), status, "{method} {path}");
    }
    // A client of the protocol learns that there is no stream without a session.
    let stream = server.send("GET", "/mcp", &[("accept", "text/event-stream")], "").await;
    assert_eq!(stream.status.as_u16(), 405);
    let plain = server.send("GET", "/mcp", &[("accept", "*/*")], "").await;
    assert_eq!(plain.status.as_u16(), 200);
    assert!(plain.text().await.starts_with(": an MCP endpoint"));
    let health = server.send("GET", "/health", &[], "").await;
    assert_eq!(health.json().await, json!({"status": "ok"}));
    let lost = server.send("POST", "/mpc", &[], "").await.text().await;
    assert_eq!(lost, "not found\nhint: the MCP endpoint is at /mcp\n");
}

#[tokio::test]
async fn both_paths_serve_the_same() {
    let server = start().await;
    let message = request(1, "initialize", &json!({})).to_string();
    for path in ["/mcp", "/mcp/", "/"] {
        let reply = server.send("POST", path, &[], message.clone()).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        assert!(reply.header("mcp-session-id").starts_with("mcp-session-"), "{path}");
    }
}

#[tokio::test]
async fn content_types_are_parsed_leniently() {
    let server = start().await;
    let message = request(1, "initialize", &json!({})).to_string();
    for (headers, status) in [
        (vec![], 200),
        (vec![("content-type", "application/json; charset=utf-8")], 200),
        (vec![("content-type", "text/plain")], 415),
        (vec![("accept", "application/json")], 200),
        (vec![("accept", "*/*")], 200),
        (vec![("accept", "text/html")], 406),
    ] {
        let reply = server.send("POST", "/mcp", &headers, message.clone()).await;
        assert_eq!(reply.status.as_u16(), status, "{headers:?}");
    }
    let headers = [("accept", "text/event-stream")];
    let mut reply = server.send("POST", "/mcp", &headers, message).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.event().await.unwrap()["id"], 1);
    assert_eq!(reply.event().await, None);
}

#[tokio::test]
async fn malformed_messages_are_refused() {
    let server = start().await;
    for (body, code) in [
        ("nonsense", -32700),
        ("", -32700),
        ("\u{feff}{}", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("5", -32600),
        (r#"{"id":1}"#, -32600),
        (r#"{"id":null,"method":"ping"}"#, -32600),
    ] {
        let reply = server.send("POST", "/mcp", &[], body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        let answer = reply.json().await;
        assert_eq!(answer["error"]["code"], code, "{body}");
        assert_eq!(answer["id"], Value::Null);
    }
    let reply = server.send("POST", "/mcp", &[], vec![b'"', 0xff, b'"']).await;
    assert_eq!(reply.json().await["error"]["code"], -32700);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let server = start_with(HttpOptions {
        hosts: vec!["gate.example".to_owned()],
        ..HttpOptions::default()
    })
    .await;
    let message = request(1, "initialize", &json!({})).to_string();
    for (headers, status) in [
        (vec![("host", "localhost:1")], 200),
        (vec![("host", "gate.example")], 200),
        (vec![("host", "evil.example")], 403),
        (vec![("host", "localhost"), ("origin", "http://localhost:3000")], 200),
        (vec![("host", "localhost"), ("origin", "http://evil.example")], 403),
    ] {
        for (method, path) in [("POST", "/mcp"), ("GET", "/sse")] {
            let reply = server.send(method, path, &headers, message.clone()).await;
            assert_eq!(reply.status.as_u16(), status, "{headers:?} {path}");
            if status == 403 {
                assert_eq!(reply.json().await["error"]["code"], -32000);
            }
        }
    }
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let server = start_with(HttpOptions { max_body: 300, ..HttpOptions::default() }).await;
    let message =
        |size: usize| request(1, "initialize", &json!({"x": "y".repeat(size)})).to_string();
    let reply = server.send("POST", "/mcp", &[], message(10)).await;
    assert_eq!(reply.status, StatusCode::OK);
    let reply = server.send("POST", "/mcp", &[], message(300)).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(reply.text().await.contains("at most 300 bytes"));
}

#[tokio::test]
async fn a_slow_body_times_out() {
    let options = HttpOptions {
        body_limit: Duration::from_millis(50),
        pages: vec![Arc::new(Door)],
        ..HttpOptions::default()
    };
    let server = start_with(options).await;
    for path in ["/mcp", "/page"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: 10\r\n\r\n{{",
            server.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}

#[tokio::test]
async fn authentication_comes_first() {
    let options = HttpOptions {
        guard: Some(Arc::new(Door)),
        pages: vec![Arc::new(Door)],
        health: Arc::new(|| HealthResponse {
            status: StatusCode::SERVICE_UNAVAILABLE,
            body: muster_core::json::raw("bad"),
        }),
        ..HttpOptions::default()
    };
    let server = start_with(options).await;
    let message = request(1, "initialize", &json!({})).to_string();
    let reply = server.send("POST", "/mcp", &[], message.clone()).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(reply.header("www-authenticate"), "Bearer");
    let reply = server.send("POST", "/mcp", &[("authorization", "x")], message).await;
    assert_eq!(reply.status, StatusCode::OK);
    let health = server.send("GET", "/health", &[], "").await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(health.json().await, json!("bad"));
    // Whether it lives and whether it should get requests are two questions.
    let ready = server.send("GET", "/ready", &[], "").await;
    assert_eq!((ready.status, ready.json().await), (StatusCode::OK, json!({"status": "ok"})));
}

#[tokio::test]
async fn pages_need_no_token_but_our_host_name() {
    let pages: Vec<Arc<dyn WebPages>> = vec![Arc::new(Door)];
    let options = HttpOptions { guard: Some(Arc::new(Door)), pages, ..HttpOptions::default() };
    let server = start_with(options).await;
    let reply = server.send("POST", "/page?a=b", &[], "words").await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    assert_eq!(reply.text().await, "POST /page?a=b words true");
    let reply = server.send("GET", "/page", &[("origin", "https://evil.example")], "").await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    let reply = server.send("POST", "/page", &[], "x".repeat(70_000)).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn foreign_origins_only_where_allowed() {
    let origins = vec!["https://app.example".to_owned()];
    let guard: Arc<dyn Authenticator> = Arc::new(Door);
    let options = HttpOptions { origins, guard: Some(guard), ..HttpOptions::default() };
    let server = start_with(options).await;
    let asks = |origin| [("origin", origin), ("access-control-request-method", "POST")];
    let reply = server.send("OPTIONS", "/mcp", &asks("https://app.example"), "").await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert_eq!(reply.header("access-control-allow-origin"), "https://app.example");
    assert!(reply.header("access-control-allow-headers").contains("Authorization"));
    let reply = server.send("OPTIONS", "/mcp", &asks("https://evil.example"), "").await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    let reply = server.send("POST", "/mcp", &[("origin", "https://app.example")], "{}").await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(reply.header("access-control-allow-origin"), "https://app.example");
    assert!(reply.header("access-control-expose-headers").contains("WWW-Authenticate"));
}

/// Admits any token, and has one page.
#[derive(Debug)]
struct Door;

impl Authenticator for Door {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>> {
        Box::pin(async move {
            if headers.contains_key("authorization") {
                return Ok(Admission::of(Arc::new(Principal {
                    id: "i|s".into(),
                    issuer: "i".into(),
                    subject: "s".into(),
                    email: None,
                    name: None,
                    groups: Arc::new([]),
                    login: "l".into(),
                    identity: None,
                    client: None,
                })));
            }
            let refusal = Response::builder().status(401).header("www-authenticate", "Bearer");
            Err(refusal.body(Bytes::from_static(b"who are you?")).unwrap())
        })
    }

    fn still_admits<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

impl WebPages for Door {
    fn serves(&self, path: &str) -> bool {
        path == "/page"
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = String::from_utf8(body.to_vec()).unwrap();
            let text = format!("{} {} {body} {}", head.method, head.uri, peer.ip().is_loopback());
            Response::builder().status(202).body(text.into()).unwrap()
        })
    }
}

#[tokio::test]
async fn a_client_without_event_streams_gets_json() {
    let server = start().await;
    let params = modern(json!({"name": "progress"}));
    let headers = [
        ("accept", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "progress"),
    ];
    let reply = server.post(&headers, &request(1, "tools/call", &params)).await;
    assert_eq!(reply.json().await["result"]["content"][0]["text"], "done");
    let params = modern(json!({"notifications": {}}));
    let mut headers = headers;
    headers[2].1 = "subscriptions/listen";
    let reply = server.post(&headers, &request(1, "subscriptions/listen", &params)).await;
    assert_eq!(reply.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn silent_clients_do_not_keep_others_out() {
    let server = start_with(HttpOptions { max_connections: 4, ..HttpOptions::default() }).await;
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Some never send anything, others half of a head.
        if number % 2 == 0 {
            stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.unwrap();
        }
        silent.push(stream);
    }
    let health = soon(server.send("GET", "/health", &[], "")).await;
    assert_eq!(health.status, StatusCode::OK);
    let message = request(1, "initialize", &json!({})).to_string();
    let reply = soon(server.send("POST", "/mcp", &[], message)).await;
    assert_eq!(reply.status, StatusCode::OK);
    // The oldest made room.
    let closed = soon(silent.first_mut().unwrap().read(&mut [0; 8])).await;
    assert!(!closed.is_ok_and(|bytes| bytes > 0));
}

#[tokio::test]
async fn health_is_answered_when_every_connection_is_busy() {
    let server = start_with(HttpOptions { max_connections: 2, ..HttpOptions::default() }).await;
    let client = server.initialize(json!({})).await;
    let first = client.ask(2, "tools/call", call("talking")).await;
    let second = client.ask(3, "tools/call", call("talking")).await;
    assert_eq!((first.status, second.status), (StatusCode::OK, StatusCode::OK));
    let health = soon(server.send("GET", "/health", &[], "")).await;
    assert_eq!(health.json().await, json!({"status": "ok"}));
    let refused = soon(client.ask(1, "ping", json!({}))).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.header("retry-after"), "1");
    drop(second);
    let mut answered = false;
    for _ in 0..1000 {
        // The end of a stream is noticed when its connection is polled.
        answered = soon(client.ask(1, "ping", json!({}))).await.status == StatusCode::OK;
        if answered {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(answered);
}
