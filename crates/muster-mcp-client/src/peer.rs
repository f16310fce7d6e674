//! A server that has introduced itself: what it can do, and how it is asked something.

use std::sync::Arc;

use muster_core::{
    backend::CallContext,
    json::{Raw, RawObject, raw},
    request::ServerInfo,
};
use muster_mcp::{
    param_headers::Mirrored,
    version::{CAPABILITIES_KEY, CLIENT_INFO_KEY, Era, LOG_LEVEL_KEY, VERSION_KEY},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    calls::Asker,
    failure::Failure,
    inbox::Inbox,
    link::{Link, Sending, WhenDropped},
    message::Writing,
    stored::Taken,
};

/// Who we say we are.
#[derive(Debug)]
pub(super) struct Me {
    /// Our name and version.
    pub(super) info: Raw,
    /// What is declared where no client is behind a request: all that a client may have, so that a
    /// server offers the tools that need it.
    pub(super) capabilities: Raw,
}

impl Me {
    /// One that declares nothing.
    pub(super) fn plain(identity: &ServerInfo) -> Self {
        Self { info: info(identity), capabilities: RawObject::new().to_raw() }
    }

    pub(super) fn new(identity: &ServerInfo) -> Self {
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

/// What a server said about itself.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) era: Era,
    /// The version of the protocol that is spoken with it.
    pub(super) version: String,
    /// Its capabilities: an object. None where it did not say.
    pub(super) capabilities: Option<Raw>,
    pub(super) instructions: Option<String>,
    /// Its name and version: an object.
    pub(super) server: Option<Raw>,
}

impl About {
    /// Whether it has a capability; a dot leads one level down. One that said nothing may have all.
    pub(super) fn can(&self, capability: &str) -> bool {
        let Some(capabilities) = &self.capabilities else { return true };
        can(capabilities, capability)
    }
}

/// Whether an object of capabilities has one; a dot leads one level down.
pub(super) fn can(capabilities: &RawValue, capability: &str) -> bool {
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

/// A server that has introduced itself.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) inbox: Arc<Inbox>,
    pub(super) link: Link,
    pub(super) about: About,
    me: Arc<Me>,
    /// Whether it has log lines to be asked for.
    logs: bool,
}

/// A request, but for its parameters.
#[derive(Debug, Default)]
pub(super) struct Want<'a> {
    pub(super) method: &'static str,
    /// What it is about: the name of a tool, the address of a resource.
    pub(super) name: Option<&'a str>,
    /// Arguments that a header repeats.
    pub(super) headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The client's own `_meta`.
    pub(super) meta: Option<&'a RawValue>,
    /// Whom it is made for.
    pub(super) asker: Option<Arc<Asker>>,
    /// Where it is told which subscriptions the server accepted.
    pub(super) accepted: Option<oneshot::Sender<Raw>>,
}

impl Want<'_> {
    /// A request of our own.
    pub(super) fn own(method: &'static str) -> Self {
        Self { method, ..Self::default() }
    }
}

/// Whom a request is made for.
pub(super) fn asker(cx: CallContext<'_>, meta: Option<&RawValue>) -> Arc<Asker> {
    let meta = meta.and_then(RawObject::parse).unwrap_or_default();
    Arc::new(Asker {
        client: Arc::clone(cx.client),
        subject: Arc::clone(&cx.caller.subject),
        token: meta.get("progressToken").map(ToOwned::to_owned),
    })
}

impl Peer {
    pub(super) fn new(inbox: Arc<Inbox>, link: Link, about: About, me: Arc<Me>) -> Self {
        let logs = about.can("logging");
        Self { inbox, link, about, me, logs }
    }

    /// Asks something and waits for the answer.
    pub(super) async fn request(
        &self,
        want: Want<'_>,
        params: impl FnOnce(Writing) -> Writing,
    ) -> Result<Raw, Failure> {
        self.ask(want, params).await?.load().await
    }

    /// The same, but a long answer stays where it is.
    pub(super) async fn ask(
        &self,
        want: Want<'_>,
        params: impl FnOnce(Writing) -> Writing,
    ) -> Result<Taken, Failure> {
        let Want { method, name, headers, meta, asker, accepted } = want;
        let capabilities = asker.as_ref().map(|asker| asker.client.capabilities());
        let logs = asker.is_some() && self.logs;
        let write = |id| {
            let writing = params(Writing::request(id, method));
            let meta = match self.about.era {
                Era::Legacy => legacy_meta(id, meta),
                Era::Modern => {
                    let capabilities = capabilities.as_deref().unwrap_or(&self.me.capabilities);
                    let mut meta =
                        modern_meta(id, meta, &self.about.version, &self.me, capabilities);
                    if logs && meta.get(LOG_LEVEL_KEY).is_none() {
                        // Which of them the client wants is for the client's side to say.
                        meta.set_value(LOG_LEVEL_KEY, "debug");
                    }
                    Some(meta.to_raw())
                }
            };
            writing.maybe("_meta", meta.as_deref()).finish()
        };
        let mirrored = match (self.about.era, &self.link) {
            (Era::Modern, Link::Http(_)) => {
                Some(Mirrored::new(&self.about.version, method, name, headers))
            }
            (Era::Legacy | Era::Modern, _) => None,
        };
        let sending = Sending { asker, accepted, mirrored, end: WhenDropped::Cancel };
        self.link.request(&self.inbox, sending, write).await
    }
}

/// What a request to a legacy server carries: what the client sent, with our own progress token.
fn legacy_meta(id: u64, given: Option<&RawValue>) -> Option<Raw> {
    let mut meta = with_own_token(id, given);
    for key in [VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY] {
        meta.remove(key);
    }
    (!meta.is_empty()).then(|| meta.to_raw())
}

/// What a request to a modern server carries besides.
pub(super) fn modern_meta<'a>(
    id: u64,
    given: Option<&'a RawValue>,
    version: &str,
    me: &'a Me,
    capabilities: &'a RawValue,
) -> RawObject<'a> {
    use std::borrow::Cow;

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
    meta.set(CLIENT_INFO_KEY, Cow::Borrowed(&*me.info));
    meta.set(CAPABILITIES_KEY, capabilities);
    meta
}

/// Progress is told to us by the id of our own request: the tokens of two clients may be equal.
fn with_own_token(id: u64, given: Option<&RawValue>) -> RawObject<'_> {
    let mut meta = given.and_then(RawObject::parse).unwrap_or_default();
    if meta.get("progressToken").is_some() {
        meta.remove("progressToken");
        meta.set_value("progressToken", &id);
    }
    meta
}
