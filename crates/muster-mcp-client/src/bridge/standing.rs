//! The stream on which a legacy server says what belongs to no request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Method;
use tokio::time::sleep;
use tracing::debug;

use super::{far::Far, session::Name, trouble::Trouble};
use crate::{http::EVENTS, response::Kind, sse::Stream};

const RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(3);

impl Far {
    /// Listens until the client leaves. A server that went away is tried again for as long: it is here
    /// that a restart is noticed while the client is silent.
    pub(super) async fn stand(self: Arc<Self>) {
        tokio::select! {
            () = self.listen() => (),
            () = self.session.left() => (),
        }
    }

    async fn listen(&self) {
        let mut failures = 0;
        loop {
            self.gate.opened().await;
            let name = self.session.name();
            match self.open(&name).await {
                Ok(mut stream) => {
                    failures = 0;
                    while let Ok(Some(event)) = stream.next().await {
                        if !event.data.is_empty() {
                            self.heard(event.data).await;
                        }
                    }
                }
                Err(Trouble::SessionGone) => match Box::pin(self.renew(&name)).await {
                    Ok(()) => continue,
                    Err(trouble) => debug!("no new session: {trouble}"),
                },
                Err(Trouble::Unreachable(reason) | Trouble::Broke(reason)) => {
                    debug!("no stream of events: {reason}");
                }
                Err(Trouble::Unauthorized { .. }) => debug!("no stream of events without a login"),
                // It has no such stream, and need not.
                Err(trouble) => return debug!("no stream of events: {trouble}"),
            }
            sleep(wait(failures)).await;
            failures += 1;
        }
    }

    async fn open(&self, name: &Name) -> Result<Stream, Trouble> {
        let mut request = self.new_request(Method::GET, EVENTS, Bytes::new());
        name.put(request.headers_mut());
        let sent = self.pool.try_send(request).await;
        let (response, sender) = sent.map_err(|(failure, _)| Trouble::after(&failure))?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            self.refused((response, sender), None, name.is_some()).await?;
            return Err(Trouble::Status(status));
        }
        match Kind::of(response.headers()) {
            Kind::Events => Ok(Stream::new(response.into_body())),
            Kind::Json => Err(Trouble::NoMessage("application/json".to_owned())),
            Kind::Other(kind) => Err(Trouble::NoMessage(kind)),
        }
    }
}

fn wait(failures: u32) -> Duration {
    RETRY.saturating_mul(2_u32.saturating_pow(failures.min(8))).min(LONGEST_RETRY)
}
