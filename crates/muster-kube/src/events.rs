//! Events of the journal as Kubernetes Events. Equal ones are counted, and a flood is cut off.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use muster_config::kinds::{API_GROUP, API_VERSION, DefinitionKind};
use muster_engine::{
    events::{Event, Following},
    status::moment,
};
use serde_json::{Value as Json, json};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    api::{ApiClient, ApiError},
    cache::ObjectCache,
};

/// The source of Events.
const COMPONENT: &str = "muster";
/// The Events that may be written at once.
const BURST: f64 = 100.0;
/// The Events that may be written each second after that.
const PER_SECOND: f64 = 5.0;
/// The Events that are remembered, to count equal ones.
const REMEMBERED: usize = 512;
/// How long an Event is counted up.
const COUNTED_FOR: Duration = Duration::from_secs(600);
/// How long the writing of one Event may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest message that the API server takes, in bytes.
const MAX_MESSAGE: usize = 1024;

/// An Event that was written.
struct WrittenEvent {
    key: [String; 4],
    name: String,
    count: u64,
    first: Instant,
}

/// Writes events.
pub(crate) struct EventRecorder {
    api: Arc<ApiClient>,
    cache: Arc<ObjectCache>,
    namespace: String,
    identity: String,
    leading: watch::Receiver<bool>,
    written: VecDeque<WrittenEvent>,
    allowance: f64,
    at: Instant,
}

impl EventRecorder {
    pub(crate) fn new(
        api: Arc<ApiClient>,
        cache: Arc<ObjectCache>,
        (namespace, identity): (&str, &str),
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            cache,
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            leading,
            written: VecDeque::new(),
            allowance: BURST,
            at: Instant::now(),
        }
    }

    /// Writes the events of the journal until it closes.
    pub(crate) async fn run(mut self, mut journal: Following) {
        while let Some(event) = journal.next().await {
            // Every gateway sees what happens to a server; one of them says so.
            if event.is_shared() && !*self.leading.borrow() {
                continue;
            }
            if !self.allows() {
                tracing::debug!(
                    "event not written: {} {}",
                    event.reason,
                    event.involved_object.name
                );
                continue;
            }
            let late = |_| Err(ApiError::Unavailable("the API server did not answer".to_owned()));
            let writing = timeout(WRITE_TIMEOUT, self.write(&event)).await;
            if let Err(error) = writing.unwrap_or_else(late) {
                tracing::warn!("cannot write an event of {}: {error}", event.involved_object.name);
            }
        }
    }

    /// Whether another event may be written now.
    fn allows(&mut self) -> bool {
        let now = Instant::now();
        let earned = now.duration_since(self.at).as_secs_f64() * PER_SECOND;
        self.at = now;
        self.allowance = (self.allowance + earned).min(BURST);
        let allowed = self.allowance >= 1.0;
        if allowed {
            self.allowance -= 1.0;
        }
        allowed
    }

    async fn write(&mut self, event: &Event) -> Result<(), ApiError> {
        let object = &event.involved_object;
        let key = [&object.kind, &object.name, &event.reason, &event.message].map(Clone::clone);
        let collection = format!("/api/v1/namespaces/{}/events", self.namespace);
        let is =
            |known: &&mut WrittenEvent| known.key == key && known.first.elapsed() < COUNTED_FOR;
        if let Some(known) = self.written.iter_mut().find(is) {
            known.count += 1;
            let patch = json!({"count": known.count, "lastTimestamp": moment(event.timestamp)});
            match self.api.patch(&format!("{collection}/{}", known.name), &patch).await {
                Ok(_) => return Ok(()),
                // It expired, or somebody deleted it.
                Err(ApiError::NotFound) => (),
                Err(error) => return Err(error),
            }
        }
        let created = self.api.create(&collection, &self.manifest(event)).await?;
        let name = created.pointer("/metadata/name").and_then(Json::as_str).unwrap_or_default();
        self.written.retain(|known| known.key != key);
        if self.written.len() == REMEMBERED {
            self.written.pop_front();
        }
        self.written.push_back(WrittenEvent {
            key,
            name: name.to_owned(),
            count: 1,
            first: Instant::now(),
        });
        Ok(())
    }

    fn manifest(&self, event: &Event) -> Json {
        let object = &event.involved_object;
        let kind = DefinitionKind::of_resource(&object.kind);
        let known = kind.and_then(|kind| self.cache.get(kind, &object.name));
        let mut involved = json!({
            "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
            "kind": object.kind,
            "name": object.name,
            "namespace": self.namespace,
        });
        // A resource that is gone is named without its identity.
        if let (Some(known), Json::Object(involved)) = (known, &mut involved) {
            involved.insert("uid".to_owned(), json!(known.uid()));
            involved.insert("resourceVersion".to_owned(), json!(known.version()));
        }
        let message = shortened(&event.message);
        let at = moment(event.timestamp);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}-", object.name), "namespace": self.namespace},
            "involvedObject": involved,
            "reason": event.reason,
            "message": message,
            "type": event.severity,
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.identity,
        })
    }
}

/// As much of a message as an Event may have.
fn shortened(message: &str) -> &str {
    let end = (0..=MAX_MESSAGE).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or(0)).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn messages_have_as_many_bytes_as_an_event_may_have() {
        for (message, expected) in [
            ("short".to_owned(), 5),
            ("x".repeat(1024), 1024),
            ("x".repeat(2000), 1024),
            ("é".repeat(600), 1024),
            (format!("x{}", "é".repeat(600)), 1023),
        ] {
            assert_eq!(shortened(&message).len(), expected);
        }
    }
}
