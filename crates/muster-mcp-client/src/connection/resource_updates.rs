//! Subscriptions to updates of single resources, by the mechanism of the era.

use std::{sync::Arc, time::Duration};

use muster_core::json::{Raw, RawObject};
use muster_mcp::{
    version::Era,
    wire::{RpcError, code},
};

use super::UpstreamConnection;
use crate::{
    error::TransportError,
    listing,
    peer::{OutgoingRequest, Peer},
    subscription::{self, MayHaveChanged},
    transport::Transport,
};

/// How long a modern server may take to acknowledge a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);

impl UpstreamConnection {
    /// Subscribes to a resource. If the upstream does not support that in the modern era, falls back to the legacy era.
    pub(super) async fn subscribe(
        &self,
        peer: &Arc<Peer>,
        uri: &str,
        request: OutgoingRequest<'_>,
    ) -> Result<Raw, TransportError> {
        let refusal = match peer.profile.era {
            Era::Legacy => return subscribe_session(peer, uri, request).await,
            Era::Modern => match self.subscribe_stream(peer, uri).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            },
        };
        match self.legacy_peer().await {
            Some(legacy) => subscribe_session(legacy, uri, request).await,
            None => Err(refusal),
        }
    }

    async fn subscribe_stream(&self, peer: &Arc<Peer>, uri: &str) -> Result<Raw, TransportError> {
        let empty = RawObject::new().to_raw();
        if self.subscriptions.lock().contains_key(uri) {
            return Ok(empty);
        }
        let refused =
            |message| Err(TransportError::refused(RpcError::new(code::INVALID_PARAMS, message)));
        if !peer.profile.has_capability("resources.subscribe") {
            return refused("the server has no subscriptions to resources".to_owned());
        }
        let changed = MayHaveChanged::Resource(uri.to_owned());
        let subscription = subscription::subscribe(peer, listing::resource_filter(uri), changed);
        let task = subscription.task.clone();
        match subscription.acknowledged(ACKNOWLEDGE_TIMEOUT).await {
            Ok(acknowledged) if subscription::covers(&acknowledged, uri) => (),
            Ok(_) => {
                task.abort();
                return refused(format!("the server sends no updates of `{uri}`"));
            }
            Err(error) => {
                task.abort();
                return Err(error);
            }
        }
        if let Some(other) = self.subscriptions.lock().insert(uri.to_owned(), task) {
            other.abort();
        }
        Ok(empty)
    }

    /// Ends a subscription in the era that it was made in.
    pub(super) async fn unsubscribe(
        &self,
        peer: &Arc<Peer>,
        uri: &str,
        request: OutgoingRequest<'_>,
    ) -> Result<Raw, TransportError> {
        if let Some(task) = self.subscriptions.lock().remove(uri) {
            task.abort();
            return Ok(RawObject::new().to_raw());
        }
        let legacy = match peer.profile.era {
            Era::Legacy => Some(peer),
            Era::Modern => {
                self.legacy.as_ref().and_then(|cell| cell.get()).and_then(Option::as_ref)
            }
        };
        let Some(legacy) = legacy else { return Ok(RawObject::new().to_raw()) };
        if let Transport::Http(http) = &legacy.transport {
            http.remove_subscription(uri);
        }
        legacy.request(request, |writer| writer.text("uri", uri)).await
    }
}

/// Subscribes in a legacy session.
async fn subscribe_session(
    peer: &Peer,
    uri: &str,
    request: OutgoingRequest<'_>,
) -> Result<Raw, TransportError> {
    let result = peer.request(request, |writer| writer.text("uri", uri)).await?;
    if let Transport::Http(http) = &peer.transport {
        http.add_subscription(uri);
    }
    Ok(result)
}
