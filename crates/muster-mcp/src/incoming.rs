//! Received requests and their validation.

use std::sync::Arc;

use muster_core::{
    json::{Raw, RawObject},
    protocol_request::Network,
};
use serde_json::value::RawValue;

use crate::{
    client_channel::{ClientChannel, ClientState, Envelope, Outbox},
    headers::{Headers, name_param},
    log_level::LogLevel,
    model::{self, DecodedRequest, Method, invalid},
    server::RpcResponse,
    session::LegacySession,
    version::{self, Era, LOG_LEVEL_KEY},
    wire::{RpcError, code},
};

/// A received request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IncomingRequest<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// The headers that repeat its body; `None` for transports without headers.
    pub(crate) headers: Option<&'a Headers<'a>>,
}

/// A validated request.
#[derive(Debug)]
pub(crate) struct ValidRequest {
    pub(crate) id: Raw,
    pub(crate) era: Era,
    pub(crate) method: Method,
    pub(crate) request: DecodedRequest,
    /// The capabilities and the log level of a modern client.
    modern_client: Option<(Raw, Option<LogLevel>)>,
    /// The protocol version that it names.
    version: Option<&'static str>,
    network: Network,
}

impl ValidRequest {
    /// The channel to its client; `session` is the session of a legacy client.
    pub(crate) fn channel(
        &mut self,
        session: Option<&Arc<LegacySession>>,
        outbox: Outbox,
    ) -> ClientChannel {
        let client = match (self.modern_client.take(), session) {
            (None, Some(session)) => ClientState::Legacy(Arc::clone(session)),
            (Some((capabilities, log_level)), _) => ClientState::Modern { capabilities, log_level },
            (None, None) => ClientState::Modern { capabilities: model::empty(), log_level: None },
        };
        let envelope =
            Envelope { id: self.id.clone(), version: self.version, network: self.network };
        ClientChannel::new(client, outbox, envelope)
    }
}

impl IncomingRequest<'_> {
    /// Validates a request. Clients rely on the order of the checks.
    pub(crate) fn validate(self) -> Result<ValidRequest, RpcResponse> {
        let IncomingRequest { id, method, params: raw, headers } = self;
        let raw = raw.filter(|raw| raw.get() != "null");
        let params = raw.map_or_else(|| Some(RawObject::new()), RawObject::parse);
        let is_object = params.is_some();
        let params = params.unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let era = Era::of_request(method, &meta, headers);
        let validated = || {
            let version = match era {
                Era::Legacy => version::legacy(headers),
                Era::Modern => Some(version::check(&meta, headers)?),
            };
            if era == Era::Modern {
                headers.map_or(Ok(()), |headers| headers.check_method(method))?;
            }
            let known = Method::of(era, method).ok_or_else(|| unknown_method(method))?;
            if !is_object {
                return Err(invalid("`params` must be an object"));
            }
            if era == Era::Modern
                && let Some(headers) = headers
                && let Some(name) = name_param(method).and_then(|key| params.get_text(key))
            {
                headers.check_name(&name)?;
            }
            let modern_client = match era {
                Era::Legacy => None,
                Era::Modern => Some((version::capabilities(&meta), log_level(&meta)?)),
            };
            let mut request = model::decode(known, &params, raw)?;
            if let Some(context) = headers.and_then(|headers| headers.traceparent) {
                request.trace_by_default(context);
            }
            Ok(ValidRequest {
                id: id.to_owned(),
                era,
                method: known,
                request,
                modern_client,
                version,
                network: headers.map_or(Network::Pipe, |_| Network::Http),
            })
        };
        validated().map_err(|error| RpcResponse::error(era, Some(id), error))
    }
}

fn log_level(meta: &RawObject<'_>) -> Result<Option<LogLevel>, RpcError> {
    let Some(level) = meta.get(LOG_LEVEL_KEY) else { return Ok(None) };
    let named = meta.get_text(LOG_LEVEL_KEY).and_then(|name| LogLevel::from_name(&name));
    named.map(Some).ok_or_else(|| invalid(&format!("`{LOG_LEVEL_KEY}` must not be {level}")))
}

fn unknown_method(method: &str) -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
}
