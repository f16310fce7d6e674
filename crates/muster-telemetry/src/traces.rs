//! Traces: spans of requests and calls, exported over OTLP/HTTP as JSON.
//!
//! Names and attributes follow the semantic conventions of OpenTelemetry for MCP and GenAI.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use muster_core::{
    catalog::WORKFLOWS_BACKEND,
    hex,
    observer::{CallStatus, FinishedCall, FinishedError, FinishedRequest, TraceSpan},
    protocol_request::{Network, ProtocolRequest},
    text::shortened,
    trace_context::SpanContext,
};
use muster_net::{AddressPolicy, HttpClient, HttpRequest, TrustStore};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

/// The spans that wait for the exporter.
const QUEUE: usize = 2_048;
/// The number of spans in one request.
const MAX_BATCH: usize = 512;
/// How long spans are collected.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest text of an error, in characters.
const MAX_MESSAGE: usize = 1_000;
/// The digits of a session's digest.
const SESSION_DIGITS: usize = 8;
/// How long an export may take once the gateway ends.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// The values of `kind` in OTLP.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// Where traces go, and how many.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The URL that spans are posted to.
    pub url: String,
    /// Headers of the requests, such as an API key.
    pub headers: Vec<(String, String)>,
    /// The version of the program.
    pub version: &'static str,
    /// What describes this process, such as `service.name`.
    pub resource: BTreeMap<String, String>,
    /// The part of traces that is recorded, from 0 to 1, if the client does not decide.
    pub ratio: f64,
}

/// Begins spans, and queues those that are over.
#[derive(Debug)]
pub(crate) struct Tracer {
    seed: u64,
    counter: AtomicU64,
    /// Traces whose id is below are recorded.
    threshold: u64,
    spans: mpsc::Sender<Value>,
    /// The spans that the collector did not get.
    lost: Arc<AtomicU64>,
}

/// Sends spans to a collector.
#[derive(Debug)]
pub struct TraceExporter {
    spans: mpsc::Receiver<Value>,
    options: TraceOptions,
    client: HttpClient,
    has_failed: bool,
    /// The spans that the collector did not get.
    lost: Arc<AtomicU64>,
}

/// A tracer, and the exporter of its spans.
pub(crate) fn pair(options: TraceOptions, trust: Arc<TrustStore>) -> (Tracer, TraceExporter) {
    let (spans, received) = mpsc::channel(QUEUE);
    let mut seed = [0; 8];
    if getrandom::fill(&mut seed).is_err() {
        tracing::debug!("the ids of spans repeat with every start: there is no randomness");
    }
    let ratio = options.ratio.clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a float above the range saturates"
    )]
    let threshold = (ratio * u64::MAX as f64) as u64;
    let seed = u64::from_le_bytes(seed);
    let lost = Arc::<AtomicU64>::default();
    let exporters = Arc::clone(&lost);
    let tracer = Tracer { seed, counter: AtomicU64::new(0), threshold, spans, lost };
    let client = HttpClient::new(trust);
    let exporter =
        TraceExporter { spans: received, options, client, has_failed: false, lost: exporters };
    (tracer, exporter)
}

impl Tracer {
    /// A new span below `parent`, or of a new trace. A client decides whether its trace is recorded.
    pub(crate) fn begin(&self, parent: Option<SpanContext>) -> SpanContext {
        let span_id = self.random().to_be_bytes();
        if let Some(parent) = parent {
            return SpanContext { span_id, ..parent };
        }
        let (high, low) = (self.random(), self.random());
        let trace_id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        SpanContext { trace_id, span_id, sampled: low <= self.threshold }
    }

    /// SplitMix64: distinct and well spread, without a system call. Ids are no secrets.
    fn random(&self) -> u64 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut number = self.seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)).max(1)
    }

    /// Queues the span of a call. Spans that find no place are dropped.
    pub(crate) fn call(&self, call: &FinishedCall) {
        let Some(span) = call.span.filter(|span| span.context.sampled) else { return };
        let entry = call.entry.as_ref();
        let kind = if entry.is_some_and(|entry| entry.is_upstream()) { CLIENT } else { INTERNAL };
        let tool = shortened(call.tool.as_str());
        let mut attributes = vec![
            text("mcp.method.name", "tools/call"),
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &tool),
            text("muster.status", call.status.as_str()),
            text("muster.surface", call.surface),
            number("muster.depth", call.caller.depth.into()),
            number("muster.result.size", call.result_bytes),
        ];
        if let Some(entry) = entry {
            attributes.push(text("muster.server", entry.backend.as_str().trim_end_matches('/')));
            let kind =
                if entry.backend.as_str() == WORKFLOWS_BACKEND { "workflow" } else { "function" };
            attributes.push(text("gen_ai.tool.type", kind));
        }
        if let Some(sent) = &call.sent {
            attributes.extend(of_protocol(sent));
        }
        let name = format!("tools/call {tool}");
        let time = (call.began, call.duration);
        let status = (call.status, call.error.as_ref());
        self.queue(span_json(span, &name, kind, time, status, attributes));
    }

    /// Queues the span of a client's request.
    pub(crate) fn request(&self, request: &FinishedRequest) {
        if !request.span.context.sampled {
            return;
        }
        let tool = shortened(&request.tool);
        let mut attributes = vec![
            text("mcp.method.name", "tools/call"),
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &tool),
        ];
        if let Some(received) = &request.protocol {
            attributes.extend(of_protocol(received));
        }
        if let Some(session) = &request.caller.session {
            attributes.push(text("mcp.session.id", &session_name(session)));
        }
        let name = format!("tools/call {tool}");
        let time = (request.began, request.duration);
        let status = (request.status, request.error.as_ref());
        self.queue(span_json(request.span, &name, SERVER, time, status, attributes));
    }

    fn queue(&self, span: Value) {
        if self.spans.try_send(span).is_err() {
            self.lose(1);
        }
    }

    /// Counts spans that the collector will not get.
    pub(crate) fn lose(&self, spans: u64) {
        self.lost.fetch_add(spans, Ordering::Relaxed);
    }

    /// The number of spans that the collector did not get.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn span_json(
    span: TraceSpan,
    name: &str,
    kind: u8,
    (began, duration): (SystemTime, Duration),
    (status, error): (CallStatus, Option<&FinishedError>),
    mut attributes: Vec<Value>,
) -> Value {
    let start = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = |time: Duration| time.as_nanos().to_string();
    let is_error = status.is_error();
    let message = error.map(|error| error.text.as_str()).unwrap_or_default();
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    if is_error {
        let code = error.and_then(|error| error.code).map(|code| code.to_string());
        let kind = match &code {
            Some(code) => code,
            None if status == CallStatus::Failed => "tool_error",
            None => status.as_str(),
        };
        attributes.push(text("error.type", kind));
        if let Some(code) = &code {
            attributes.push(text("rpc.response.status_code", code));
        }
    }
    let mut value = json!({
        "traceId": hex::encode(&span.context.trace_id),
        "spanId": hex::encode(&span.context.span_id),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": nanos(start),
        "endTimeUnixNano": nanos(start + duration),
        "attributes": attributes,
        "status": if is_error { json!({"code": 2, "message": message}) } else { json!({}) },
    });
    if let (Some(parent), Some(members)) = (span.parent, value.as_object_mut()) {
        members.insert("parentSpanId".to_owned(), hex::encode(&parent).into());
    }
    value
}

/// The attributes of the request that carried a call.
fn of_protocol(request: &ProtocolRequest) -> Vec<Value> {
    let ProtocolRequest { id, version, network, server } = request;
    let mut attributes = match network {
        Network::Pipe => vec![text("network.transport", "pipe")],
        Network::Http => vec![
            text("network.transport", "tcp"),
            text("network.protocol.name", "http"),
            text("network.protocol.version", "1.1"),
        ],
    };
    attributes.extend(id.as_ref().map(|id| text("jsonrpc.request.id", id)));
    attributes.extend(version.as_ref().map(|version| text("mcp.protocol.version", version)));
    if let Some((host, port)) = server {
        attributes.push(text("server.address", host));
        attributes.push(number("server.port", u64::from(*port)));
    }
    attributes
}

/// The name of a session in traces and in the log. Its id is a secret of its client.
fn session_name(id: &str) -> String {
    let mut name = hex::encode(&Sha256::digest(id));
    name.truncate(SESSION_DIGITS);
    name
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Whole numbers are texts in OTLP's JSON.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

impl TraceExporter {
    /// Exports spans until `stop`, and then those that are left.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let (mut batch, mut is_stopped) = (Vec::new(), false);
        while !is_stopped {
            tokio::select! {
                _ = &mut stop => break,
                received = self.spans.recv_many(&mut batch, MAX_BATCH) => {
                    if received == 0 {
                        return;
                    }
                }
            }
            let end = Instant::now() + INTERVAL;
            while batch.len() < MAX_BATCH && !is_stopped {
                let room = MAX_BATCH - batch.len();
                let more = self.spans.recv_many(&mut batch, room);
                tokio::select! {
                    _ = &mut stop => is_stopped = true,
                    more = timeout_at(end, more) => if !more.is_ok_and(|more| more > 0) {
                        break;
                    },
                }
            }
            if !is_stopped {
                is_stopped = self.send_until(std::mem::take(&mut batch), &mut stop).await;
            }
        }
        while let Ok(span) = self.spans.try_recv() {
            batch.push(span);
        }
        let last = async {
            for spans in batch.chunks(MAX_BATCH) {
                self.send(spans.to_vec()).await;
            }
        };
        drop(timeout(LAST_TIMEOUT, last).await);
    }

    /// Sends spans, and returns whether `stop` came meanwhile: then the collector has to answer soon.
    async fn send_until(&mut self, spans: Vec<Value>, stop: &mut oneshot::Receiver<()>) -> bool {
        let mut sending = pin!(self.send(spans));
        tokio::select! {
            () = &mut sending => false,
            _ = stop => {
                drop(timeout(LAST_TIMEOUT, sending).await);
                true
            }
        }
    }

    async fn send(&mut self, spans: Vec<Value>) {
        if spans.is_empty() {
            return;
        }
        let TraceOptions { url, headers, version, resource, .. } = &self.options;
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let resource: Vec<Value> = resource.iter().map(|(key, value)| text(key, value)).collect();
        let scope = json!({"name": "muster", "version": version});
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": resource},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }]});
        // An operator has configured the address.
        let policy = AddressPolicy::Unrestricted;
        let mut request = HttpRequest::post(url, policy, "application/json", body.to_string());
        for (name, value) in headers {
            if let Ok(name) = http::HeaderName::try_from(name) {
                request = request.header(name, value);
            }
        }
        let problem = match self.client.send(request).await {
            Ok(response) if response.status.is_success() => None,
            Ok(response) => Some(format!("it answered {}", response.status)),
            Err(error) => Some(error.to_string()),
        };
        match problem {
            None => {
                self.has_failed = false;
                return;
            }
            Some(problem) if !std::mem::replace(&mut self.has_failed, true) => {
                tracing::warn!("traces are not exported: {problem}");
            }
            Some(_) => (),
        }
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
