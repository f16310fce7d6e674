//! Change notifications: the subscriptions of modern clients, and the encoding of changes.

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
    client_channel::ClientChannel,
    model::invalid,
    server::{RequestContext, Server},
    version::SUBSCRIPTION_KEY,
    wire::{RpcError, code, notification_line},
};

/// The changes that a client subscribes to.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the protocol has a flag for each kind of change"
)]
pub(crate) struct SubscriptionFilter {
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

impl SubscriptionFilter {
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

    /// The part of the filter that the server supports.
    const fn supported_by(mut self, capabilities: ServerCapabilities) -> Self {
        self.tools_list_changed &= capabilities.tools_change;
        self.prompts_list_changed &= capabilities.prompts;
        self.resources_list_changed &= capabilities.resources;
        self
    }

    fn matches(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools_list_changed,
            Change::Prompts => self.prompts_list_changed,
            Change::Resources => self.resources_list_changed,
            Change::Resource { uri } => {
                self.resource_subscriptions.iter().flatten().any(|u| u == uri)
            }
            Change::ForOwner { change, .. } => self.matches(change),
        }
    }
}

/// Notifies the client of changes until it disconnects or cancels the request, or until shutdown.
pub(crate) async fn listen(
    server: &Server,
    cx: &RequestContext<'_>,
    id: &RawValue,
    filter: SubscriptionFilter,
) -> Result<Raw, RpcError> {
    // Subscribe before the acknowledgement, so that no change after it is missed.
    let mut changes = server.changes();
    let mut filter = filter.supported_by(server.capabilities());
    let mut resources = ResourceSubscriptions { server, cx, uris: Vec::new() };
    for uri in filter.resource_subscriptions.take().into_iter().flatten() {
        resources.add(uri).await;
    }
    if !resources.uris.is_empty() {
        filter.resource_subscriptions = Some(resources.uris.clone());
    }
    let (tag, owner) = (tag(id), cx.caller.owner());
    if !notify(cx.channel, "notifications/subscriptions/acknowledged", acknowledged(&filter, &tag))
        .await
    {
        return Err(no_stream());
    }
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = cx.shutdown.cancelled() => None,
        };
        let Some(change) = change else { break };
        let Some(change) = change.visible_to(&owner) else { continue };
        if filter.matches(change)
            && !notify(cx.channel, method(change), params(change, Some(&tag))).await
        {
            break;
        }
    }
    let mut result = RawObject::new();
    result.set("_meta", Cow::Owned(tag));
    Ok(result.to_raw())
}

fn no_stream() -> RpcError {
    RpcError::new(code::INVALID_REQUEST, "Invalid Request: change notifications need a stream")
}

async fn notify(channel: &ClientChannel, method: &str, params: Option<Raw>) -> bool {
    channel.send(notification_line(method, params.as_deref())).await
}

fn tag(id: &RawValue) -> Raw {
    let mut meta = RawObject::new();
    meta.set(SUBSCRIPTION_KEY, Cow::Borrowed(id));
    meta.to_raw()
}

fn acknowledged(filter: &SubscriptionFilter, tag: &RawValue) -> Option<Raw> {
    #[derive(Serialize)]
    struct Acknowledged<'a> {
        notifications: &'a SubscriptionFilter,
        _meta: &'a RawValue,
    }
    Some(raw(&Acknowledged { notifications: filter, _meta: tag }))
}

/// The method that announces a change.
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

/// The notification of a change for a legacy client.
pub(crate) fn line(change: &Change) -> Vec<u8> {
    notification_line(method(change), params(change, None).as_deref())
}

/// The resource subscriptions of one request. Dropping it unsubscribes.
struct ResourceSubscriptions<'a> {
    server: &'a Server,
    cx: &'a RequestContext<'a>,
    uris: Vec<String>,
}

impl ResourceSubscriptions<'_> {
    /// Subscribes to a resource, if its upstream supports that.
    async fn add(&mut self, uri: String) {
        let request = Request::Resource(ResourceOperation::Subscribe { uri: uri.clone() });
        let request = ClientRequest { request, meta: None, continuation: Continuation::default() };
        match self.server.handle(self.cx, request).await {
            Ok(_) => {
                self.server.subscriptions().add(&uri);
                self.uris.push(uri);
            }
            Err(error) => tracing::debug!("no subscription to {uri}: {error}"),
        }
    }
}

impl Drop for ResourceSubscriptions<'_> {
    fn drop(&mut self) {
        self.server.unsubscribe(self.cx.caller, std::mem::take(&mut self.uris));
    }
}
