//! `kubernetes: true`: reads definitions from the resources of a cluster.

use std::{sync::Arc, time::Duration};

use muster_config::settings::Settings;
use muster_core::secret_source::SecretSource;
use muster_engine::{
    engine::Engine,
    execution_store::ExecutionStore,
    store::{ConfigStore, Files},
};
#[cfg(feature = "kubernetes")]
use {
    crate::process,
    muster_client::env_vars,
    muster_config::kinds::DefinitionKind,
    muster_kube::{Cluster, ClusterAccess, ClusterEnvironment},
    std::path::PathBuf,
};

use crate::error::CommandError;

/// The interval of health checks of remote servers.
#[cfg(feature = "kubernetes")]
const CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The cluster of the gateway, if it has one.
pub(super) struct ClusterMode {
    #[cfg(feature = "kubernetes")]
    cluster: Option<Cluster>,
}

#[cfg(feature = "kubernetes")]
impl ClusterMode {
    /// Connects to the cluster, if the settings say so. Returns `None` if the process was asked to stop meanwhile.
    pub(super) async fn of(settings: &Settings) -> Result<Option<Self>, CommandError> {
        if !settings.kubernetes {
            return Ok(Some(Self { cluster: None }));
        }
        let namespace = settings.namespace();
        tracing::info!("definitions are resources in namespace `{namespace}`");
        let access = access().map_err(|error| {
            error.hint(
                "run it in a pod, set KUBECONFIG, or write `kubernetes: false` in config.yaml",
            )
        })?;
        let host = env_vars::get("HOSTNAME").unwrap_or_else(|| "muster".to_owned());
        let connected = tokio::select! {
            connected = Cluster::connect(access, namespace, &host) => connected,
            () = process::stop_requested() => {
                tracing::info!("stopped before the definitions were read");
                return Ok(None);
            }
        };
        let cluster = connected.map_err(|error| {
            CommandError::new(error.to_string())
                .hint("check the CustomResourceDefinitions and the rights of the gateway")
        })?;
        Ok(Some(Self { cluster: Some(cluster) }))
    }

    /// Returns the configuration, with the definitions of the cluster if there is one.
    pub(super) fn definitions(&self, store: ConfigStore, files: Files) -> (ConfigStore, Files) {
        match &self.cluster {
            None => (store, files),
            Some(cluster) => {
                warn_of_files(&store);
                let store = store.with_definitions(cluster.definitions());
                let files = store.load(&Files::default());
                (store, files)
            }
        }
    }

    /// The interval of health checks of servers. In a cluster they are checked, so that their status does not claim that
    /// a dead server is connected.
    pub(super) fn check_interval(&self) -> Option<Duration> {
        self.cluster.as_ref().map(|_| CHECK_INTERVAL)
    }

    /// The secrets of the cluster, used instead of those in files.
    pub(super) fn secrets(&self) -> Option<Arc<dyn SecretSource>> {
        self.cluster.as_ref().map(Cluster::secrets)
    }

    /// The records of executions in the cluster.
    pub(super) fn executions(&self) -> Option<Arc<dyn ExecutionStore>> {
        self.cluster.as_ref().map(Cluster::executions)
    }

    /// Starts to write Kubernetes Events, and to campaign for the lease of the gateway that writes statuses. Call it
    /// only once the gateway serves, because one that fails at its start must not hold the lease.
    pub(super) fn report(&mut self, engine: &Engine) {
        if let Some(cluster) = &mut self.cluster {
            cluster.record_events(engine.journal());
            cluster.campaign();
        }
    }

    /// Shuts the engine down. Resigns the lease on statuses first: this gateway is about to disconnect its servers,
    /// which the statuses must not report.
    pub(super) async fn shut_down(self, engine: Engine) {
        if let Some(cluster) = &self.cluster {
            cluster.resign();
        }
        engine.shut_down().await;
        if let Some(cluster) = self.cluster {
            cluster.shut_down().await;
        }
    }
}

/// The API server that the environment names.
#[cfg(feature = "kubernetes")]
pub(crate) fn access() -> Result<ClusterAccess, CommandError> {
    let environment = ClusterEnvironment {
        kubeconfig: env_vars::get("KUBECONFIG"),
        service_host: env_vars::get("KUBERNETES_SERVICE_HOST"),
        service_port: env_vars::get("KUBERNETES_SERVICE_PORT"),
        home: env_vars::get("HOME").map(PathBuf::from),
    };
    ClusterAccess::find(&environment).map_err(|error| CommandError::new(error.to_string()))
}

/// Warns about definitions in files, which are ignored in favour of the cluster's.
#[cfg(feature = "kubernetes")]
fn warn_of_files(store: &ConfigStore) {
    let files = store.definitions();
    let has_files = |kind: &DefinitionKind| {
        files.list(*kind).is_ok_and(|paths| paths.is_some_and(|paths| !paths.is_empty()))
    };
    let folders: Vec<&str> =
        DefinitionKind::ALL.into_iter().filter(has_files).map(DefinitionKind::folder).collect();
    if !folders.is_empty() {
        tracing::warn!(
            "the files in {} of {} are not read, because of `kubernetes: true`: copy them to the cluster with \
             `muster migrate kubernetes`",
            folders.join(", "),
            store.root().display()
        );
    }
}

#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_async, clippy::unused_self, reason = "the other build does something")]
impl ClusterMode {
    /// Refuses the setting, because this build has no support for Kubernetes.
    pub(super) async fn of(settings: &Settings) -> Result<Option<Self>, CommandError> {
        match settings.kubernetes {
            false => Ok(Some(Self {})),
            true => Err(CommandError::new("this build has no support for `kubernetes: true`")),
        }
    }

    /// Returns the configuration unchanged.
    pub(super) fn definitions(&self, store: ConfigStore, files: Files) -> (ConfigStore, Files) {
        (store, files)
    }

    /// Returns the default intervals.
    pub(super) fn check_interval(&self) -> Option<Duration> {
        None
    }

    /// Always `None`, because there is no cluster.
    pub(super) fn secrets(&self) -> Option<Arc<dyn SecretSource>> {
        None
    }

    /// Always `None`, because there is no cluster.
    pub(super) fn executions(&self) -> Option<Arc<dyn ExecutionStore>> {
        None
    }

    /// Does nothing.
    pub(super) fn report(&mut self, _: &Engine) {}

    /// Shuts the engine down.
    pub(super) async fn shut_down(self, engine: Engine) {
        engine.shut_down().await;
    }
}
