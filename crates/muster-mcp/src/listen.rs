//! Word of changes: what a modern client subscribes to, and how a change reads on the wire.

use std::borrow::Cow;

use muster_core::{
    backend::ResourceOperation,
    client::Continuation,
    json::{Raw, RawObject, raw},
    request::{Change, ClientRequest, Request, ServerCapabilities},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    back::Back,
    model::invalid,
    server::{At, Server},
    version::SUBSCRIPTION_KEY,
    wire::{RpcError, code, notification_line},
};

/// The changes that a client wants to hear of.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a kind of change of its own in the protocol"
)]
pub(crate) struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_subscriptions: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Filter {
    /// Reads the parameters of `subscriptions/listen`.
    pub(crate) fn read(params: &RawObject<'_>) -> Result<Self, RpcError> {
        let Some(wanted) = params.get("notifications").and_then(RawObject::parse) else {
            return Err(invalid("`notifications` must be an object"));
        };
        let is_wanted = |key| wanted.get(key).is_some_and(|value| value.get() == "true");
        let uris = match wanted.get("resourceSubscriptions") {
            None => None,
            Some(uris) => Some(
                serde_json::from_str(uris.get())
                    .map_err(|_| invalid("`resourceSubscriptions` must be a list of addresses"))?,
            ),
        };
        Ok(Self {
            tools_list_changed: is_wanted("toolsListChanged"),
            prompts_list_changed: is_wanted("promptsListChanged"),
            resources_list_changed: is_wanted("resourcesListChanged"),
            resource_subscriptions: uris,
        })
    }

    /// The part of it that can be had.
    const fn of(mut self, offers: ServerCapabilities) -> Self {
        self.tools_list_changed &= offers.tools_change;
        self.prompts_list_changed &= offers.prompts;
        self.resources_list_changed &= offers.resources;
        self
    }

    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools_list_changed,
            Change::Prompts => self.prompts_list_changed,
            Change::Resources => self.resources_list_changed,
            Change::Resource { uri } => {
                self.resource_subscriptions.iter().flatten().any(|u| u == uri)
            }
            Change::ForOwner { change, .. } => self.wants(change),
        }
    }
}

/// Tells the client of changes until it leaves, takes the request back, or we leave.
pub(crate) async fn listen(
    server: &Server,
    at: &At<'_>,
    id: &RawValue,
    filter: Filter,
) -> Result<Raw, RpcError> {
    // Heard from here on, so that nothing between the acknowledgement and the first wait is missed.
    let mut changes = server.changes();
    let mut filter = filter.of(server.offers());
    let mut watching = Watching { server, at, uris: Vec::new() };
    for uri in filter.resource_subscriptions.take().into_iter().flatten() {
        watching.watch(uri).await;
    }
    if !watching.uris.is_empty() {
        filter.resource_subscriptions = Some(watching.uris.clone());
    }
    let (tag, owner) = (tag(id), at.caller.owner());
    if !tell(at.back, "notifications/subscriptions/acknowledged", acknowledged(&filter, &tag)).await
    {
        return Err(not_streamed());
    }
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = at.leaving.cancelled() => None,
        };
        let Some(change) = change else { break };
        let Some(change) = change.visible_to(&owner) else { continue };
        if filter.wants(change) && !tell(at.back, method(change), params(change, Some(&tag))).await
        {
            break;
        }
    }
    let mut result = RawObject::new();
    result.set("_meta", Cow::Owned(tag));
    Ok(result.to_raw())
}

fn not_streamed() -> RpcError {
    RpcError::new(code::INVALID_REQUEST, "Invalid Request: changes are told on a stream")
}

async fn tell(back: &Back, method: &str, params: Option<Raw>) -> bool {
    back.tell(notification_line(method, params.as_deref())).await
}

fn tag(id: &RawValue) -> Raw {
    let mut meta = RawObject::new();
    meta.set(SUBSCRIPTION_KEY, Cow::Borrowed(id));
    meta.to_raw()
}

fn acknowledged(filter: &Filter, tag: &RawValue) -> Option<Raw> {
    #[derive(Serialize)]
    struct Acknowledged<'a> {
        notifications: &'a Filter,
        _meta: &'a RawValue,
    }
    Some(raw(&Acknowledged { notifications: filter, _meta: tag }))
}

/// The notification of a change.
fn method(change: &Change) -> &'static str {
    match change {
        Change::Tools => "notifications/tools/list_changed",
        Change::Resources => "notifications/resources/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
        Change::Resource { .. } => "notifications/resources/updated",
        Change::ForOwner { change, .. } => method(change),
    }
}

fn params(change: &Change, tag: Option<&RawValue>) -> Option<Raw> {
    let mut params = RawObject::new();
    if let Change::Resource { uri } = change {
        params.set_value("uri", uri);
    }
    if let Some(tag) = tag {
        params.set("_meta", Cow::Borrowed(tag));
    }
    (!params.is_empty()).then(|| params.to_raw())
}

/// A change as a legacy client is told.
pub(crate) fn line(change: &Change) -> Vec<u8> {
    notification_line(method(change), params(change, None).as_deref())
}

/// The resources watched for one subscription. Dropping it ends the watch.
struct Watching<'a> {
    server: &'a Server,
    at: &'a At<'a>,
    uris: Vec<String>,
}

impl Watching<'_> {
    /// Watches one more, if the server behind can.
    async fn watch(&mut self, uri: String) {
        let request = Request::Resource(ResourceOperation::Subscribe { uri: uri.clone() });
        let asked = ClientRequest { request, meta: None, continuation: Continuation::default() };
        match self.server.ask(self.at, asked).await {
            Ok(_) => {
                self.server.watched().add(&uri);
                self.uris.push(uri);
            }
            Err(fault) => tracing::debug!("no word of {uri}: {fault}"),
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.server.unwatch(self.at.caller, std::mem::take(&mut self.uris));
    }
}
