//! The resource subscriptions of all clients, counted.
//!
//! An upstream is unsubscribed only when the last client is.

use std::collections::BTreeMap;

use crate::lock::Lock;

/// The number of subscribers of each resource.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionCounts(Lock<BTreeMap<String, usize>>);

impl SubscriptionCounts {
    /// Adds a subscriber.
    pub(crate) fn add(&self, uri: &str) {
        *self.0.lock().entry(uri.to_owned()).or_default() += 1;
    }

    /// Removes a subscriber; returns whether it was the last.
    pub(crate) fn remove(&self, uri: &str) -> bool {
        let mut counts = self.0.lock();
        let Some(count) = counts.get_mut(uri) else { return true };
        *count = count.saturating_sub(1);
        let last = *count == 0;
        if last {
            counts.remove(uri);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::SubscriptionCounts;

    #[test]
    fn the_last_subscriber_is_reported() {
        let counts = SubscriptionCounts::default();
        counts.add("a:b");
        counts.add("a:b");
        assert!(!counts.remove("a:b"));
        assert!(counts.remove("a:b"));
        assert!(counts.remove("a:b"));
    }
}
