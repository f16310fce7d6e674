//! A cache of the objects of the namespace. Watches keep it up to date, and writes of this gateway are applied at once.
//!
//! The API server numbers the versions of all objects of a kind in one sequence. If a watch has passed the version of a
//! write, it has delivered the write and possibly later changes, so the response to the write is ignored. Otherwise the
//! response is applied, and the watch delivers what follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use muster_config::kinds::DefinitionKind;
use muster_core::lock::Lock;
use tokio::sync::{Notify, watch};

use crate::object::KubeObject;

/// Whether the objects of a kind are known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// They are not, for this reason.
    Unlisted(String),
    /// Records that the API server has no such kind.
    NoSuchKind,
    /// They are.
    Objects,
}

#[derive(Debug)]
struct KindCache {
    known: Known,
    objects: BTreeMap<String, Arc<KubeObject>>,
    /// The version that the watch has reached.
    reached: Option<u64>,
    /// The names of objects that this gateway wrote, until the watch delivers the writes.
    written: BTreeSet<String>,
    /// The uids of objects that this gateway deleted, until the watch delivers the deletion. Earlier events must not
    /// bring them back.
    deleted: BTreeSet<String>,
}

/// The cached objects, by kind and name.
#[derive(Debug)]
pub(crate) struct ObjectCache {
    kinds: Lock<BTreeMap<DefinitionKind, KindCache>>,
    /// Signals that a definition changed.
    pub(crate) definitions: Notify,
    /// Signals that an object or its status changed.
    pub(crate) objects: Notify,
    /// Whether every kind has been listed.
    synced: watch::Sender<bool>,
}

impl ObjectCache {
    pub(crate) fn new() -> Self {
        let unread = || KindCache {
            known: Known::Unlisted("it was not read yet".to_owned()),
            objects: BTreeMap::new(),
            reached: None,
            written: BTreeSet::new(),
            deleted: BTreeSet::new(),
        };
        let kinds = DefinitionKind::ALL.into_iter().map(|kind| (kind, unread()));
        Self {
            kinds: Lock::new(kinds.collect()),
            definitions: Notify::new(),
            objects: Notify::new(),
            synced: watch::channel(false).0,
        }
    }

    /// Waits until every kind has been listed.
    pub(crate) async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // This cannot fail: `self` holds the sender.
        drop(synced.wait_for(|synced| *synced).await);
    }

    /// Returns a kind that has not been listed yet, and why.
    pub(crate) fn unread(&self) -> Option<(DefinitionKind, String)> {
        let kinds = self.kinds.lock();
        kinds.iter().find_map(|(kind, cache)| match &cache.known {
            Known::Unlisted(why) => Some((*kind, why.clone())),
            Known::NoSuchKind | Known::Objects => None,
        })
    }

    /// The names of the objects of a kind; `None` if the API server has no such kind.
    pub(crate) fn names(&self, kind: DefinitionKind) -> io::Result<Option<Vec<String>>> {
        let kinds = self.kinds.lock();
        match kinds.get(&kind) {
            Some(KindCache { known: Known::Unlisted(why), .. }) => {
                Err(io::Error::other(why.clone()))
            }
            Some(KindCache { known: Known::Objects, objects, .. }) => {
                Ok(Some(objects.keys().cloned().collect()))
            }
            Some(KindCache { known: Known::NoSuchKind, .. }) | None => Ok(None),
        }
    }

    /// Returns an object.
    pub(crate) fn get(&self, kind: DefinitionKind, name: &str) -> Option<Arc<KubeObject>> {
        self.kinds.lock().get(&kind)?.objects.get(name).map(Arc::clone)
    }

    /// Returns all objects.
    pub(crate) fn all(&self) -> Vec<Arc<KubeObject>> {
        let kinds = self.kinds.lock();
        kinds.values().flat_map(|cache| cache.objects.values().map(Arc::clone)).collect()
    }

    /// Replaces all objects of a kind by a list as of a version.
    pub(crate) fn replace(&self, kind: DefinitionKind, objects: Vec<KubeObject>, version: &str) {
        let listed = objects.into_iter();
        let listed = listed.map(|object| (object.name().to_owned(), Arc::new(object)));
        let mut now: BTreeMap<String, Arc<KubeObject>> = listed.collect();
        let reached = version.parse().ok();
        let differs = self.change(kind, |cache| {
            // Keep deletions and writes that are newer than the list: the watch starts from its version and delivers
            // them.
            now.retain(|_, object| !cache.deleted.contains(object.uid()));
            for name in &cache.written {
                if let Some(known) = cache.objects.get(name)
                    && known.number() > reached
                {
                    now.insert(name.clone(), Arc::clone(known));
                }
            }
            let texts = |objects: &BTreeMap<String, Arc<KubeObject>>| -> Vec<(String, String)> {
                let texts = objects.iter();
                texts.map(|(name, object)| (name.clone(), object.text.clone())).collect()
            };
            let differs = cache.known != Known::Objects || texts(&cache.objects) != texts(&now);
            cache.known = Known::Objects;
            cache.objects = now;
            cache.reached = reached;
            // Only for one list: in the end the list is right, even that of a cluster that was restored from a backup.
            cache.written.clear();
            cache.deleted.clear();
            differs
        });
        self.notify(differs);
        self.check_synced();
    }

    /// Records that the API server has no such kind.
    pub(crate) fn no_such_kind(&self, kind: DefinitionKind) {
        let differs = self.change(kind, |cache| {
            let before = std::mem::replace(&mut cache.known, Known::NoSuchKind);
            cache.objects.clear();
            cache.written.clear();
            cache.deleted.clear();
            cache.reached = None;
            before != Known::NoSuchKind
        });
        self.notify(differs);
        self.check_synced();
    }

    /// Records that a kind could not be listed. Known objects stay.
    pub(crate) fn failed(&self, kind: DefinitionKind, why: &str) {
        self.change(kind, |cache| {
            if matches!(cache.known, Known::Unlisted(_)) {
                cache.known = Known::Unlisted(why.to_owned());
            }
            false
        });
    }

    /// Applies an event of the watch: an object was added or changed.
    pub(crate) fn put(&self, kind: DefinitionKind, object: KubeObject) {
        let differs = self.change(kind, |cache| {
            cache.reached = object.number().or(cache.reached);
            if cache.deleted.contains(object.uid()) {
                return false;
            }
            let known = cache.objects.get(object.name());
            // Whatever its uid: an object that was recreated is newer than the one it replaces.
            if known.is_some_and(|known| object.number() < known.number()) {
                return false;
            }
            cache.written.remove(object.name());
            cache.insert(object)
        });
        self.notify(differs);
    }

    /// Applies the response to a write of this gateway.
    pub(crate) fn put_written(&self, kind: DefinitionKind, object: KubeObject) {
        let differs = self.change(kind, |cache| {
            let version = object.number();
            let known = cache.objects.get(object.name()).and_then(|known| known.number());
            if version.is_some() && (version <= cache.reached || version <= known)
                || cache.deleted.contains(object.uid())
            {
                return false;
            }
            cache.written.insert(object.name().to_owned());
            cache.insert(object)
        });
        self.notify(differs);
    }

    /// Removes an object that this gateway deleted, unless another one has its name by now.
    pub(crate) fn remove_deleted(&self, kind: DefinitionKind, gone: &KubeObject) {
        let differs = self.change(kind, |cache| {
            let is_known = cache.remove(gone);
            // Otherwise the watch has delivered the deletion.
            if is_known {
                cache.deleted.insert(gone.uid().to_owned());
            }
            is_known
        });
        self.notify(differs);
    }

    /// Applies an event of the watch: an object was deleted. An object that has its name by now stays.
    pub(crate) fn remove(&self, kind: DefinitionKind, gone: &KubeObject) {
        let differs = self.change(kind, |cache| {
            cache.reached = gone.number().or(cache.reached);
            cache.deleted.remove(gone.uid());
            cache.remove(gone)
        });
        self.notify(differs);
    }

    /// Applies a bookmark: the watch has reached a version.
    pub(crate) fn reach(&self, kind: DefinitionKind, version: &str) {
        self.change(kind, |cache| {
            cache.reached = version.parse().ok().or(cache.reached);
            false
        });
    }

    fn change(&self, kind: DefinitionKind, change: impl FnOnce(&mut KindCache) -> bool) -> bool {
        self.kinds.lock().get_mut(&kind).is_some_and(change)
    }

    fn notify(&self, definitions_differ: bool) {
        self.objects.notify_one();
        if definitions_differ {
            self.definitions.notify_one();
        }
    }

    fn check_synced(&self) {
        if self.unread().is_none() {
            self.synced.send_replace(true);
        }
    }
}

impl KindCache {
    /// Inserts an object. Returns whether its definition changed.
    fn insert(&mut self, object: KubeObject) -> bool {
        let known = self.objects.get(object.name());
        let differs = known.is_none_or(|known| known.text != object.text);
        self.objects.insert(object.name().to_owned(), Arc::new(object));
        differs
    }

    /// Removes an object. Returns whether it was there.
    fn remove(&mut self, gone: &KubeObject) -> bool {
        let is_known = self.objects.get(gone.name()).is_some_and(|known| known.uid() == gone.uid());
        if is_known {
            self.objects.remove(gone.name());
            self.written.remove(gone.name());
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use muster_config::kinds::DefinitionKind;
    use serde_json::json;

    use super::ObjectCache;
    use crate::object::KubeObject;

    const KIND: DefinitionKind = DefinitionKind::McpServer;

    fn object(name: &str, uid: &str, version: u64) -> KubeObject {
        let metadata = json!({"name": name, "uid": uid, "resourceVersion": version.to_string()});
        let json = json!({"metadata": metadata, "spec": {"url": format!("http://h/{version}")}});
        KubeObject::new(KIND, json).unwrap()
    }

    /// A cache after a list of one object, `a` of version 5, as of version 10.
    fn listed() -> ObjectCache {
        let cache = ObjectCache::new();
        cache.replace(KIND, vec![object("a", "first", 5)], "10");
        cache
    }

    /// The uids and versions of the objects.
    fn known(cache: &ObjectCache) -> Vec<String> {
        let objects = cache.all();
        objects.iter().map(|object| format!("{} {}", object.uid(), object.version())).collect()
    }

    #[test]
    fn what_was_written_is_known_before_the_watch_tells_of_it() {
        let cache = listed();
        cache.put_written(KIND, object("a", "first", 11));
        cache.put_written(KIND, object("b", "other", 12));
        assert_eq!(known(&cache), ["first 11", "other 12"]);
        // Events of earlier changes are ignored.
        cache.put(KIND, object("a", "first", 10));
        assert_eq!(known(&cache), ["first 11", "other 12"]);
        // The response to an earlier write may arrive late.
        cache.put_written(KIND, object("b", "other", 11));
        assert_eq!(known(&cache), ["first 11", "other 12"]);
    }

    #[test]
    fn the_answer_to_a_write_does_not_bring_back_what_was_deleted_since() {
        let cache = listed();
        cache.put(KIND, object("a", "first", 11));
        cache.remove(KIND, &object("a", "first", 12));
        cache.put_written(KIND, object("a", "first", 11));
        assert_eq!(known(&cache), [""; 0]);
        // Others created and deleted an object before the creator got its response.
        cache.put(KIND, object("b", "other", 13));
        cache.remove(KIND, &object("b", "other", 14));
        cache.put_written(KIND, object("b", "other", 13));
        assert_eq!(known(&cache), [""; 0]);
        // The same, found by a list or a bookmark instead of events.
        cache.replace(KIND, Vec::new(), "20");
        cache.put_written(KIND, object("c", "third", 19));
        cache.reach(KIND, "25");
        cache.put_written(KIND, object("c", "third", 24));
        assert_eq!(known(&cache), [""; 0]);
    }

    #[test]
    fn a_deleted_object_stays_away_and_one_that_is_created_anew_does_not() {
        let cache = listed();
        let gone = cache.get(KIND, "a").unwrap();
        // Another client recreated the object before this gateway knows that its own deletion succeeded.
        cache.remove(KIND, &object("a", "first", 11));
        cache.put(KIND, object("a", "second", 12));
        cache.remove_deleted(KIND, &gone);
        assert_eq!(known(&cache), ["second 12"]);
        cache.put(KIND, object("a", "second", 13));
        assert_eq!(known(&cache), ["second 13"]);

        let gone = cache.get(KIND, "a").unwrap();
        cache.remove_deleted(KIND, &gone);
        cache.put(KIND, object("a", "second", 14));
        assert_eq!(known(&cache), [""; 0], "an event from before the deletion");
        cache.put_written(KIND, object("a", "third", 16));
        cache.remove(KIND, &object("a", "second", 15));
        assert_eq!(known(&cache), ["third 16"]);
    }

    #[test]
    fn a_list_from_before_a_write_does_not_undo_it() {
        let cache = listed();
        cache.put_written(KIND, object("a", "first", 12));
        cache.put_written(KIND, object("b", "other", 13));
        cache.replace(KIND, vec![object("a", "first", 5)], "11");
        assert_eq!(known(&cache), ["first 12", "other 13"]);
        let gone = cache.get(KIND, "a").unwrap();
        cache.remove_deleted(KIND, &gone);
        cache.replace(KIND, vec![object("a", "first", 12), object("b", "other", 13)], "13");
        assert_eq!(known(&cache), ["other 13"]);
        // In the end a list is right, even that of a cluster that was restored from a backup.
        cache.replace(KIND, vec![object("a", "first", 5)], "6");
        assert_eq!(known(&cache), ["first 5"]);
    }
}
