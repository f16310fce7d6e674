//! Sets up the telemetry of a gateway from its settings and the environment.

use muster_core::backend::boxed;
use std::{collections::BTreeMap, path::Path, sync::Arc};

use muster_client::env_vars;
use muster_config::settings::{HistoryArguments, HistorySettings, Settings, TraceSettings};
use muster_net::TrustStore;
use muster_telemetry::{
    Telemetry,
    history::{self, HistoryOptions, KeptArguments},
    traces::TraceOptions,
};
use tokio::{sync::oneshot, task::JoinSet};

/// The path of traces below an OTLP endpoint.
const TRACES_PATH: &str = "/v1/traces";

/// The telemetry, and the export of its traces.
pub(super) struct GatewayTelemetry {
    pub(super) telemetry: Telemetry,
    exporting: JoinSet<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl GatewayTelemetry {
    /// Starts the telemetry. A history or traces that cannot be started do not prevent the gateway from running.
    pub(super) fn start(settings: &Settings, state: &Path, trust: TrustStore) -> Self {
        let history = history(&settings.history, state);
        let traces = traces(&settings.traces).map(|traces| (traces, Arc::new(trust)));
        let (telemetry, exporter) = Telemetry::start(history, traces).unwrap_or_else(|error| {
            tracing::warn!("neither a history of calls nor traces are kept: {error}");
            (Telemetry::default(), None)
        });
        let mut exporting = JoinSet::new();
        let stop = exporter.map(|exporter| {
            let (stop, stopped) = oneshot::channel();
            exporting.spawn(boxed(exporter.run(stopped)));
            stop
        });
        Self { telemetry, exporting, stop }
    }

    /// Flushes the telemetry and exports the remaining traces.
    pub(super) async fn finish(mut self) {
        self.telemetry.flush().await;
        drop(self.stop.take());
        while self.exporting.join_next().await.is_some() {}
    }
}

fn history(settings: &HistorySettings, state: &Path) -> Option<HistoryOptions> {
    settings.enabled.then(|| HistoryOptions {
        folder: state.join("calls"),
        max_bytes: u64::from(settings.max_size) * 1024 * 1024,
        max_age: history::days(settings.max_age),
        arguments: match settings.arguments {
            HistoryArguments::None => KeptArguments::Nothing,
            HistoryArguments::Redacted => KeptArguments::Redacted,
            HistoryArguments::Full => KeptArguments::Full,
        },
    })
}

fn traces(settings: &TraceSettings) -> Option<TraceOptions> {
    let configured = Some(settings.endpoint.clone()).filter(|endpoint| !endpoint.is_empty());
    let below = |base: String| format!("{}{TRACES_PATH}", base.trim_end_matches('/'));
    let url = env_vars::get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .or_else(|| env_vars::get("OTEL_EXPORTER_OTLP_ENDPOINT").map(below))
        .or_else(|| configured.map(below))?;
    let ratio = env_vars::get("OTEL_TRACES_SAMPLER_ARG").and_then(|ratio| ratio.parse().ok());
    Some(TraceOptions {
        url,
        headers: pairs(&env_vars::get("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default()),
        version: env!("CARGO_PKG_VERSION"),
        resource: resource(
            &env_vars::get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default(),
            env_vars::get("OTEL_SERVICE_NAME"),
        ),
        ratio: ratio.unwrap_or_else(|| f64::from(settings.sample_percent) / 100.0),
    })
}

/// The attributes of the OpenTelemetry resource: the defaults, overridden by those of the environment, overridden by
/// the variable with the service name.
fn resource(attributes: &str, service: Option<String>) -> BTreeMap<String, String> {
    let own = [("service.name", "muster"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let named = service.map(|name| ("service.name".to_owned(), name));
    own.into_iter().chain(pairs(attributes)).chain(named).collect()
}

/// Parses pairs such as `api-key=x,tenant=y`, with percent-encoded values.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        // The decoder is for forms: escape `+`, which is not a space here.
        let form = format!("v={}", value.trim().replace('+', "%2B").replace('&', "%26"));
        let value = form_urlencoded::parse(form.as_bytes()).next()?.1.into_owned();
        Some((name.trim().to_owned(), value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::{pairs, resource};

    #[test]
    fn pairs_of_the_environment() {
        let found = pairs("api-key=a%20b+c==, tenant = x&y,nothing");
        let expected = [("api-key", "a b+c=="), ("tenant", "x&y")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_variable_of_the_service_takes_precedence() {
        for (attributes, service, expected) in [
            ("", None, "muster"),
            ("service.name=edge,zone=a", None, "edge"),
            ("service.name=edge", Some("west"), "west"),
        ] {
            let resource = resource(attributes, service.map(str::to_owned));
            assert_eq!(resource["service.name"], expected, "{attributes}");
            assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
            assert_eq!(resource.contains_key("zone"), attributes.contains("zone"));
        }
    }
}
