//! The spans that are exported, and when.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use muster_core::{
    call::Caller,
    observer::{CallStatus, FinishedCall, FinishedError, FinishedRequest, TraceSpan},
    protocol_request::{Network, ProtocolRequest},
    trace_context::SpanContext,
};
use muster_net::TrustStore;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinSet};

use super::{TraceExporter, TraceOptions, Tracer, pair};
use crate::fixture::{entry, finished};

fn tracer() -> (Tracer, TraceExporter) {
    tracer_to("http://localhost/v1/traces".to_owned())
}

fn tracer_to(url: String) -> (Tracer, TraceExporter) {
    let options = TraceOptions {
        url,
        headers: Vec::new(),
        version: "1",
        resource: BTreeMap::new(),
        ratio: 1.0,
    };
    pair(options, Arc::new(TrustStore::default()))
}

fn span() -> TraceSpan {
    let context = SpanContext { trace_id: [1; 16], span_id: [2; 8], sampled: true };
    TraceSpan { context, parent: None }
}

fn request(tool: &str) -> FinishedRequest {
    let call = finished(None, CallStatus::Ok, None);
    FinishedRequest {
        began: call.began,
        duration: Duration::from_millis(1),
        caller: Caller { session: Some("mcp-session-1".into()), ..Caller::local() },
        tool: tool.to_owned(),
        status: CallStatus::Ok,
        error: None,
        span: span(),
        protocol: None,
    }
}

/// The next span, and its attributes.
fn next(exporter: &mut TraceExporter) -> (Value, BTreeMap<String, Value>) {
    let span = exporter.spans.try_recv().unwrap();
    let pair = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap();
        (attribute["key"].as_str().unwrap().to_owned(), value.clone())
    };
    let attributes = span["attributes"].as_array().unwrap().iter().map(pair).collect();
    (span, attributes)
}

#[test]
fn spans_describe_the_requests_that_carry_a_call() {
    let (tracer, mut exporter) = tracer();
    let received = ProtocolRequest {
        id: Some("a-7".to_owned()),
        version: Some("2025-11-25".into()),
        network: Network::Pipe,
        server: None,
    };
    let protocol = Some(received);
    tracer.request(&FinishedRequest { protocol, ..request("call_tool") });
    let (_, found) = next(&mut exporter);
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "call_tool"),
        ("jsonrpc.request.id", "a-7"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        // A digest: the id is a secret.
        ("mcp.session.id", "93d80f00"),
        ("network.transport", "pipe"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), json!(value)));
    assert_eq!(found, BTreeMap::from(expected));

    let sent = ProtocolRequest {
        id: Some("3".to_owned()),
        version: None,
        network: Network::Http,
        server: Some(("example.com".to_owned(), 8443)),
    };
    let call = finished(Some(&entry("a", "x_a_t")), CallStatus::Ok, Some(1));
    tracer.call(&FinishedCall { sent: Some(sent), span: Some(span()), ..call });
    let (_, found) = next(&mut exporter);
    for (key, value) in [
        ("jsonrpc.request.id", "3"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("server.address", "example.com"),
        ("server.port", "8443"),
    ] {
        assert_eq!(found.get(key), Some(&json!(value)), "{key}");
    }
    assert!(!found.contains_key("mcp.protocol.version"));
}

#[test]
fn texts_of_clients_are_cut() {
    let (tracer, mut exporter) = tracer();
    let long = "ä".repeat(100_000);
    let error = Some(FinishedError { text: long.clone(), code: None });
    tracer.request(&FinishedRequest { error, status: CallStatus::Refused, ..request(&long) });
    let (span, _) = next(&mut exporter);
    assert!(span.to_string().len() < 4_000, "{}", span.to_string().len());
    assert_eq!(span["status"]["message"], "ä".repeat(1_000));
}

/// A collector that answers `answered` requests, and the number of spans of each request that it received.
fn collector(answered: usize) -> (String, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (counts, received) = mpsc::channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let length = head.to_lowercase();
            let length =
                length.split_once("content-length: ").unwrap().1.split_once('\r').unwrap().0;
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let spans =
                body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
            if number < answered {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                stream.write_all(answer.as_bytes()).unwrap();
            }
            held.push(stream);
            // The test may be over.
            let _delivered = counts.send(spans);
        }
    });
    (url, received)
}

#[tokio::test]
async fn what_is_left_is_exported_at_the_end() {
    let (url, received) = collector(usize::MAX);
    let (tracer, exporter) = tracer_to(url);
    let (stop, stopped) = oneshot::channel();
    tracer.request(&request("first"));
    let mut exporting = JoinSet::new();
    exporting.spawn(exporter.run(stopped));
    // The exporter has the first span, and waits for more.
    while tracer.spans.capacity() < tracer.spans.max_capacity() {
        tokio::task::yield_now().await;
    }
    drop(stop);
    tracer.request(&request("second"));
    exporting.join_next().await.unwrap().unwrap();
    assert_eq!(received.recv().unwrap(), 2);
}

#[tokio::test]
async fn a_collector_that_does_not_answer_does_not_delay_the_end() {
    let (url, received) = collector(0);
    let (tracer, exporter) = tracer_to(url);
    let (stop, stopped) = oneshot::channel();
    (0..super::MAX_BATCH).for_each(|_| tracer.request(&request("first")));
    let mut exporting = JoinSet::new();
    exporting.spawn(exporter.run(stopped));
    let received = tokio::task::spawn_blocking(move || received.recv().unwrap());
    assert_eq!(received.await.unwrap(), super::MAX_BATCH);
    let began = Instant::now();
    drop(stop);
    exporting.join_next().await.unwrap().unwrap();
    // Not the timeout of a request, which is ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn spans_that_the_collector_does_not_get_are_counted() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (tracer, exporter) = tracer_to(format!("http://{closed}/v1/traces"));
    (0..super::QUEUE + 3).for_each(|_| tracer.request(&request("a")));
    assert_eq!(tracer.lost(), 3, "the queue is full");
    let (stop, stopped) = oneshot::channel();
    drop(stop);
    exporter.run(stopped).await;
    assert_eq!(tracer.lost(), super::QUEUE as u64 + 3, "nobody listens");
}

#[tokio::test]
async fn the_exporter_ends_with_its_tracer() {
    let (url, received) = collector(usize::MAX);
    let (tracer, exporter) = tracer_to(url);
    let (_stop, stopped) = oneshot::channel();
    tracer.request(&request("last"));
    drop(tracer);
    exporter.run(stopped).await;
    assert_eq!(received.recv().unwrap(), 1);
}
