//! The legacy era of an upstream that speaks both.
//!
//! A server may ask legacy clients for input, and accept their subscriptions, in a legacy session only. So the
//! requests of legacy clients go through such a session where the upstream has one, while those of modern
//! clients stay modern. Both eras share the transport.

use std::{sync::Arc, time::Duration};

use muster_core::{backend::CallContext, connect::ProtocolEra};
use tokio::time::timeout;
use tracing::debug;

use super::UpstreamConnection;
use crate::{error::TransportError, peer::Peer};

/// How long an upstream may take to respond to `initialize` before it is considered modern only.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(5);

impl UpstreamConnection {
    /// The upstream in the era that the client of a request speaks.
    pub(super) async fn peer_for(&self, cx: CallContext<'_>) -> &Arc<Peer> {
        match cx.client.era() {
            Some(ProtocolEra::Legacy) => self.legacy_peer().await.unwrap_or(&self.peer),
            Some(ProtocolEra::Modern) | None => &self.peer,
        }
    }

    /// Returns the upstream in the legacy era, and begins the session on first use.
    pub(super) async fn legacy_peer(&self) -> Option<&Arc<Peer>> {
        let session = self.legacy.as_ref()?;
        let begun = session.get_or_try_init(|| Box::pin(self.begin_legacy_session())).await;
        begun.ok()?.as_ref()
    }

    /// Begins the session; `None` if the upstream has none. A temporary failure is an error, and the next request tries
    /// again.
    async fn begin_legacy_session(&self) -> Result<Option<Arc<Peer>>, TransportError> {
        let name = &*self.peer.router.name;
        let begun = timeout(INITIALIZE_TIMEOUT, self.peer.in_legacy_session()).await;
        let peer = match begun {
            Ok(Ok(Some(peer))) => Arc::new(peer),
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) if error.may_pass() => return Err(error),
            Ok(Err(error)) => {
                debug!(server = name, "it has no legacy sessions: {error}");
                return Ok(None);
            }
            Err(_) => {
                debug!(server = name, "no response to `initialize`");
                return Ok(None);
            }
        };
        debug!(server = name, "legacy clients use protocol {}", peer.profile.version);
        self.listen(&peer).await;
        Ok(Some(peer))
    }
}
