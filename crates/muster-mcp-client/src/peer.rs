//! An upstream after the handshake: its capabilities, and the requests to it.

use std::{borrow::Cow, sync::Arc};

use muster_core::{
    backend::CallContext,
    json::{Raw, RawObject, raw},
    protocol_request::{Network, ProtocolRequest, SentRequest},
    request::ServerInfo,
    text,
};
use muster_mcp::{
    param_headers::RoutingHeaders,
    version::{CAPABILITIES_KEY, CLIENT_INFO_KEY, Era, LOG_LEVEL_KEY, VERSION_KEY},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    error::TransportError,
    handshake,
    message::MessageWriter,
    pending::Requester,
    router::MessageRouter,
    spooled_result::ResultBody,
    transport::{OnDrop, RequestOptions, Transport},
};

/// The identity and the capabilities that the gateway declares to upstreams.
#[derive(Debug)]
pub(crate) struct ClientIdentity {
    /// Its name and version.
    pub(crate) info: Raw,
    /// The capabilities of requests without a client: all that a client may have, so that upstreams
    /// offer the tools that need them.
    pub(crate) capabilities: Raw,
}

impl ClientIdentity {
    /// An identity that declares no capabilities.
    pub(crate) fn without_capabilities(identity: &ServerInfo) -> Self {
        Self { info: info(identity), capabilities: RawObject::new().to_raw() }
    }

    pub(crate) fn new(identity: &ServerInfo) -> Self {
        #[derive(Serialize)]
        struct Nothing {}
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Roots {
            list_changed: bool,
        }
        #[derive(Serialize)]
        struct Elicitation {
            form: Nothing,
            url: Nothing,
        }
        #[derive(Serialize)]
        struct Capabilities {
            roots: Roots,
            sampling: Nothing,
            elicitation: Elicitation,
        }
        let capabilities = Capabilities {
            roots: Roots { list_changed: true },
            sampling: Nothing {},
            elicitation: Elicitation { form: Nothing {}, url: Nothing {} },
        };
        Self { info: info(identity), capabilities: raw(&capabilities) }
    }
}

fn info(identity: &ServerInfo) -> Raw {
    let mut info = RawObject::new();
    info.set_value("name", &identity.name);
    info.set_value("version", &identity.version);
    info.to_raw()
}

/// The identity and the capabilities that an upstream declared.
#[derive(Debug, Clone)]
pub(crate) struct ServerProfile {
    pub(crate) era: Era,
    /// The negotiated protocol version.
    pub(crate) version: String,
    /// Its capabilities: an object. `None` if it did not declare any.
    pub(crate) capabilities: Option<Raw>,
    pub(crate) instructions: Option<String>,
    /// Its name and version: an object.
    pub(crate) server_info: Option<Raw>,
}

impl ServerProfile {
    /// Whether it has a capability; a dot leads one level down. An upstream that did not declare any may have all.
    pub(crate) fn has_capability(&self, capability: &str) -> bool {
        let Some(capabilities) = &self.capabilities else { return true };
        has_capability(capabilities, capability)
    }
}

/// Whether a capability is declared; a dot leads one level down.
pub(crate) fn has_capability(capabilities: &RawValue, capability: &str) -> bool {
    let mut here = capabilities.to_owned();
    for key in capability.split('.') {
        let found =
            RawObject::parse(&here).and_then(|object| object.get(key).map(ToOwned::to_owned));
        match found {
            Some(value) if !matches!(value.get(), "null" | "false") => here = value,
            Some(_) | None => return false,
        }
    }
    true
}

/// An upstream after the handshake.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) router: Arc<MessageRouter>,
    pub(crate) transport: Transport,
    pub(crate) profile: ServerProfile,
    identity: Arc<ClientIdentity>,
    /// Whether it sends log messages on request.
    logs: bool,
}

/// A request without its parameters.
#[derive(Debug, Default)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) method: &'static str,
    /// The tool or prompt name, or the resource URI.
    pub(crate) name: Option<&'a str>,
    /// The headers that repeat arguments.
    pub(crate) headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The client's own `_meta`.
    pub(crate) meta: Option<&'a RawValue>,
    /// The client it is made for; `None` for the gateway's own requests.
    pub(crate) requester: Option<Arc<Requester>>,
    /// Receives the subscriptions that the upstream acknowledged.
    pub(crate) acknowledged: Option<oneshot::Sender<Raw>>,
    /// Receives the request as traces describe it.
    pub(crate) sent: Option<&'a SentRequest>,
}

impl OutgoingRequest<'_> {
    /// A request of the gateway itself.
    pub(crate) fn own(method: &'static str) -> Self {
        Self { method, ..Self::default() }
    }
}

/// The client of a call.
pub(crate) fn requester(cx: CallContext<'_>, meta: Option<&RawValue>) -> Arc<Requester> {
    let meta = meta.and_then(RawObject::parse).unwrap_or_default();
    Arc::new(Requester {
        client: Arc::clone(cx.client),
        subject: Arc::clone(&cx.caller.subject),
        progress_token: meta.get("progressToken").map(ToOwned::to_owned),
    })
}

impl Peer {
    pub(crate) fn new(
        router: Arc<MessageRouter>,
        transport: Transport,
        profile: ServerProfile,
        identity: Arc<ClientIdentity>,
    ) -> Self {
        let logs = profile.has_capability("logging");
        Self { router, transport, profile, identity, logs }
    }

    /// Returns a connection to this upstream in the legacy era; `None` if the upstream has no sessions there, because
    /// it could not ask for input without one.
    pub(crate) async fn in_legacy_session(&self) -> Result<Option<Self>, TransportError> {
        let Transport::Http(http) = &self.transport else { return Ok(None) };
        let profile = handshake::legacy(&self.transport, &self.router, &self.identity).await?;
        if !http.has_session() {
            return Ok(None);
        }
        let (router, transport) = (Arc::clone(&self.router), self.transport.clone());
        Ok(Some(Self::new(router, transport, profile, Arc::clone(&self.identity))))
    }

    /// Sends a request and loads its result into memory.
    pub(crate) async fn request(
        &self,
        request: OutgoingRequest<'_>,
        params: impl FnOnce(MessageWriter) -> MessageWriter,
    ) -> Result<Raw, TransportError> {
        self.send(request, params).await?.load().await
    }

    /// Sends a request; a long result stays on disk.
    pub(crate) async fn send(
        &self,
        request: OutgoingRequest<'_>,
        params: impl FnOnce(MessageWriter) -> MessageWriter,
    ) -> Result<ResultBody, TransportError> {
        let OutgoingRequest { method, name, headers, meta, requester, acknowledged, sent } =
            request;
        let client = requester.as_ref().map(|requester| Arc::clone(&requester.client));
        let logs = requester.is_some() && self.logs;
        let write = |id| {
            if let Some(sent) = sent {
                sent.record(self.described(id));
            }
            let writer = params(MessageWriter::request(id, method));
            let meta = match self.profile.era {
                Era::Legacy => legacy_meta(id, meta),
                Era::Modern => {
                    let capabilities = client.map(|client| client.capabilities());
                    let capabilities =
                        capabilities.as_deref().unwrap_or(&self.identity.capabilities);
                    let mut meta =
                        modern_meta(id, meta, &self.profile.version, &self.identity, capabilities);
                    if logs && meta.get(LOG_LEVEL_KEY).is_none() {
                        // The client's own level is applied when messages are delivered to it.
                        meta.set_value(LOG_LEVEL_KEY, "debug");
                    }
                    Some(meta.to_raw())
                }
            };
            writer.maybe("_meta", meta.as_deref()).finish()
        };
        let routing = match (self.profile.era, &self.transport) {
            (Era::Modern, Transport::Http(_)) => {
                Some(RoutingHeaders::new(Some(&self.profile.version), method, name, headers))
            }
            (Era::Legacy | Era::Modern, _) => None,
        };
        let options = RequestOptions { requester, acknowledged, routing, on_drop: OnDrop::Cancel };
        self.transport.request(&self.router, options, write).await
    }

    /// A request with this id, as traces describe it.
    fn described(&self, id: u64) -> ProtocolRequest {
        let url = self.transport.url();
        ProtocolRequest {
            id: Some(id.to_string()),
            // The upstream may have written anything.
            version: Some(Cow::Owned(text::shortened(&self.profile.version).into_owned())),
            network: url.map_or(Network::Pipe, |_| Network::Http),
            server: url.map(|url| (url.host().to_owned(), url.port())),
        }
    }
}

/// The `_meta` of a request to a legacy server: the client's, with our own progress token.
fn legacy_meta(id: u64, given: Option<&RawValue>) -> Option<Raw> {
    let mut meta = with_own_token(id, given);
    for key in [VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY] {
        meta.remove(key);
    }
    (!meta.is_empty()).then(|| meta.to_raw())
}

/// The `_meta` of a request to a modern server.
pub(crate) fn modern_meta<'a>(
    id: u64,
    given: Option<&'a RawValue>,
    version: &str,
    identity: &'a ClientIdentity,
    capabilities: &'a RawValue,
) -> RawObject<'a> {
    let mut meta = with_own_token(id, given);
    let nothing = RawObject::new();
    let capabilities = match RawObject::parse(capabilities) {
        Some(_) => Cow::Borrowed(capabilities),
        None => Cow::Owned(nothing.to_raw()),
    };
    for key in [VERSION_KEY, CLIENT_INFO_KEY, CAPABILITIES_KEY] {
        meta.remove(key);
    }
    meta.set_value(VERSION_KEY, version);
    meta.set(CLIENT_INFO_KEY, Cow::Borrowed(&*identity.info));
    meta.set(CAPABILITIES_KEY, capabilities);
    meta
}

/// Replaces the client's progress token by the id of our request: the tokens of two clients may be equal.
fn with_own_token(id: u64, given: Option<&RawValue>) -> RawObject<'_> {
    let mut meta = given.and_then(RawObject::parse).unwrap_or_default();
    if meta.get("progressToken").is_some() {
        meta.remove("progressToken");
        meta.set_value("progressToken", &id);
    }
    meta
}
