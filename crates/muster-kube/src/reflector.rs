//! A reflector: lists and watches one kind, and keeps a mirror of it up to date.
//!
//! A watch starts from the version of the list. After a lost connection it resumes from the last version it received.
//! If that version is too old, the kind is listed again.

use std::{sync::Arc, time::Duration};

use muster_config::kinds::DefinitionKind;
use muster_core::backoff::Backoff;
use serde_json::Value as Json;
use tokio::time::{Instant, sleep};

use crate::{
    api::{ApiClient, ApiError},
    cache::ObjectCache,
    discovery,
    object::KubeObject,
    watching::{WATCH_SECONDS, WatchEventKind, WatchStream},
};

/// The number of watches that may fail in a row before the kind is listed again.
const FAILURES_UNTIL_LIST: u64 = 3;
/// The minimum duration of a watch without events. One that ends sooner counts as failed.
const MIN_WATCH: Duration = Duration::from_secs(1);
/// The minimum interval between two lists that resets the backoff.
const STABLE_LIST: Duration = Duration::from_secs(30);
/// The interval at which a missing kind is looked for.
const MISSING_KIND_INTERVAL: Duration = Duration::from_secs(30);

const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(250), max: Duration::from_secs(20) };

/// A local copy of the objects of a kind.
pub(crate) trait Mirror: Send + Sync {
    /// The plural of the kind.
    fn plural(&self) -> &'static str;

    /// Lists all objects, and returns the version that a watch starts from.
    fn list(
        &self,
        api: &ApiClient,
        collection: &str,
    ) -> impl Future<Output = Result<String, ApiError>> + Send;

    /// Applies an event of the watch, which has reached this version.
    fn event(&self, happened: WatchEventKind, object: Json, version: &str);

    /// Handles that the API server has no such kind.
    fn no_such_kind(&self);

    /// Handles that the kind cannot be read now. Known objects stay.
    fn failed(&self, why: &ApiError);
}

/// A mirror of the definitions of a kind, in the cache.
pub(crate) struct DefinitionMirror {
    pub(crate) cache: Arc<ObjectCache>,
    pub(crate) kind: DefinitionKind,
}

impl Mirror for DefinitionMirror {
    fn plural(&self) -> &'static str {
        self.kind.plural()
    }

    async fn list(&self, api: &ApiClient, collection: &str) -> Result<String, ApiError> {
        let list = api.list(collection).await?;
        let objects = list.items.into_iter();
        let objects = objects.filter_map(|object| KubeObject::new(self.kind, object)).collect();
        self.cache.replace(self.kind, objects, &list.version);
        Ok(list.version)
    }

    fn event(&self, happened: WatchEventKind, object: Json, version: &str) {
        match (happened, KubeObject::new(self.kind, object)) {
            (WatchEventKind::Put, Some(object)) => self.cache.put(self.kind, object),
            (WatchEventKind::Deleted, Some(object)) => self.cache.remove(self.kind, &object),
            (WatchEventKind::Bookmark, _) | (_, None) => self.cache.reach(self.kind, version),
        }
    }

    fn no_such_kind(&self) {
        self.cache.no_such_kind(self.kind);
    }

    fn failed(&self, why: &ApiError) {
        self.cache.failed(self.kind, &why.to_string());
        tracing::warn!("cannot read {}: {why}", self.kind.plural());
    }
}

/// Follows a kind. Never returns.
pub(crate) async fn follow(api: Arc<ApiClient>, mirror: impl Mirror, collection: String) {
    let (mut failures, mut last_list) = (0, None);
    loop {
        let error = match mirror.list(&api, &collection).await {
            Ok(version) => {
                if last_list.is_none_or(|last: Instant| last.elapsed() > STABLE_LIST) {
                    failures = 0;
                }
                last_list = Some(Instant::now());
                watch(&api, &mirror, &collection, version).await
            }
            Err(ApiError::NotFound) => match discovery::is_served(&api, mirror.plural()).await {
                Ok(false) => {
                    mirror.no_such_kind();
                    sleep(MISSING_KIND_INTERVAL).await;
                    continue;
                }
                Ok(true) => {
                    let message = "the API server has the kind, but no list of it";
                    ApiError::Unavailable(message.to_owned())
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        if error == ApiError::Expired {
            tracing::debug!("{} are listed again: {error}", mirror.plural());
        } else {
            mirror.failed(&error);
        }
        pause(failures).await;
        failures += 1;
    }
}

/// Watches until the kind must be listed again, and returns why.
async fn watch(
    api: &ApiClient,
    mirror: &impl Mirror,
    collection: &str,
    mut version: String,
) -> ApiError {
    let mut failures = 0;
    loop {
        let (began, before) = (Instant::now(), version.clone());
        let selection = [("resourceVersion", before.as_str()), ("allowWatchBookmarks", "true")];
        let ended = match api.watch(collection, &selection, WATCH_SECONDS).await {
            Ok(stream) => events(WatchStream::new(stream), mirror, &mut version).await,
            Err(error) => Err(error),
        };
        if version != before {
            failures = 0;
        }
        let error = match ended {
            // A watch that is closed at once, for example by a proxy, must not be reopened in a tight loop.
            Ok(()) if version == before && began.elapsed() < MIN_WATCH => {
                ApiError::Unavailable("the watch was closed at once".to_owned())
            }
            Ok(()) => continue,
            Err(error) => error,
        };
        if error == ApiError::Expired
            || error == ApiError::NotFound
            || failures >= FAILURES_UNTIL_LIST
        {
            return error;
        }
        tracing::debug!("the watch of {} is resumed: {error}", mirror.plural());
        pause(failures).await;
        failures += 1;
    }
}

/// Applies the events of one watch, until its end.
async fn events(
    mut stream: WatchStream,
    mirror: &impl Mirror,
    version: &mut String,
) -> Result<(), ApiError> {
    while let Some((happened, object)) = stream.next().await? {
        if let Some(next) = object.pointer("/metadata/resourceVersion").and_then(Json::as_str) {
            next.clone_into(version);
        }
        mirror.event(happened, object, version);
    }
    Ok(())
}

async fn pause(failures: u64) {
    sleep(BACKOFF.jittered(failures, getrandom::u64().unwrap_or_default())).await;
}
