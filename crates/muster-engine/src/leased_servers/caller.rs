//! Calls that this replica runs for clients of others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, CallContext, ResourceRequest, ToolCaller},
    call::{Call, CallError, Caller, Outcome},
    catalog::{ToolAudience, ToolEntry},
    client::{ClientHandle, InputError, InputMode, InputRequest, Notification},
    connect::ProtocolEra,
    json::{Raw, RawObject, raw},
    lock::Lock,
    name::{BackendName, ToolName},
    policy::{ForwardedCall, Permitted},
    shared::Recipient,
    spooled::{self, ToolResult},
};
use muster_gateway::replica_work::{Asker, MAX_REQUEST, ReplicaWorker};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    LeasedServers, NOTICE,
    messages::{Answer, CallerInfo, Failure, Notice, NoticeKind, Reply, Request, Target},
    owned::{MOVING, OwnedConnection},
    switch,
};

/// The largest answer of a server to another replica: it is held in the shared state for a moment.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// The capacity of the queue of notifications of a call. Beyond it they are dropped.
const QUEUE: usize = 256;
/// The largest notification that is passed on to another replica.
const MAX_NOTIFICATION: usize = 256 * 1024;
/// How often a request for input is sent again.
const REPEAT: Duration = Duration::from_secs(2);
/// How long the last notifications of a call may delay its result.
const FLUSH: Duration = Duration::from_secs(2);

/// The answer to a request for input.
type InputResult = Result<Raw, InputError>;

/// The client of a call, which is connected to another replica.
#[derive(Debug)]
pub(super) struct RemoteCaller {
    capabilities: Raw,
    input_mode: InputMode,
    era: Option<ProtocolEra>,
    queue: mpsc::Sender<NoticeKind>,
    /// The requests for input that wait for an answer, by number.
    waiting: Lock<BTreeMap<u64, oneshot::Sender<InputResult>>>,
    last: AtomicU64,
}

impl ClientHandle for RemoteCaller {
    fn capabilities(&self) -> Raw {
        self.capabilities.clone()
    }

    fn input_mode(&self) -> InputMode {
        self.input_mode
    }

    fn era(&self) -> Option<ProtocolEra> {
        self.era
    }

    fn notify(&self, notice: Notification) {
        if notice.params.get().len() <= MAX_NOTIFICATION {
            self.tell(NoticeKind::Notification(notice));
        }
    }

    fn missing_capability(&self, capability: &str) {
        self.tell(NoticeKind::MissingCapability(capability.to_owned()));
    }

    fn request_input(&self, request: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(async move {
            if request.params.get().len() > MAX_REQUEST {
                return Err(InputError::Refused {
                    code: -32603,
                    message: format!(
                        "a request for a client of another replica may have at most {MAX_REQUEST} bytes"
                    ),
                    data: None,
                });
            }
            let number = self.last.fetch_add(1, Ordering::Relaxed);
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().insert(number, answer);
            let _asking = Asking { caller: self, number };
            let what = NoticeKind::Input { number, request };
            loop {
                self.tell(what.clone());
                match timeout(REPEAT, &mut answered).await {
                    Ok(answer) => return answer.unwrap_or(Err(InputError::Disconnected)),
                    // The message, or the answer, may be lost.
                    Err(_) if self.queue.is_closed() => return Err(InputError::Disconnected),
                    Err(_) => (),
                }
            }
        })
    }
}

impl RemoteCaller {
    fn tell(&self, what: NoticeKind) {
        if self.queue.try_send(what).is_err() {
            tracing::debug!("a notification for a client of another replica is dropped");
        }
    }
}

/// An open request for input. If it is dropped before its answer arrives, the request is withdrawn.
struct Asking<'a> {
    caller: &'a RemoteCaller,
    number: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.caller.waiting.lock().remove(&self.number).is_some() {
            self.caller.tell(NoticeKind::Withdrawn { number: self.number });
        }
    }
}

/// Delivers a client's answer to the request for input that waits for it.
pub(super) fn answered(servers: &Arc<LeasedServers>, message: &[u8]) {
    let Ok(Answer { ticket, number, answer }) = serde_json::from_slice(message) else { return };
    let caller = servers.callers.lock().get(&ticket).and_then(std::sync::Weak::upgrade);
    let waiting = caller.and_then(|caller| caller.waiting.lock().remove(&number));
    if waiting.is_none_or(|waiting| waiting.send(answer).is_err()) {
        tracing::debug!("an answer to no open request for input");
    }
}

/// The tools that a server can call: none.
struct NoTools;

impl std::fmt::Debug for NoTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoTools")
    }
}

impl ToolCaller for NoTools {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a Arc<dyn ClientHandle>,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let unknown = CallError::UnknownTool { tool: call.tool.shortened(), similar: Vec::new() };
        Box::pin(std::future::ready(Err(unknown)))
    }
}

/// A call or request for a client of another replica.
enum Work {
    Run(Box<Permitted>),
    Ask(ResourceRequest),
}

/// Removes a caller when its call has ended.
struct Registered<'a> {
    servers: &'a LeasedServers,
    ticket: &'a str,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.servers.callers.lock().remove(self.ticket);
        self.servers.call_ended.notify_one();
    }
}

impl LeasedServers {
    /// The connection of a server that this replica runs under a lease, once there is one.
    async fn at(&self, target: &Target) -> Option<Arc<OwnedConnection>> {
        let owned = self.owned(&target.server).filter(|owned| owned.lease.id == target.lease)?;
        let mut connection = owned.connection.clone();
        tokio::select! {
            found = connection.wait_for(Option::is_some) => {
                found.ok()?.as_ref().and_then(std::sync::Weak::upgrade)
            }
            () = owned.lease.end() => None,
        }
    }

    /// Serves a call of a client of another replica, whose notifications are sent there.
    async fn for_caller(
        &self,
        info: CallerInfo,
        asker: &Asker,
        connection: Arc<OwnedConnection>,
        work: Work,
    ) -> Reply {
        let (queue, mut queued) = mpsc::channel(QUEUE);
        let CallerInfo { subject, capabilities, input_mode, era } = info;
        let (waiting, last) = (Lock::default(), AtomicU64::new(0));
        let caller = Arc::new(RemoteCaller { capabilities, input_mode, era, queue, waiting, last });
        self.callers.lock().insert(asker.ticket.clone(), Arc::downgrade(&caller));
        let registered = Registered { servers: self, ticket: &asker.ticket };
        let send = async {
            while let Some(what) = queued.recv().await {
                let (ticket, replica) = (asker.ticket.clone(), self.deps.link.id().to_owned());
                let message = raw(&Notice { ticket, replica, what }).get().as_bytes().to_vec();
                self.send(Recipient::Replica(&asker.replica), NOTICE, message).await;
            }
        };
        let client: Arc<dyn ClientHandle> = caller;
        let work = async {
            let caller = Caller { subject: subject.into(), ..Caller::local() };
            let cx = CallContext { client: &client, caller: &caller, tools: &NoTools, sent: None };
            let result = match work {
                Work::Run(call) => match connection.call(cx, *call).await {
                    Ok(result) => inline(result, &connection.lease.server).await,
                    Err(error) => Err(error),
                },
                Work::Ask(request) => connection.ask(cx, request, &asker.replica).await,
            };
            let reply = Reply::ran(result);
            // Close the queue: nothing more is sent to the client.
            drop((client, registered));
            reply
        };
        flushed(work, send).await
    }

    async fn perform_request(&self, request: Request, asker: &Asker) -> Reply {
        let moving = || Reply::Failed(Failure::elsewhere(MOVING));
        let is_call = matches!(request, Request::Run { .. } | Request::Resource { .. });
        if is_call && self.is_ending.load(Ordering::Relaxed) {
            return moving();
        }
        match request {
            Request::List(target) => match self.at(&target).await {
                Some(connection) => Reply::listed(connection.listing().await),
                None => Reply::Moving,
            },
            Request::Run { target, tool, arguments, meta, continuation, from } => {
                let Some(connection) = self.at(&target).await else { return moving() };
                let entry = Arc::new(entry(&target.server, &tool));
                let call = ForwardedCall { entry, arguments, meta, continuation };
                let call = Work::Run(Box::new(Permitted::by_another_replica(call)));
                self.for_caller(from, asker, connection, call).await
            }
            Request::Resource { target, operation, meta, continuation, from } => {
                let Some(connection) = self.at(&target).await else { return moving() };
                let request = ResourceRequest { operation, meta, continuation };
                self.for_caller(from, asker, connection, Work::Ask(request)).await
            }
            Request::Logs { server, tail, after } => {
                Reply::Logs(self.deps.logs.tail(&server, tail, after))
            }
            Request::Switch { server, running, change } => {
                switch::switched(self, &server, running, change).await;
                Reply::Switched
            }
        }
    }
}

/// Runs a call to its end, then flushes its queued notifications before its result is returned.
async fn flushed<T>(work: impl Future<Output = T>, send: impl Future<Output = ()>) -> T {
    tokio::pin!(work, send);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = &mut send => return work.await,
    };
    drop(timeout(FLUSH, send).await);
    result
}

/// A tool of a server, with any arguments: the replica that asks has checked them.
fn entry(server: &str, tool: &str) -> ToolEntry {
    let any = Arc::from(RawObject::new().to_raw());
    ToolEntry {
        name: ToolName::new(tool),
        backend: BackendName::new(server),
        local_name: Arc::from(tool),
        description: Arc::from(""),
        input_schema: any,
        params: None,
        definition: None,
        effect: None,
        validator: Arc::default(),
        audience: ToolAudience::Callers,
    }
}

/// A result in memory, small enough for another replica.
async fn inline(result: ToolResult, server: &str) -> Result<Outcome, CallError> {
    let too_large = || {
        let reason = format!(
            "its answer is larger than {} MiB, the most that another replica is sent; ask for less of it at a time",
            MAX_ANSWER / 1024 / 1024
        );
        Failure::Unavailable { reason, no_answer: false }.error(server)
    };
    let spooled = match result {
        ToolResult::Inline(outcome) => return Ok(outcome),
        ToolResult::Spooled(spooled) => spooled,
    };
    let limit = u64::try_from(MAX_ANSWER).unwrap_or(u64::MAX);
    if spooled.bytes() > limit {
        return Err(too_large());
    }
    let loaded = tokio::task::spawn_blocking(move || spooled::load(&*spooled, limit)).await;
    loaded.ok().and_then(Result::ok).map(Outcome::Raw).ok_or_else(too_large)
}

impl ReplicaWorker for LeasedServers {
    fn is_open(&self, _: &Raw) -> bool {
        true
    }

    fn perform<'a>(&'a self, request: Raw, from: &'a Asker) -> BoxFuture<'a, Vec<u8>> {
        Box::pin(async move {
            let Ok(request) = serde_json::from_str(request.get()) else { return Vec::new() };
            let reply = self.perform_request(request, from).await;
            let encoded = serde_json::to_vec(&reply).unwrap_or_default();
            if encoded.len() <= MAX_ANSWER {
                return encoded;
            }
            let reason = format!(
                "its answer is larger than {} MiB, the most that another replica is sent",
                MAX_ANSWER / 1024 / 1024
            );
            let failed = match reply {
                Reply::Listing(_) => Reply::NotListed(reason),
                _ => Reply::Failed(Failure::elsewhere(&reason)),
            };
            serde_json::to_vec(&failed).unwrap_or_default()
        })
    }
}
