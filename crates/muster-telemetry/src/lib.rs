//! The one observer of calls, and what is made of them.
//!
//! Counters are updated on the thread that served the call, by atomic operations alone, so that they are exact and
//! current.
//!
//! **Invariant:** nothing here knows what a tool does, and nothing else knows Prometheus.

pub mod meters;
pub mod metrics;
mod process;

#[cfg(test)]
mod fixture;

use std::{sync::Arc, time::SystemTime};

use muster_core::{
    catalog::ToolEntry,
    observer::{CallObserver, FinishedCall},
};

use self::meters::CallMeters;

/// The telemetry of a gateway. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    meters: CallMeters,
    started: SystemTime,
}

impl Default for Inner {
    fn default() -> Self {
        Self { meters: CallMeters::default(), started: SystemTime::now() }
    }
}

impl Telemetry {
    /// The counters of calls.
    pub fn meters(&self) -> &CallMeters {
        &self.inner.meters
    }

    /// When the gateway started.
    pub(crate) fn started(&self) -> SystemTime {
        self.inner.started
    }

    /// The observer for dispatchers.
    pub fn observer(&self) -> Arc<dyn CallObserver> {
        Arc::<Inner>::clone(&self.inner)
    }
}

impl CallObserver for Inner {
    fn wants_arguments(&self) -> bool {
        false
    }

    fn running(&self, tool: &ToolEntry) {
        self.meters.running(tool);
    }

    fn finished(&self, call: FinishedCall) {
        self.meters.finished(&call);
    }
}
