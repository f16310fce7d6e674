//! Log lines for programs: one JSON object on each line.
//!
//! `timestamp`, `level`, `target` and `message` come first, then the fields of the event. A line that is written during
//! a traced call has the call's `trace_id` and `span_id`, so that logs and traces can be correlated.

use std::fmt;

use muster_core::json::RawObject;
use tracing::{
    Event, Level,
    field::{Field, Visit},
    span::Attributes,
};

/// The ids of a trace and of a span in it.
#[derive(Debug, Default)]
pub(super) struct TraceIds {
    trace: Option<String>,
    span: Option<String>,
}

impl TraceIds {
    /// Reads the ids from the fields of a new span.
    pub(super) fn of(attributes: &Attributes<'_>) -> Self {
        let mut found = Self::default();
        attributes.record(&mut found);
        found
    }
}

impl Visit for TraceIds {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            TRACE_ID => self.trace = Some(value.to_owned()),
            SPAN_ID => self.span = Some(value.to_owned()),
            _ => (),
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

const TRACE_ID: &str = "trace_id";
const SPAN_ID: &str = "span_id";

/// Formats an event as a line, with the ids of the trace that it was written in.
pub(super) fn line(event: &Event<'_>, within: Option<&TraceIds>) -> String {
    let metadata = event.metadata();
    let mut fields = Fields { message: String::new(), object: RawObject::new() };
    event.record(&mut fields);
    let mut object = RawObject::new();
    object.set_value("timestamp", &jiff::Timestamp::now().to_string());
    object.set_value("level", level(*metadata.level()));
    object.set_value("target", metadata.target());
    object.set_value("message", &fields.message);
    for (name, value) in fields.object.iter() {
        object.set_value(name, value);
    }
    // Keep ids that the event has itself: a line about a call has the span of the call.
    if let Some(TraceIds { trace: Some(trace), span: Some(span) }) = within
        && fields.object.get(TRACE_ID).is_none()
    {
        object.set_value(TRACE_ID, trace);
        object.set_value(SPAN_ID, span);
    }
    let mut line = String::from(Box::<str>::from(object.to_raw()));
    line.push('\n');
    line
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Collects the message and the fields of an event.
struct Fields {
    message: String,
    object: RawObject<'static>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.object.set_value(name, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.object.set_value(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.object.set_value(field.name(), &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.object.set_value(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.object.set_value(field.name(), &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
