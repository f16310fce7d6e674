//! The handshake: determines the protocol era and the capabilities of an upstream.
//!
//! A modern server answers `server/discover`. Any other reaction, short of a lost connection, leads to
//! `initialize`. Error codes do not help: legacy servers reject an unknown method in several ways, and
//! some do not respond.

use std::{sync::Arc, time::Duration};

use muster_core::json::{Raw, RawObject};
use muster_mcp::{
    param_headers::RoutingHeaders,
    version::{Era, LEGACY, MODERN, SERVER_INFO_KEY},
    wire::{RpcError, code},
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    error::TransportError,
    message::MessageWriter,
    peer::{ClientIdentity, ServerProfile, modern_meta},
    router::MessageRouter,
    transport::{OnDrop, RequestOptions, Transport},
};

const DISCOVER: &str = "server/discover";

/// The level of log messages that is requested from servers: all of them, which is what most servers send by default. A
/// higher level would drop messages that a client of the gateway may want.
const LOG_LEVEL: &str = "debug";

/// How long a server may take to set a level.
pub(crate) const LOG_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of a probe.
#[derive(Debug)]
pub(crate) enum ProbeResult {
    /// The upstream is modern.
    Modern(ServerProfile),
    /// The upstream needs the legacy handshake.
    Legacy,
}

/// Sends `server/discover`.
pub(crate) async fn probe(
    transport: &Transport,
    router: &Arc<MessageRouter>,
    identity: &ClientIdentity,
) -> Result<ProbeResult, TransportError> {
    let [mut version, ..] = MODERN;
    // A server may reject our newest version once and name another.
    for _ in 0..2 {
        let routing = RoutingHeaders::new(Some(version), DISCOVER, None, Vec::new());
        let options = RequestOptions {
            routing: matches!(transport, Transport::Http(_)).then_some(routing),
            on_drop: OnDrop::Leave,
            ..RequestOptions::default()
        };
        let result = transport.request(router, options, |id| {
            let meta = modern_meta(id, None, version, identity, &identity.capabilities).to_raw();
            MessageWriter::request(id, DISCOVER).raw("_meta", &meta).finish()
        });
        let error = match result.await {
            Ok(result) => return Ok(discovered(&result.load().await?)),
            Err(error) => error,
        };
        match error {
            TransportError::Unreachable(_)
            | TransportError::Lost(_)
            | TransportError::Insecure { .. }
            | TransportError::Unauthorized { .. }
            | TransportError::LoginFailed(_) => {
                return Err(error);
            }
            TransportError::Refused { error, .. } if error.code == code::UNSUPPORTED_VERSION => {
                match common_version(&error) {
                    Some(common) if common != version => version = common,
                    Some(_) | None => return Ok(ProbeResult::Legacy),
                }
            }
            TransportError::Refused { status: Some(status), error }
                if is_modern(status, error.code) =>
            {
                return Ok(ProbeResult::Modern(ServerProfile {
                    era: Era::Modern,
                    version: version.to_owned(),
                    capabilities: None,
                    instructions: None,
                    server_info: None,
                }));
            }
            TransportError::Refused { .. }
            | TransportError::Status { .. }
            | TransportError::SessionGone { .. }
            | TransportError::Invalid(_) => return Ok(ProbeResult::Legacy),
        }
    }
    Ok(ProbeResult::Legacy)
}

/// Whether only a modern server responds with this error.
const fn is_modern(status: u16, error: i64) -> bool {
    match status {
        404 if error == code::METHOD_NOT_FOUND => true,
        400 | 404 | 405 => matches!(error, code::HEADER_MISMATCH | code::MISSING_CAPABILITY),
        _ => false,
    }
}

/// The newest version that both sides support, from the versions that an error names.
fn common_version(error: &RpcError) -> Option<&'static str> {
    let data = error.data.as_deref().and_then(RawObject::parse)?;
    newest_of(&MODERN, data.get("supported")?)
}

fn newest_of(ours: &[&'static str], theirs: &RawValue) -> Option<&'static str> {
    let theirs: Vec<String> = serde_json::from_str(theirs.get()).unwrap_or_default();
    ours.iter().copied().find(|version| theirs.iter().any(|other| other == version))
}

/// Reads the result of `server/discover`. A server that supports legacy versions only needs the legacy handshake.
fn discovered(result: &RawValue) -> ProbeResult {
    let result = RawObject::parse(result).unwrap_or_default();
    let version = result.get("supportedVersions").and_then(|all| newest_of(&MODERN, all));
    let Some(version) = version else { return ProbeResult::Legacy };
    ProbeResult::Modern(ServerProfile {
        era: Era::Modern,
        version: version.to_owned(),
        capabilities: Some(capabilities(&result)),
        instructions: result.get_text("instructions"),
        server_info: result
            .get("_meta")
            .and_then(RawObject::parse)
            .and_then(|meta| meta.get(SERVER_INFO_KEY).map(ToOwned::to_owned)),
    })
}

fn capabilities(result: &RawObject<'_>) -> Raw {
    result.get("capabilities").map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned)
}

/// Performs the legacy handshake.
pub(crate) async fn legacy(
    transport: &Transport,
    router: &Arc<MessageRouter>,
    identity: &ClientIdentity,
) -> Result<ServerProfile, TransportError> {
    let result = match transport {
        Transport::Http(http) => http.initialize().await?,
        Transport::Duplex(_) => {
            let options = RequestOptions { on_drop: OnDrop::Leave, ..RequestOptions::default() };
            let result = transport.request(router, options, |id| initialize(id, identity)).await?;
            let result = result.load().await?;
            transport.notify(initialized()).await?;
            result
        }
    };
    let result = RawObject::parse(&result).unwrap_or_default();
    let Some(version) = result.get_text("protocolVersion") else {
        let what = "its answer to `initialize` names no protocol version";
        return Err(TransportError::Invalid(what.to_owned()));
    };
    if offers_log_messages(&result) {
        request_log_messages(transport, router).await;
    }
    Ok(ServerProfile {
        era: Era::Legacy,
        version,
        capabilities: Some(capabilities(&result)),
        instructions: result.get_text("instructions"),
        server_info: result.get("serverInfo").map(ToOwned::to_owned),
    })
}

/// Requests a server's log messages: some send none until a client has set a level. The clients of the gateway filter
/// them by their own levels.
async fn request_log_messages(transport: &Transport, router: &Arc<MessageRouter>) {
    if let Transport::Http(http) = transport {
        return http.request_log_messages().await;
    }
    let options = RequestOptions { on_drop: OnDrop::Leave, ..RequestOptions::default() };
    let asked = timeout(LOG_LEVEL_TIMEOUT, transport.request(router, options, set_level)).await;
    // Log messages are optional.
    if !matches!(asked, Ok(Ok(_))) {
        tracing::debug!(server = &*router.name, "it does not set a log level");
    }
}

/// Whether the result of `initialize` declares log messages.
pub(crate) fn offers_log_messages(result: &RawObject<'_>) -> bool {
    let capabilities = result.get("capabilities").and_then(RawObject::parse);
    capabilities.is_some_and(|capabilities| capabilities.get("logging").is_some())
}

/// The request for log messages.
pub(crate) fn set_level(id: u64) -> Vec<u8> {
    MessageWriter::request(id, "logging/setLevel").text("level", LOG_LEVEL).finish()
}

/// The first request of the legacy handshake.
pub(crate) fn initialize(id: u64, identity: &ClientIdentity) -> Vec<u8> {
    let [newest, ..] = LEGACY;
    MessageWriter::request(id, "initialize")
        .text("protocolVersion", newest)
        .raw("capabilities", &identity.capabilities)
        .raw("clientInfo", &identity.info)
        .finish()
}

/// The notification that completes the legacy handshake.
pub(crate) fn initialized() -> Vec<u8> {
    MessageWriter::notification("notifications/initialized").finish()
}
