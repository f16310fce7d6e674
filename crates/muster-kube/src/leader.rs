//! Leader election by a Lease: only one of several gateways writes statuses and shared Events.
//!
//! A candidate takes a lease of another gateway after the lease has not changed for its duration. The candidate
//! measures that time itself: the clocks of two machines are never compared.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::api::{ApiClient, ApiError};

/// The name of the lease.
pub(crate) const LEASE: &str = "muster-status";
/// How long a lease is valid without renewal.
const DURATION: Duration = Duration::from_secs(15);
/// The interval at which the leader renews the lease, and at which other candidates read it.
const INTERVAL: Duration = Duration::from_secs(4);
/// How long a leader that cannot renew the lease goes on leading: shorter than the lease, so that there are never two.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The timeout of releasing the lease at shutdown.
const RELEASE: Duration = Duration::from_secs(2);

/// A gateway that takes part in the election.
#[derive(Debug)]
pub(crate) struct Candidate {
    api: Arc<ApiClient>,
    namespace: String,
    identity: String,
    leading: watch::Sender<bool>,
    /// The version of another gateway's lease, and when it was first seen.
    observed: Option<(String, Instant)>,
    renewed: Instant,
}

impl Candidate {
    pub(crate) fn new(api: Arc<ApiClient>, namespace: &str, identity: &str) -> Self {
        Self {
            api,
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            leading: watch::channel(false).0,
            observed: None,
            renewed: Instant::now(),
        }
    }

    /// A receiver of whether this gateway leads.
    pub(crate) fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Takes part in the election until `end`, then releases the lease so that another candidate can take it at once.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let is_cut_off = loop {
            // Cut off a round that hangs: this gateway must not lead beyond `end`.
            if end.run_until_cancelled(self.take_part()).await.is_none() {
                break true;
            }
            // A leader must also wake up at its deadline.
            let pause = match *self.leading.borrow() {
                true => INTERVAL.min(self.left()),
                false => INTERVAL,
            };
            if end.run_until_cancelled(sleep(pause)).await.is_none() {
                break false;
            }
        };
        // A round that was cut off may have acquired the lease.
        if (self.leading.send_replace(false) || is_cut_off)
            && !matches!(timeout(RELEASE, self.release()).await, Ok(Ok(())))
        {
            tracing::debug!("the lease {LEASE} was not released");
        }
    }

    /// The time left until a leader must have renewed the lease.
    fn left(&self) -> Duration {
        RENEW_DEADLINE.saturating_sub(self.renewed.elapsed())
    }

    /// Runs one round of the election. It ends at the renewal deadline, so that a request that hangs cannot keep this
    /// gateway leading when another one does.
    async fn take_part(&mut self) {
        if self.left().is_zero() {
            self.lead(false);
        }
        // Count from before the request: other candidates count from when they see the renewal, which is later.
        let began = Instant::now();
        let round = match *self.leading.borrow() {
            true => self.left(),
            false => RENEW_DEADLINE,
        };
        let late = |_| Err(ApiError::Unavailable("the API server did not answer".to_owned()));
        match timeout(round, self.round()).await.unwrap_or_else(late) {
            Ok(true) => {
                self.renewed = began;
                self.lead(!self.left().is_zero());
            }
            Ok(false) | Err(ApiError::Conflict | ApiError::Exists) => self.lead(false),
            Err(error) => {
                tracing::warn!("cannot renew the lease {LEASE}: {error}");
                if self.left().is_zero() {
                    self.lead(false);
                }
            }
        }
    }

    fn lead(&self, leads: bool) {
        self.leading.send_if_modified(|leading| {
            let before = std::mem::replace(leading, leads);
            if before != leads {
                let now = if leads { "now" } else { "no longer" };
                tracing::info!("this gateway {now} writes statuses and events");
            }
            before != leads
        });
    }

    /// Renews the lease, or acquires it if it is free. Returns whether this gateway holds it now.
    async fn round(&mut self) -> Result<bool, ApiError> {
        let lease = match self.api.get(&self.path()).await {
            Ok(lease) => lease,
            Err(ApiError::NotFound) => {
                let lease = self.lease(None);
                self.api.create(&self.collection(), &lease).await?;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let text = |path: &str| lease.pointer(path).and_then(Json::as_str).unwrap_or_default();
        let (holder, version) = (text("/spec/holderIdentity"), text("/metadata/resourceVersion"));
        if holder != self.identity && !holder.is_empty() && !self.has_expired(version, &lease) {
            return Ok(false);
        }
        let next = self.lease(Some(&lease));
        self.api.replace(&self.path(), &next).await?;
        self.observed = None;
        Ok(true)
    }

    /// Whether another gateway's lease has not changed for its duration.
    fn has_expired(&mut self, version: &str, lease: &Json) -> bool {
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Json::as_u64);
        let duration = seconds.map_or(DURATION, Duration::from_secs);
        match &self.observed {
            Some((known, since)) if known == version => since.elapsed() >= duration,
            _ => {
                self.observed = Some((version.to_owned(), Instant::now()));
                false
            }
        }
    }

    /// The lease with this gateway as its holder.
    fn lease(&self, before: Option<&Json>) -> Json {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec = |key: &str| before.and_then(|lease| lease.pointer(&format!("/spec/{key}")));
        let is_ours = spec("holderIdentity").and_then(Json::as_str) == Some(&self.identity);
        let changes = spec("leaseTransitions").and_then(Json::as_u64).unwrap_or_default();
        let acquired = spec("acquireTime").filter(|_| is_ours).cloned();
        let mut lease = before.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": LEASE, "namespace": self.namespace},
            })
        });
        if let Json::Object(members) = &mut lease {
            let spec = json!({
                "holderIdentity": self.identity,
                "leaseDurationSeconds": DURATION.as_secs(),
                "acquireTime": acquired.unwrap_or_else(|| json!(now)),
                "renewTime": now,
                "leaseTransitions": changes + u64::from(before.is_some() && !is_ours),
            });
            members.insert("spec".to_owned(), spec);
        }
        lease
    }

    async fn release(&self) -> Result<(), ApiError> {
        let lease = self.api.get(&self.path()).await?;
        let holder = lease.pointer("/spec/holderIdentity").and_then(Json::as_str);
        if holder != Some(&self.identity) {
            return Ok(());
        }
        let mut next = lease;
        if let Some(holder) = next.pointer_mut("/spec/holderIdentity") {
            *holder = json!("");
        }
        self.api.replace(&self.path(), &next).await.map(drop)
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{LEASE}", self.collection())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use muster_core::lock::Lock;
    use serde_json::{Value as Json, json};
    use tokio::time::{Instant, sleep};
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::{Candidate, DURATION, INTERVAL, RENEW_DEADLINE};
    use crate::testing::{Answer, TestServer, api_that};

    /// The lease that the API server stores, and whether the server responds.
    #[derive(Default)]
    struct Stored {
        lease: Lock<Option<Json>>,
        hangs: AtomicBool,
    }

    impl Stored {
        /// Stores the lease with the next version.
        fn put(&self, mut lease: Json) -> Json {
            let mut stored = self.lease.lock();
            let before =
                stored.as_ref().map_or("0", |lease| text(lease, "/metadata/resourceVersion"));
            let next = before.parse::<u64>().unwrap() + 1;
            lease["metadata"]["resourceVersion"] = json!(next.to_string());
            *stored = Some(lease.clone());
            lease
        }

        fn holder(&self) -> String {
            let stored = self.lease.lock();
            stored.as_ref().map_or("", |lease| text(lease, "/spec/holderIdentity")).to_owned()
        }

        fn renewed_by_another(&self) {
            let spec = json!({"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 3});
            self.put(json!({"metadata": {"name": "muster-status"}, "spec": spec}));
        }
    }

    fn text<'a>(lease: &'a Json, path: &str) -> &'a str {
        lease.pointer(path).and_then(Json::as_str).unwrap_or_default()
    }

    /// A candidate whose API server stores this lease.
    async fn candidate(stored: &Arc<Stored>) -> (Candidate, TestServer) {
        let stored = Arc::clone(stored);
        let (api, server) = api_that(move |method, _, body| {
            if stored.hangs.load(Ordering::SeqCst) {
                return Answer::Silence;
            }
            let known = stored.lease.lock().clone();
            match (method, known) {
                ("GET", Some(lease)) => Answer::Reply(200, lease),
                ("GET", None) => Answer::Reply(404, json!({})),
                ("PUT", Some(lease))
                    if text(&lease, "/metadata/resourceVersion")
                        != text(body, "/metadata/resourceVersion") =>
                {
                    Answer::Reply(409, json!({"reason": "Conflict"}))
                }
                _ => Answer::Reply(200, stored.put(body.clone())),
            }
        })
        .await;
        (Candidate::new(api, "ns", "us"), server)
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_of_another_is_taken_when_it_was_not_renewed_for_its_duration() {
        let stored = Arc::<Stored>::default();
        stored.renewed_by_another();
        let (candidate, _server) = candidate(&stored).await;
        let (mut leading, end) = (candidate.leading(), CancellationToken::new());
        let running = TaskTracker::new().spawn(candidate.run(end.clone()));
        let renewals = async {
            sleep(DURATION - INTERVAL).await;
            stored.renewed_by_another();
            Instant::now()
        };
        let renewed = renewals.await;
        assert!(!*leading.borrow(), "it was renewed in time");
        leading.wait_for(|leads| *leads).await.unwrap();
        let waited = renewed.elapsed();
        assert!(waited >= DURATION, "taken after {waited:?}");
        assert!(waited <= DURATION + 3 * INTERVAL, "taken after {waited:?}");
        assert_eq!(stored.holder(), "us");
        let lease = stored.lease.lock().clone().unwrap();
        assert_eq!(lease.pointer("/spec/leaseTransitions"), Some(&json!(4)));
        end.cancel();
        running.await.unwrap();
        assert_eq!(stored.holder(), "", "it is released at the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_cannot_renew_no_longer_leads_at_its_deadline() {
        let stored = Arc::<Stored>::default();
        let (candidate, _server) = candidate(&stored).await;
        let (mut leading, end) = (candidate.leading(), CancellationToken::new());
        let running = TaskTracker::new().spawn(candidate.run(end.clone()));
        leading.wait_for(|leads| *leads).await.unwrap();
        let renewed = Instant::now();
        stored.hangs.store(true, Ordering::SeqCst);
        leading.wait_for(|leads| !*leads).await.unwrap();
        let led = renewed.elapsed();
        // Counted from the request, so before another gateway may lead.
        assert!(led <= RENEW_DEADLINE, "it led for {led:?}");
        assert!(led > RENEW_DEADLINE - Duration::from_secs(1), "it led for {led:?}");
        stored.hangs.store(false, Ordering::SeqCst);
        leading.wait_for(|leads| *leads).await.unwrap();
        end.cancel();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_ends_no_longer_leads_even_while_a_round_hangs() {
        let stored = Arc::<Stored>::default();
        let (candidate, _server) = candidate(&stored).await;
        let (mut leading, end) = (candidate.leading(), CancellationToken::new());
        let running = TaskTracker::new().spawn(candidate.run(end.clone()));
        leading.wait_for(|leads| *leads).await.unwrap();
        stored.hangs.store(true, Ordering::SeqCst);
        // The next round is under way then.
        sleep(INTERVAL + Duration::from_secs(1)).await;
        let ended = Instant::now();
        end.cancel();
        leading.wait_for(|leads| !*leads).await.unwrap();
        assert_eq!(ended.elapsed(), Duration::ZERO);
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_its_request() {
        let late = Duration::from_secs(6);
        let lease = json!({"metadata": {}, "spec": {"holderIdentity": "us"}});
        let (api, _server) = api_that(move |method, _, _| match method {
            "GET" => Answer::Reply(200, lease.clone()),
            _ => Answer::Late(late, lease.clone()),
        })
        .await;
        let mut candidate = Candidate::new(api, "ns", "us");
        candidate.take_part().await;
        assert!(*candidate.leading.borrow());
        assert_eq!(candidate.left(), RENEW_DEADLINE - late);
        // The next response would arrive after the deadline: the round does not wait for it.
        candidate.take_part().await;
        assert!(!*candidate.leading.borrow());
        assert_eq!(candidate.renewed.elapsed(), RENEW_DEADLINE);
    }
}
