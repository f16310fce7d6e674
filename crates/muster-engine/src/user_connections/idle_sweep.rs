//! Closes connections that are outdated, and those of idle owners.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::MissedTickBehavior};

use super::{IDLE_TIMEOUT, UserConnections, owner_connections::OwnerConnection};
use crate::view::View;

/// The interval of the sweep.
const SWEEP: Duration = Duration::from_secs(60);

pub(super) async fn sweep_idle(
    user_connections: Weak<UserConnections>,
    mut view: watch::Receiver<Arc<View>>,
) {
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut prefix = view.borrow().settings.aggregator.prefix().to_owned();
    loop {
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            _ = sweep.tick() => (),
        }
        let Some(user_connections) = user_connections.upgrade() else { return };
        let now = Arc::clone(&view.borrow_and_update());
        user_connections.close_outdated(&now);
        let next = now.settings.aggregator.prefix();
        if prefix != next {
            next.clone_into(&mut prefix);
            user_connections.all().iter().for_each(|own| own.rename(next));
        }
        user_connections.sweep();
    }
}

impl UserConnections {
    /// Closes connections to servers that are deleted or changed.
    fn close_outdated(&self, view: &View) {
        let keep = |link: &OwnerConnection| {
            view.servers.get(&link.server.name).is_some_and(|known| {
                known.status.needs_login
                    && known.status.generation == link.generation
                    && !known.server.spec.needs_restart(&link.server.spec)
            })
        };
        for own in self.all() {
            for server in own.outdated_servers(keep) {
                own.disconnect(&server, &self.deps.changes);
                own.reset_attempts(&server);
            }
        }
    }

    fn sweep(&self) {
        for own in self.all() {
            if own.used().elapsed() >= IDLE_TIMEOUT {
                tracing::debug!("closing the connections of an idle owner");
                self.close_owner(&own.owner);
            }
        }
    }
}
