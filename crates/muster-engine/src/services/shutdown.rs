//! Stops all services at shutdown, dependents first.

use std::time::Duration;

use muster_workflow::service::order;
use tokio::{task::JoinSet, time::timeout};

use muster_core::backend::boxed;

use super::Services;

/// The timeout for stopping all services.
const LONGEST: Duration = Duration::from_secs(5);

impl Services {
    /// Stops services in groups, dependents first. From now on nothing is started.
    pub(crate) async fn end(&self) {
        self.inner.registry.send_modify(|registry| registry.shutting_down = true);
        let mut groups = order::start_order(&self.graph());
        groups.reverse();
        let all = async {
            for group in groups {
                let mut stopping = JoinSet::new();
                for name in group {
                    if self.get(&name).is_some_and(|instance| instance.state.may_run()) {
                        let services = self.clone();
                        stopping.spawn(boxed(async move { services.stop_own(&name).await }));
                    }
                }
                while stopping.join_next().await.is_some() {}
            }
        };
        if timeout(LONGEST, all).await.is_err() {
            tracing::warn!("not all services could be stopped in time");
        }
    }

    async fn stop_own(&self, name: &str) {
        if let Err(error) = self.stop(self.system(), name).await {
            tracing::warn!(service = name, "it was not stopped: {error}");
        }
    }
}
