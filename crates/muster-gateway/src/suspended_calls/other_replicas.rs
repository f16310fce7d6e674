//! Resumes calls that are suspended at another replica.

use std::sync::{Arc, Weak};

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    client::{ClientHandle, Continuation, InputError, InputMode, InputRequest, Notification},
    json::{Raw, raw},
    request::RequestError,
    shared::ReplicaLink,
};
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::{Served, SuspendedCalls};
use crate::replica_work::{
    Asker, MAX_REQUEST, MAX_RESULT, NoResult, ReplicaWork, ReplicaWorker, WorkNames, unguessable,
};

pub(super) const NAMES: WorkNames = WorkNames {
    ask: "resume-call",
    done: "resumed-call",
    abandoned: "abandoned-call",
    claim: "resuming",
    result: "resumed",
};

const NOT_RESUMED: &str =
    "the replica that runs this call does not answer, and did not resume it; try again";

/// The suspended calls of other replicas.
#[derive(Debug)]
pub(super) struct OtherReplicas(ReplicaWork);

/// A call to resume.
#[derive(Debug, Serialize, Deserialize)]
struct ResumeRequest {
    handle: String,
    subject: String,
    capabilities: Raw,
    responses: Option<Raw>,
}

impl OtherReplicas {
    /// Starts to resume calls of this replica on behalf of others.
    pub(super) fn connect(
        link: Arc<dyn ReplicaLink>,
        tasks: TaskTracker,
        calls: &Weak<SuspendedCalls>,
    ) -> Self {
        let worker: Weak<dyn ReplicaWorker> = Weak::<SuspendedCalls>::clone(calls);
        Self(ReplicaWork::connect(link, NAMES, tasks, worker))
    }

    /// The id of this replica.
    pub(super) fn own_id(&self) -> &str {
        self.0.link().id()
    }

    /// Resumes a call at another replica.
    pub(super) async fn resume(
        &self,
        replica: &str,
        handle: &str,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Served {
        let Some(ticket) = unguessable() else {
            return Err(RequestError::Internal("there is no source of randomness".to_owned()));
        };
        let request = raw(&ResumeRequest {
            handle: handle.to_owned(),
            subject: caller.subject.to_string(),
            capabilities: client.capabilities(),
            responses: continuation.responses.clone(),
        });
        let lost = |reason: &str| Err(RequestError::Internal(reason.to_owned()));
        match self.0.ask(replica, &ticket, request, std::future::pending()).await {
            Ok(stored) => serde_json::from_slice::<Served>(&stored)
                .map_err(|_| RequestError::Internal("an unreadable result".to_owned()))?,
            Err(NoResult::TooLarge) => Err(RequestError::InvalidParams(format!(
                "an answer may have at most {MAX_REQUEST} bytes"
            ))),
            Err(NoResult::NotBegun) => lost(NOT_RESUMED),
            Err(reason @ (NoResult::Died | NoResult::Lost)) => lost(&reason.to_string()),
        }
    }
}

impl ReplicaWorker for SuspendedCalls {
    fn is_open(&self, request: &Raw) -> bool {
        let request: Result<ResumeRequest, _> = serde_json::from_str(request.get());
        request.is_ok_and(|request| self.calls.lock().contains_key(&request.handle))
    }

    fn perform<'a>(&'a self, request: Raw, _: &'a Asker) -> BoxFuture<'a, Vec<u8>> {
        Box::pin(async move {
            let Ok(request) = serde_json::from_str(request.get()) else { return Vec::new() };
            let ResumeRequest { handle, subject, capabilities, responses } = request;
            let caller = Caller { subject: subject.into(), ..Caller::local() };
            let client: Arc<dyn ClientHandle> = Arc::new(RemoteClient { capabilities });
            let continuation = Continuation { responses, state: Some(raw(&handle)) };
            let served = self.resume_here(&handle, &caller, &client, &continuation).await;
            let encoded = serde_json::to_vec(&served).unwrap_or_default();
            if encoded.len() <= MAX_RESULT {
                return encoded;
            }
            let message = "the result is too large for another replica".to_owned();
            let error: Served = Err(RequestError::Internal(message));
            serde_json::to_vec(&error).unwrap_or_default()
        })
    }
}

/// A client that is connected to another replica: it does not see notifications.
#[derive(Debug)]
struct RemoteClient {
    capabilities: Raw,
}

impl ClientHandle for RemoteClient {
    fn capabilities(&self) -> Raw {
        self.capabilities.clone()
    }

    fn input_mode(&self) -> InputMode {
        InputMode::InResult
    }

    fn notify(&self, _: Notification) {}

    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(std::future::ready(Err(InputError::Disconnected)))
    }
}
