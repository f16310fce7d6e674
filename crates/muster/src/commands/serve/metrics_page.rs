//! `GET /metrics`: the metrics of the gateway, for Prometheus.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use muster_config::settings::MetricsAccess;
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::{Authenticator, Peer, WebPages},
};
use muster_engine::{engine::Engine, view::View};
use muster_gateway::dispatch::GatewaySnapshot;
use muster_mcp::http::ConnectionCounter;
use muster_mcp_client::OpenConnections;
use muster_telemetry::{
    Telemetry,
    metrics::{GatewayGauges, MetricsFormat},
};
use tokio::sync::watch;

const PATH: &str = "/metrics";

/// Determines the current role of a caller.
type Roles = dyn Fn(&Caller) -> Role + Send + Sync;

/// The metrics page, for operators and for the scrapers that `metrics` admits.
pub(super) struct MetricsPage {
    telemetry: Telemetry,
    access: MetricsAccess,
    guard: Arc<dyn Authenticator>,
    roles: Box<Roles>,
    view: watch::Receiver<Arc<View>>,
    state: watch::Receiver<Arc<GatewaySnapshot>>,
    connections: Arc<ConnectionCounter>,
    upstream: OpenConnections,
}

impl fmt::Debug for MetricsPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsPage")
    }
}

impl MetricsPage {
    pub(super) fn new(
        engine: &Engine,
        telemetry: Telemetry,
        access: &MetricsAccess,
        guard: Arc<dyn Authenticator>,
    ) -> Self {
        Self {
            telemetry,
            access: access.clone(),
            guard,
            roles: Box::new(engine.roles()),
            view: engine.view(),
            state: engine.state(),
            connections: Arc::default(),
            upstream: OpenConnections::default(),
        }
    }

    /// Sets the counters of the connections of clients and to servers.
    pub(super) fn counting(
        self,
        connections: Arc<ConnectionCounter>,
        upstream: OpenConnections,
    ) -> Self {
        Self { connections, upstream, ..self }
    }

    /// Refuses the request of a caller that may not read the metrics.
    async fn admit(&self, request: &Request<Bytes>, peer: &Peer) -> Result<(), Response<Bytes>> {
        if self.access.loopback && peer.ip().is_loopback() {
            return Ok(());
        }
        let admission = self.guard.authenticate(request.headers(), peer).await?;
        let is_named = |token: &Arc<str>| self.access.tokens.iter().any(|name| **name == **token);
        if admission.token.as_ref().is_some_and(is_named) {
            return Ok(());
        }
        match (self.roles)(&admission.caller(None)) {
            Role::Operator => Ok(()),
            Role::Agent => Err(reply(
                StatusCode::FORBIDDEN,
                "text/plain; charset=utf-8",
                "metrics are for operators. Name the scraper's token in `metrics.tokens` of config.yaml, or set \
                 `metrics.loopback: true` for every process on this machine\n",
            )),
        }
    }

    fn gauges(&self) -> GatewayGauges {
        let mut servers: BTreeMap<&'static str, usize> = BTreeMap::new();
        for server in self.view.borrow().servers.values() {
            *servers.entry(server.status.condition.as_str()).or_default() += 1;
        }
        let state = Arc::clone(&self.state.borrow());
        let tools = state
            .catalog
            .sources()
            .map(|source| (source.backend.to_string(), source.own_tools().len()));
        GatewayGauges {
            version: env!("CARGO_PKG_VERSION"),
            servers,
            tools: tools.collect(),
            sessions: self.connections.sessions(),
            connections: self.connections.open(),
            accepted: self.connections.accepted(),
            upstream_connections: self.upstream.count(),
        }
    }
}

impl WebPages for MetricsPage {
    fn serves(&self, path: &str) -> bool {
        path == PATH
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            if request.method() != Method::GET {
                let mut refusal = reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
                refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
                return refusal;
            }
            if let Err(refusal) = self.admit(&request, peer).await {
                return refusal;
            }
            let accept = request.headers().get(header::ACCEPT);
            let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
            let format = MetricsFormat::requested(accept);
            let page = self.telemetry.page(&self.gauges(), format);
            reply(StatusCode::OK, format.content_type(), page)
        })
    }
}

fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
