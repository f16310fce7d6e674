use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    call::Caller,
    observer::{CallStatus, FinishedCall, FinishedError, FinishedRequest, TraceSpan},
    protocol_request::{Network, ProtocolRequest},
    trace_context::SpanContext,
};
use muster_net::TrustStore;
use serde_json::{Value, json};

use super::{TraceExporter, TraceOptions, Tracer, pair};
use crate::fixture::{entry, finished};

fn tracer() -> (Tracer, TraceExporter) {
    let options = TraceOptions {
        url: "http://localhost/v1/traces".to_owned(),
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
