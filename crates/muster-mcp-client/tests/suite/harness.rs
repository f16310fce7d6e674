//! The test harness: a fake client, a connector, and servers.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock, PoisonError},
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, CallContext, ResourceOperation, ResourceRequest, ToolCaller},
    call::{Call, CallError, Caller, Checking, Outcome},
    catalog::{BackendInfo, CatalogSnapshot, CatalogSource, offer::offer},
    client::{ClientHandle, Continuation, InputError, InputMode, InputRequest, Notification},
    connect::{
        ConnectError, ConnectRequest, Connection, ConnectionEvent, ConnectionObserver,
        Connector as _, Endpoint, ProtocolEra, ServerListing,
    },
    json::Raw,
    logins::AccessTokenSource,
    name::{BackendName, ToolName},
    policy::{Permitted, Policy},
    protocol_request::SentRequest,
    request::ServerInfo,
    spooled::MEMORY_LIMIT,
};
use muster_exec::{launcher::Launcher, serve::LAUNCHER_ARG};
use muster_mcp::http::ConnectionThreads;
use muster_mcp_client::McpConnector;
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

#[expect(clippy::disallowed_types, reason = "the simplest there is for tests")]
type Mutex<T> = std::sync::Mutex<T>;

pub const HELPER: &str = env!("CARGO_BIN_EXE_muster-mcp-client-helper");
pub const LIMIT: Duration = Duration::from_secs(20);

pub fn raw(text: &str) -> Raw {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Records connection events.
#[derive(Debug)]
pub struct EventRecorder(pub mpsc::UnboundedSender<ConnectionEvent>);

impl ConnectionObserver for EventRecorder {
    fn on_event(&self, event: ConnectionEvent) {
        drop(self.0.send(event));
    }
}

/// A client with prepared responses that records what it receives.
#[derive(Debug)]
pub struct FakeClient {
    capabilities: Raw,
    era: Option<ProtocolEra>,
    answers: BTreeMap<&'static str, &'static str>,
    pub notifications: watch::Sender<Vec<String>>,
    pub input_requests: Mutex<Vec<String>>,
}

impl FakeClient {
    pub fn new(capabilities: &str, answers: &[(&'static str, &'static str)]) -> Arc<Self> {
        Arc::new(Self {
            capabilities: raw(capabilities),
            era: None,
            answers: answers.iter().copied().collect(),
            notifications: watch::Sender::default(),
            input_requests: Mutex::default(),
        })
    }

    /// A client that declares all capabilities.
    pub fn with_all_capabilities() -> Arc<Self> {
        Self::new(
            r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#,
            &[
                (
                    "sampling/createMessage",
                    r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}"#,
                ),
                (
                    "elicitation/create",
                    r#"{"action":"accept","content":{"name":"Ada","username":"ada","email":"a@b.c","ok":true}}"#,
                ),
                ("roots/list", r#"{"roots":[{"uri":"file:///home"}]}"#),
            ],
        )
    }

    /// A client of the legacy era that declares all capabilities.
    pub fn legacy() -> Arc<Self> {
        let client = Arc::into_inner(Self::with_all_capabilities()).unwrap();
        Arc::new(Self { era: Some(ProtocolEra::Legacy), ..client })
    }

    pub fn notifications(&self) -> Vec<String> {
        self.notifications.borrow().clone()
    }

    /// Waits for the first notification.
    pub async fn notified(&self) {
        let mut notifications = self.notifications.subscribe();
        drop(timeout(LIMIT, notifications.wait_for(|all| !all.is_empty())).await.unwrap());
    }

    pub fn input_requests(&self) -> Vec<String> {
        self.input_requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientHandle for FakeClient {
    fn capabilities(&self) -> Raw {
        self.capabilities.clone()
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Direct
    }

    fn era(&self) -> Option<ProtocolEra> {
        self.era
    }

    fn notify(&self, Notification { method, params }: Notification) {
        self.notifications.send_modify(|all| all.push(format!("{method} {params}")));
    }

    fn request_input(
        &self,
        InputRequest { method, params }: InputRequest,
    ) -> BoxFuture<'_, Result<Raw, InputError>> {
        let mut requests = self.input_requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(format!("{method} {params}"));
        let answer = self.answers.get(&*method).map(|answer| raw(answer));
        let refused = InputError::Refused { code: -1, message: "no".to_owned(), data: None };
        Box::pin(std::future::ready(answer.ok_or(refused)))
    }
}

#[derive(Debug)]
struct NoTools;

impl ToolCaller for NoTools {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a Arc<dyn ClientHandle>,
        _: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        unreachable!("no backend here calls tools")
    }
}

pub fn connector() -> McpConnector {
    let identity =
        ServerInfo { name: "muster".to_owned(), version: "1.0.0".to_owned(), instructions: None };
    // As in a gateway: requests, and the processes that respond, may be on different threads.
    static THREADS: LazyLock<ConnectionThreads> = LazyLock::new(ConnectionThreads::new);
    let launcher = Launcher::with_program(HELPER, [LAUNCHER_ARG]);
    McpConnector::new(launcher, &identity).with_threads(THREADS.pool())
}

/// A connected server.
pub struct TestConnection {
    // Dropped first: a connection outlives neither its server nor its connector.
    pub connection: Arc<dyn Connection>,
    pub listing: ServerListing,
    pub events: mpsc::UnboundedReceiver<ConnectionEvent>,
    catalog: CatalogSnapshot,
    pub connector: McpConnector,
    pub fixture: Option<Fixture>,
    /// The last request of a call.
    pub sent: SentRequest,
}

pub fn request(
    endpoint: &Endpoint,
    access: Option<Arc<dyn AccessTokenSource>>,
    events: Arc<dyn ConnectionObserver>,
) -> ConnectRequest<'_> {
    ConnectRequest { name: "srv", endpoint, access, limit: LIMIT, era: None, events }
}

pub async fn connect(
    connector: &McpConnector,
    endpoint: &Endpoint,
) -> Result<(Arc<dyn Connection>, mpsc::UnboundedReceiver<ConnectionEvent>), ConnectError> {
    let (sender, events) = mpsc::unbounded_channel();
    let events_to = Arc::new(EventRecorder(sender));
    let connection = connector.connect(request(endpoint, None, events_to)).await?;
    Ok((connection, events))
}

impl TestConnection {
    pub async fn of(endpoint: &Endpoint) -> Self {
        let connector = connector();
        let (connection, events) = connect(&connector, endpoint).await.unwrap();
        let listing = connection.list().await.unwrap();
        let backend = BackendName::new("srv");
        let about = BackendInfo {
            title: "".into(),
            description: "".into(),
            category: None,
            tags: [].into(),
        };
        let offer = offer(&listing, &backend, str::to_owned);
        let catalog = CatalogSnapshot::default().with(CatalogSource::new(backend, about, offer));
        let sent = SentRequest::default();
        Self { connection, listing, events, catalog, connector, fixture: None, sent }
    }

    pub fn permit(&self, tool: &str, arguments: &str, meta: Option<&str>) -> Permitted {
        self.permit_with(tool, arguments, meta, Continuation::default())
    }

    pub fn permit_with(
        &self,
        tool: &str,
        arguments: &str,
        meta: Option<&str>,
        continuation: Continuation,
    ) -> Permitted {
        let mut call = Call::new(ToolName::new(tool), raw(arguments), Checking::Strict);
        call.meta = meta.map(raw);
        call.continuation = continuation;
        Policy::default().permit(&self.catalog, &Caller::local(), call).unwrap()
    }

    pub async fn run(
        &self,
        client: &Arc<FakeClient>,
        call: Permitted,
    ) -> Result<Outcome, CallError> {
        self.run_as("local", client, call).await
    }

    pub async fn run_as(
        &self,
        subject: &str,
        client: &Arc<FakeClient>,
        call: Permitted,
    ) -> Result<Outcome, CallError> {
        let caller = Caller { subject: subject.into(), ..Caller::local() };
        let client: Arc<dyn ClientHandle> = client.clone();
        let sent = Some(&self.sent);
        let cx = CallContext { client: &client, caller: &caller, tools: &NoTools, sent };
        let result =
            timeout(LIMIT, self.connection.run(cx, call)).await.expect("an answer in time");
        Ok(result?.load(MEMORY_LIMIT).expect("a result that fits"))
    }

    /// Calls a tool and returns the result as text.
    pub async fn call(&self, client: &Arc<FakeClient>, tool: &str, arguments: &str) -> String {
        match self.run(client, self.permit(tool, arguments, None)).await {
            Ok(Outcome::Raw(raw)) => raw.get().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn request(&self, what: ResourceOperation) -> Result<Outcome, CallError> {
        self.request_for(&FakeClient::with_all_capabilities(), what).await
    }

    pub async fn request_for(
        &self,
        client: &Arc<FakeClient>,
        what: ResourceOperation,
    ) -> Result<Outcome, CallError> {
        let client: Arc<dyn ClientHandle> = client.clone();
        let caller = Caller::local();
        let cx = CallContext { client: &client, caller: &caller, tools: &NoTools, sent: None };
        let ask =
            ResourceRequest { operation: what, meta: None, continuation: Continuation::default() };
        timeout(LIMIT, self.connection.request(cx, ask)).await.expect("an answer in time")
    }

    /// Sends a request and returns the result as text.
    pub async fn request_text(&self, what: ResourceOperation) -> String {
        match self.request(what).await {
            Ok(Outcome::Raw(raw)) => raw.get().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn event(&mut self) -> ConnectionEvent {
        timeout(LIMIT, self.events.recv()).await.expect("an event in time").expect("an event")
    }
}

/// A server of `conformance/`, over HTTP.
#[derive(Debug)]
pub struct Fixture {
    process: std::process::Child,
    pub url: String,
}

impl Fixture {
    pub async fn start(more: &[&str]) -> Self {
        #[expect(clippy::disallowed_methods, reason = "a peer of the tests, not a tool")]
        let mut process = std::process::Command::new("python3")
            .arg(fixture())
            .args(["--http", "0", "--port-file", "-"])
            .args(more)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = std::io::BufReader::new(process.stdout.take().unwrap());
        let port = tokio::task::spawn_blocking(move || {
            let mut port = String::new();
            std::io::BufRead::read_line(&mut stdout, &mut port).unwrap();
            port
        });
        let port = port.await.unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        Self { process, url }
    }

    pub fn kill(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/fixture.py")
}

/// The misbehaving server of the test program.
pub fn misbehaving(more: &[&str]) -> Endpoint {
    let args = std::iter::once(&"odd").chain(more).map(|arg| (*arg).to_owned()).collect();
    Endpoint::Stdio { command: HELPER.to_owned(), args, env: Vec::new(), inherit: Vec::new() }
}

pub fn http(url: &str) -> Endpoint {
    Endpoint::Http { url: url.to_owned(), headers: Vec::new() }
}
