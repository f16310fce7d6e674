//! The connection of a gateway to its cluster.

use std::{sync::Arc, time::Duration};

use muster_config::kinds::DefinitionKind;
use muster_core::{backend::boxed, hex, secret_source::SecretSource};
use muster_engine::{
    events::EventJournal, execution_store::ExecutionStore, store::DefinitionStore,
};
use thiserror::Error;
use tokio::{sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::ClusterAccess,
    api::ApiClient,
    cache::ObjectCache,
    events::EventRecorder,
    executions::ClusterExecutions,
    leader::Candidate,
    reflector::{self, DefinitionMirror},
    secrets::KubeSecrets,
    status,
    store::{InvalidNamespace, KubeStore, check_namespace},
};

/// The timeout of the initial lists. It is long enough for an API server to restart.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of the last writes before shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// A kind could not be listed.
    #[error("cannot read {kind} in namespace `{namespace}`: {reason}")]
    Unread {
        /// The plural of the kind.
        kind: &'static str,
        /// The namespace.
        namespace: String,
        /// Why.
        reason: String,
    },
    /// The name of the namespace is invalid.
    #[error(transparent)]
    Namespace(#[from] InvalidNamespace),
    /// The system has no random numbers for the gateway's identity.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// The connection of a gateway to its cluster: definitions, leader election, Events.
#[derive(Debug)]
pub struct Cluster {
    api: Arc<ApiClient>,
    cache: Arc<ObjectCache>,
    store: Arc<KubeStore>,
    secrets: Arc<KubeSecrets>,
    executions: Arc<ClusterExecutions>,
    namespace: String,
    identity: String,
    leading: watch::Receiver<bool>,
    /// The candidate for leader, until the election begins.
    candidate: Option<Candidate>,
    tasks: TaskTracker,
    /// Ends the candidacy.
    end: CancellationToken,
    /// Ends all other tasks.
    stop: CancellationToken,
}

impl Cluster {
    /// Connects and waits until all definitions of the namespace have been listed. `host` is the name of the pod or
    /// machine.
    ///
    /// The gateway joins the leader election only after [`campaign`](Self::campaign).
    pub async fn connect(
        access: ClusterAccess,
        namespace: &str,
        host: &str,
    ) -> Result<Self, ClusterError> {
        check_namespace(namespace)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|_| ClusterError::NoRandomness)?;
        let identity = format!("{host}_{}", hex::encode(&random));
        let api = Arc::new(ApiClient::new(access));
        let cache = Arc::new(ObjectCache::new());
        let (tasks, end, stop) =
            (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let background = (tasks.clone(), stop.clone());
        let secrets = KubeSecrets::new(Arc::clone(&api), Arc::clone(&cache), namespace, background);
        let secrets = Arc::new(secrets);
        let (shared, known) = (Arc::clone(&api), Arc::clone(&cache));
        let store = Arc::new(KubeStore::new(shared, known, Arc::clone(&secrets), namespace));
        for kind in DefinitionKind::ALL {
            let mirror = DefinitionMirror { cache: Arc::clone(&cache), kind };
            let following = reflector::follow(Arc::clone(&api), mirror, store.collection(kind));
            tasks.spawn(boxed(until(stop.clone(), following)));
        }
        let executions = Arc::new(ClusterExecutions::new(Arc::clone(&api), namespace));
        tasks.spawn(boxed(until(stop.clone(), Arc::clone(&executions).follow())));
        if timeout(INITIAL_SYNC_TIMEOUT, cache.synced()).await.is_err()
            && let Some((kind, reason)) = cache.unread()
        {
            stop.cancel();
            let namespace = namespace.to_owned();
            return Err(ClusterError::Unread { kind: kind.plural(), namespace, reason });
        }
        let candidate = Candidate::new(Arc::clone(&api), namespace, &identity);
        let leading = candidate.leading();
        let statuses =
            status::keep(Arc::clone(&api), Arc::clone(&cache), Arc::clone(&store), leading.clone());
        tasks.spawn(boxed(until(stop.clone(), statuses)));
        tasks.spawn(boxed(Arc::clone(&executions).write(stop.clone())));
        let retention = Arc::clone(&executions).keep_up(leading.clone());
        tasks.spawn(boxed(until(stop.clone(), retention)));
        let (namespace, candidate) = (namespace.to_owned(), Some(candidate));
        Ok(Self {
            api,
            cache,
            store,
            secrets,
            executions,
            namespace,
            identity,
            leading,
            candidate,
            tasks,
            end,
            stop,
        })
    }

    /// Joins the leader election. A gateway that cannot serve must not: it would hold the lease without writing any
    /// status.
    pub fn campaign(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            self.tasks.spawn(boxed(candidate.run(self.end.clone())));
        }
    }

    /// The definitions of the namespace.
    pub fn definitions(&self) -> Arc<dyn DefinitionStore> {
        Arc::<KubeStore>::clone(&self.store)
    }

    /// The records of executions of all gateways of the namespace.
    pub fn executions(&self) -> Arc<dyn ExecutionStore> {
        Arc::<ClusterExecutions>::clone(&self.executions)
    }

    /// The Secrets that definitions refer to.
    pub fn secrets(&self) -> Arc<dyn SecretSource> {
        Arc::<KubeSecrets>::clone(&self.secrets)
    }

    /// Writes the events of the journal as Kubernetes Events.
    pub fn record_events(&self, journal: &EventJournal) {
        let recorder = EventRecorder::new(
            Arc::clone(&self.api),
            Arc::clone(&self.cache),
            (&self.namespace, &self.identity),
            self.leading.clone(),
        );
        self.tasks.spawn(boxed(until(self.stop.clone(), recorder.run(journal.follow()))));
    }

    /// Leaves the election, so that another gateway reports the state of servers: here they are about to be
    /// disconnected.
    pub fn resign(&self) {
        self.end.cancel();
    }

    /// Stops all tasks, after the last writes.
    pub async fn shut_down(self) {
        self.end.cancel();
        self.tasks.close();
        self.stop.cancel();
        if timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::debug!("{} tasks of the cluster did not end in time", self.tasks.len());
        }
    }
}

/// Runs until `stop` is cancelled.
async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => (),
        () = stop.cancelled() => (),
    }
}
