//! What one caller sees of a snapshot: the policy of that caller, and no server that it hides.

use std::sync::Arc;

use muster_core::{
    call::Caller, catalog::CatalogSource, lock::Lock, policy::callers::CallerAccess,
};

use super::GatewaySnapshot;

/// The views that are kept per snapshot. Callers that match the same entries of the policy share one.
const MAX_VIEWS: usize = 64;

/// The views of callers, made as they come. A changed snapshot begins without any.
#[derive(Debug, Default)]
pub struct CallerViews(Lock<Vec<(CallerAccess, Arc<GatewaySnapshot>)>>);

impl Clone for CallerViews {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl GatewaySnapshot {
    /// The view of one caller. Without a policy and for an ordinary caller it is the snapshot itself.
    #[must_use]
    pub fn for_caller(self: Arc<Self>, caller: &Caller) -> Arc<Self> {
        let access = self.policy.access_of(caller);
        if self.policy.is_for(&access) && self.policy.is_open() {
            return self;
        }
        let known = |(known, _): &&(CallerAccess, Arc<Self>)| *known == access;
        if let Some((_, view)) = self.views.0.lock().iter().find(known) {
            return Arc::clone(view);
        }
        let made = Arc::new(self.viewed(access.clone()));
        let mut views = self.views.0.lock();
        // Another request may have been faster. One view for all of them: indexes are kept per view.
        if let Some((_, view)) = views.iter().find(known) {
            return Arc::clone(view);
        }
        if views.len() >= MAX_VIEWS {
            views.remove(0);
        }
        views.push((access, Arc::clone(&made)));
        made
    }

    fn viewed(&self, access: CallerAccess) -> Self {
        let policy = self.policy.narrowed(access, &self.catalog);
        // A server that is lost is as visible as it was.
        let last = |source: &CatalogSource| {
            let mut absent = self.absent.values();
            absent.find(|absent| absent.server == source.backend)?.last.as_deref()
        };
        let catalog =
            self.catalog.showing(|source| policy.shows_source(last(source).unwrap_or(source)));
        let absent = self.absent.iter().filter(|(start, absent)| {
            catalog.source(absent.server.as_str()).is_some()
                || absent.last.is_none() && policy.names_prefix(start)
        });
        let absent = absent.map(|(start, absent)| (start.clone(), absent.clone())).collect();
        Self {
            catalog,
            policy: Arc::new(policy),
            backends: self.backends.clone(),
            absent: Arc::new(absent),
            switched_off: Arc::clone(&self.switched_off),
            views: CallerViews::default(),
        }
    }
}
