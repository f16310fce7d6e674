//! The view that one caller has of a snapshot: with the caller's policy, and without the servers that it hides.

use std::sync::Arc;

use muster_core::{
    call::Caller, catalog::CatalogSource, lock::Lock, policy::callers::CallerAccess,
};

use super::GatewaySnapshot;

/// The maximum number of cached views per snapshot. Callers that match the same policy entries share a view.
const MAX_VIEWS: usize = 64;

/// A cache of views, filled as callers come. A changed snapshot starts with an empty one.
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
        // Another request may have been faster. Share its view, because search indexes are cached per view.
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
        // A lost server stays as visible as it was.
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
