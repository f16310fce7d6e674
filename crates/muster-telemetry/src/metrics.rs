//! The metrics page, in the text formats of Prometheus and OpenMetrics.
//!
//! Every metric is a row of [`METRICS`], from which the page and its reference come.

use std::{collections::BTreeMap, fmt::Write as _, time::SystemTime};

use muster_core::observer::CallStatus;

use crate::{
    Telemetry,
    meters::{BOUNDS, CallCounts},
    process::ProcessUsage,
};

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, without the suffixes of its samples.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it measures.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number at one moment.
    Gauge,
    /// Durations by bucket.
    Histogram,
}

impl MetricKind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Makes [`METRICS`], and a constant for each row, so that no sample can have the name of no row.
macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(const $constant: Metric = Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every metric, in the order of the page.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD: Gauge "muster_build_info" ["version"] "Always 1; the version is a label";
    CALLS: Counter "muster_calls" ["server", "tool", "status"] "Calls that are over, by how they ended";
    DURATION: Histogram "muster_call_duration_seconds" ["server", "tool"] "Durations of calls that their server ran to the end";
    RESULT: Counter "muster_result_bytes" ["server", "tool"] "Bytes of results, as servers returned them";
    RUNNING: Gauge "muster_calls_running" ["server"] "Calls in progress";
    SERVERS: Gauge "muster_servers" ["state"] "MCP servers by state";
    TOOLS: Gauge "muster_server_tools" ["server"] "Tools that a server offers";
    SESSIONS: Gauge "muster_sessions" [] "Sessions of clients that began with `initialize`";
    CONNECTIONS: Gauge "muster_connections" [] "Open connections of clients";
    ACCEPTED: Counter "muster_connections_accepted" [] "Connections of clients that were accepted";
    UPSTREAM: Gauge "muster_upstream_connections" [] "Open HTTP connections to servers, in use or idle in a pool";
    QUEUED: Gauge "muster_history_queue" [] "Calls that are not yet in the history";
    DROPPED: Counter "muster_history_dropped" [] "Calls that are missing in the history, because its queue was full";
    LOST_SPANS: Counter "muster_spans_dropped" [] "Spans of recorded traces that the collector did not get";
    CPU: Counter "process_cpu_seconds" [] "CPU time of the gateway, without the programs it runs";
    RESIDENT: Gauge "process_resident_memory_bytes" [] "Resident memory of the gateway";
    VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Virtual memory of the gateway";
    THREADS: Gauge "process_threads" [] "Threads of the gateway";
    OPEN_FILES: Gauge "process_open_fds" [] "Open file descriptors";
    MAX_FILES: Gauge "process_max_fds" [] "The limit of open file descriptors";
    START: Gauge "process_start_time_seconds" [] "When the gateway started, in seconds since 1970";
}

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that an `Accept` header requests.
    pub fn requested(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What the metrics say about everything but calls.
#[derive(Debug, Clone, Default)]
pub struct GatewayGauges {
    /// The version of the program.
    pub version: &'static str,
    /// The number of MCP servers by state.
    pub servers: BTreeMap<&'static str, usize>,
    /// The number of tools by server.
    pub tools: BTreeMap<String, usize>,
    /// The sessions of clients.
    pub sessions: usize,
    /// The open connections of clients.
    pub connections: usize,
    /// The connections that were ever accepted.
    pub accepted: u64,
    /// The open HTTP connections to servers.
    pub upstream_connections: usize,
}

impl Telemetry {
    /// The page of all metrics.
    pub fn page(&self, gauges: &GatewayGauges, format: MetricsFormat) -> String {
        let mut page = Page { text: String::with_capacity(64 * 1024), format };
        page.begin(&BUILD);
        page.sample(&BUILD, "", &[gauges.version], 1);
        self.write_calls(&mut page);
        write_gateway(&mut page, gauges);
        let (queued, dropped) = self.backlog();
        page.one(&QUEUED, queued);
        page.one(&DROPPED, dropped);
        page.one(&LOST_SPANS, self.lost_spans());
        if let Some(usage) = ProcessUsage::read() {
            write_process(&mut page, &usage);
        }
        page.one(&START, seconds_since_epoch(self.started()));
        if format == MetricsFormat::OpenMetrics {
            page.text.push_str("# EOF\n");
        }
        page.text
    }

    fn write_calls(&self, page: &mut Page) {
        let servers = self.meters().servers();
        let rows = || {
            servers.iter().flat_map(|(server, counts)| {
                let tools = counts.tools.iter();
                tools.map(move |(tool, counts)| ([server.as_str(), tool.as_str()], counts))
            })
        };
        let unknown = self.meters().unknown();
        page.begin(&CALLS);
        for ([server, tool], counts) in rows().chain([(["", "other"], &unknown)]) {
            for status in CallStatus::ALL {
                let number = counts.ended(status);
                if number > 0 {
                    page.sample(&CALLS, "_total", &[server, tool, status.as_str()], number);
                }
            }
        }
        page.begin(&DURATION);
        let bounds = BOUNDS.iter().map(|micros| seconds(*micros)).chain(["+Inf".to_owned()]);
        let bounds: Vec<String> = bounds.collect();
        for (labels, counts) in rows().filter(|(_, counts)| counts.timed() > 0) {
            page.histogram(&bounds, labels, counts);
        }
        page.begin(&RESULT);
        for (labels, counts) in rows().filter(|(_, counts)| counts.result_bytes > 0) {
            page.sample(&RESULT, "_total", &labels, counts.result_bytes);
        }
        page.begin(&RUNNING);
        for (server, counts) in &servers {
            page.sample(&RUNNING, "", &[server.as_str()], counts.running);
        }
    }
}

fn write_gateway(page: &mut Page, gauges: &GatewayGauges) {
    page.begin(&SERVERS);
    for (state, number) in &gauges.servers {
        page.sample(&SERVERS, "", &[state], number);
    }
    page.begin(&TOOLS);
    for (server, number) in &gauges.tools {
        page.sample(&TOOLS, "", &[server], number);
    }
    page.one(&SESSIONS, gauges.sessions);
    page.one(&CONNECTIONS, gauges.connections);
    page.one(&ACCEPTED, gauges.accepted);
    page.one(&UPSTREAM, gauges.upstream_connections);
}

fn write_process(page: &mut Page, usage: &ProcessUsage) {
    page.one(&CPU, usage.cpu_seconds);
    page.one(&RESIDENT, usage.resident_bytes);
    page.one(&VIRTUAL, usage.virtual_bytes);
    page.one(&THREADS, usage.threads);
    page.one(&OPEN_FILES, usage.open_files);
    if let Some(most) = usage.max_files {
        page.one(&MAX_FILES, most);
    }
}

fn seconds_since_epoch(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64()
}

/// A page that is being written.
struct Page {
    text: String,
    format: MetricsFormat,
}

impl Page {
    /// Begins a metric. In the older format the name of a counter has its suffix here as well.
    fn begin(&mut self, metric: &Metric) {
        let Metric { name, kind, help, .. } = metric;
        let suffix = match (self.format, kind) {
            (MetricsFormat::Prometheus, MetricKind::Counter) => "_total",
            _ => "",
        };
        let kind = kind.as_str();
        self.push(format_args!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
    }

    /// A metric with one sample.
    fn one(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.begin(metric);
        let suffix = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        self.sample(metric, suffix, &[], value);
    }

    fn sample(
        &mut self,
        metric: &Metric,
        suffix: &str,
        values: &[&str],
        value: impl std::fmt::Display,
    ) {
        self.text.push_str(metric.name);
        self.text.push_str(suffix);
        self.labels(metric.labels.iter().copied().zip(values.iter().copied()));
        self.push(format_args!(" {value}\n"));
    }

    fn histogram(&mut self, bounds: &[String], labels: [&str; 2], counts: &CallCounts) {
        // All that the lines of the buckets have in common is written once, and then copied.
        let begin = self.text.len();
        self.text.push_str(DURATION.name);
        self.text.push_str("_bucket");
        self.labels(DURATION.labels.iter().copied().zip(labels));
        let line = self.text.split_off(begin);
        let line = line.trim_end_matches('}');
        let mut seen = 0;
        for (bound, number) in bounds.iter().zip(counts.buckets) {
            seen += number;
            self.push(format_args!("{line},le=\"{bound}\"}} {seen}\n"));
        }
        self.sample(&DURATION, "_sum", &labels, seconds(counts.micros));
        self.sample(&DURATION, "_count", &labels, seen);
    }

    fn labels<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut before = '{';
        for (name, value) in pairs {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    letter => self.text.push(letter),
                }
            }
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(text);
        debug_assert!(written.is_ok(), "formatting into text cannot fail");
    }
}

/// Microseconds as seconds, exactly.
fn seconds(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let digits = format!("{rest:06}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{}", if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests;
