//! The summaries of all records, kept up to date by a watch.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use muster_core::lock::Lock;
use muster_workflow::record::{RunState, RunSummary};
use serde_json::Value as Json;
use tokio::time::Instant;

use super::{PLURAL, resource};
use crate::{
    api::{ApiClient, ApiError},
    reflector::Mirror,
    watching::WatchEventKind,
};

/// The maximum number of records in a list: more than are kept, because they are removed with a delay.
const MAX_RECORDS: usize = 50_000;

/// A record, without its values.
#[derive(Debug, Clone)]
pub(super) struct KnownExecution {
    pub(super) summary: RunSummary,
    pub(super) began: Timestamp,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) size: usize,
    /// When it was last seen to change.
    pub(super) changed: Instant,
}

/// The summaries by id.
#[derive(Debug, Default)]
pub(super) struct Summaries(Lock<BTreeMap<String, KnownExecution>>);

impl Summaries {
    pub(super) fn all(&self) -> Vec<RunSummary> {
        self.0.lock().values().map(|known| known.summary.clone()).collect()
    }

    /// Returns the records that match a filter.
    pub(super) fn matching(
        &self,
        is_wanted: impl Fn(&KnownExecution) -> bool,
    ) -> Vec<KnownExecution> {
        self.0.lock().values().filter(|known| is_wanted(known)).cloned().collect()
    }

    pub(super) fn put(&self, object: &Json) {
        if let Some((id, known)) = known(object) {
            self.0.lock().insert(id, known);
        }
    }
}

fn known(object: &Json) -> Option<(String, KnownExecution)> {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default();
    let summary = resource::record(object)?.summary();
    let began = summary.started_at.parse();
    let began = began.or_else(|_| text("/metadata/creationTimestamp").parse());
    let known = KnownExecution {
        began: began.unwrap_or(Timestamp::UNIX_EPOCH),
        uid: text("/metadata/uid").to_owned(),
        version: text("/metadata/resourceVersion").to_owned(),
        size: object.to_string().len(),
        changed: Instant::now(),
        summary,
    };
    Some((known.summary.execution_id.clone(), known))
}

/// A mirror of the records that keeps only their summaries.
pub(super) struct ExecutionMirror {
    summaries: Arc<Summaries>,
    /// The last reason why they cannot be read, so that it is logged only once.
    failed: Lock<Option<ApiError>>,
}

impl ExecutionMirror {
    pub(super) fn new(summaries: Arc<Summaries>) -> Self {
        Self { summaries, failed: Lock::default() }
    }
}

impl Mirror for ExecutionMirror {
    fn plural(&self) -> &'static str {
        PLURAL
    }

    async fn list(&self, api: &ApiClient, collection: &str) -> Result<String, ApiError> {
        let mut listed = BTreeMap::new();
        let take = |page: Vec<Json>| listed.extend(page.iter().filter_map(known));
        let version = api.list_pages(collection, MAX_RECORDS, take).await?;
        *self.summaries.0.lock() = listed;
        *self.failed.lock() = None;
        Ok(version)
    }

    fn event(&self, happened: WatchEventKind, object: Json, _: &str) {
        match happened {
            WatchEventKind::Put => self.summaries.put(&object),
            WatchEventKind::Deleted => {
                let name = object.pointer("/metadata/name").and_then(Json::as_str);
                self.summaries.0.lock().remove(name.unwrap_or_default());
            }
            WatchEventKind::Bookmark => (),
        }
    }

    fn no_such_kind(&self) {
        self.summaries.0.lock().clear();
        let missing = self.failed.lock().replace(ApiError::NotFound);
        if missing != Some(ApiError::NotFound) {
            tracing::warn!(
                "the API server has no {PLURAL}: records of executions are at the gateway that ran them only. Apply the \
                 CustomResourceDefinitions of this version (`muster schema --crd`)"
            );
        }
    }

    fn failed(&self, why: &ApiError) {
        if self.failed.lock().replace(why.clone()).as_ref() != Some(why) {
            tracing::warn!("cannot read {PLURAL}: {why}");
        }
    }
}

impl KnownExecution {
    pub(super) fn is_running(&self) -> bool {
        self.summary.status == RunState::Inprogress
    }
}
