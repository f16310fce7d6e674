//! Which resources any client wants word of.
//!
//! The server behind us is asked for word once for all of them, and told to stop when the last one
//! no longer wants it.

use std::collections::BTreeMap;

use crate::lock::Lock;

/// How many want word of each resource.
#[derive(Debug, Default)]
pub(crate) struct Watched(Lock<BTreeMap<String, usize>>);

impl Watched {
    /// One more wants word.
    pub(crate) fn add(&self, uri: &str) {
        *self.0.lock().entry(uri.to_owned()).or_default() += 1;
    }

    /// One fewer; whether it was the last.
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
    use super::Watched;

    #[test]
    fn the_last_one_ends_it() {
        let watched = Watched::default();
        watched.add("a:b");
        watched.add("a:b");
        assert!(!watched.remove("a:b"));
        assert!(watched.remove("a:b"));
        assert!(watched.remove("a:b"));
    }
}
