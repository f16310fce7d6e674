//! Writes events of the journal as Kubernetes Events. Equal Events are counted, and their rate is limited.

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

/// The source component of Events.
const COMPONENT: &str = "muster";
/// The burst of the rate limit, in Events.
const BURST: f64 = 100.0;
/// The rate limit after a burst, in Events per second.
const PER_SECOND: f64 = 5.0;
/// The maximum number of Events that are remembered to count equal ones.
const REMEMBERED: usize = 512;
/// How long equal events increment the count of an Event.
const COUNTED_FOR: Duration = Duration::from_secs(600);
/// The timeout of writing one Event.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a message that the API server accepts, in bytes.
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
            // Every gateway sees the events of a server; only the leader writes them.
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
                // The Event has expired or was deleted: create another.
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
        // The reference to a deleted resource has no uid.
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

/// Cuts a message to the length that an Event may have.
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
