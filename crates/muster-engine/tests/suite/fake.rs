//! Scripted MCP servers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest},
    call::{CallError, Outcome},
    client::{InputRequest, Notification},
    connect::{
        ConnectError, ConnectRequest, ConnectResult, Connection, ConnectionEvent,
        ConnectionObserver, Connector, Endpoint, ServerListing,
    },
    json::raw,
    policy::Permitted,
    spooled::ToolResult,
};
use serde_json::{json, value::RawValue};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// The result of one attempt to connect.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// Connects, with these tools.
    Up(Vec<&'static str>),
    /// Connects after a while.
    Slow(Duration, Vec<&'static str>),
    /// Fails.
    Refuse(ConnectError),
    /// Hangs.
    Hang,
}

pub(crate) fn transient() -> Plan {
    Plan::Refuse(ConnectError::Transient("connection refused".to_owned()))
}

pub(crate) fn permanent() -> Plan {
    Plan::Refuse(ConnectError::Permanent("command not found".to_owned()))
}

pub(crate) fn unauthorized() -> Plan {
    Plan::Refuse(ConnectError::Unauthorized { challenge: Some("Bearer".to_owned()) })
}

/// Connects as scripted. Clones share one script.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fake {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    plans: BTreeMap<String, VecDeque<Plan>>,
    attempts: Vec<(String, Instant)>,
    endpoints: BTreeMap<String, Endpoint>,
    links: BTreeMap<String, Arc<Link>>,
    closed: Vec<String>,
    replies: BTreeMap<String, VecDeque<Said>>,
    called: Vec<String>,
}

/// The reply of a tool.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// A text.
    Text(&'static str),
    /// An error.
    Failure(&'static str),
    /// The result of an MCP server.
    Result(&'static str),
    /// No reply, ever.
    Nothing,
    /// The client's answer to a request for input, after a report of progress.
    Answer,
}

/// A connection, as the script sees it.
#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    events: Mutex<Option<Arc<dyn ConnectionObserver>>>,
    tools: Mutex<Vec<&'static str>>,
    listed: Mutex<usize>,
    is_silent: Mutex<bool>,
    calls: Mutex<(usize, usize)>,
    cancelled: Arc<Notify>,
}

/// Notes a call that is dropped before its end.
struct Cancelled(Arc<Notify>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Asserts that pauses between attempts are backoffs with jitter, all in seconds.
pub(crate) fn assert_backoff(pauses: &[f64], backoffs: &[f64]) {
    let within = |(pause, backoff): (&f64, &f64)| (*backoff..=backoff * 1.25 + 0.1).contains(pause);
    let all_within = pauses.iter().zip(backoffs).all(within);
    assert!(all_within && pauses.len() == backoffs.len(), "{pauses:?} are not {backoffs:?}");
}

impl Fake {
    /// Scripts the next attempts; the last one is repeated.
    pub(crate) fn plan(&self, name: &str, plans: impl IntoIterator<Item = Plan>) {
        let plans = plans.into_iter().collect();
        self.inner.lock().unwrap().plans.insert(name.to_owned(), plans);
    }

    /// Scripts the replies of a tool; the last one is repeated.
    pub(crate) fn says(&self, tool: &str, replies: impl IntoIterator<Item = Said>) {
        let replies = replies.into_iter().collect();
        self.inner.lock().unwrap().replies.insert(tool.to_owned(), replies);
    }

    /// The calls since the last check, with their arguments.
    pub(crate) fn called(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().unwrap().called)
    }

    fn reply(&self, call: &Permitted) -> Option<Said> {
        let name = call.entry().local_name.to_string();
        let mut inner = self.inner.lock().unwrap();
        inner.called.push(format!("{name} {}", call.raw_arguments().get()));
        let replies = inner.replies.get_mut(&name)?;
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
    }

    /// Seconds between the attempts to connect a server, and from `start` to the first.
    pub(crate) fn attempts(&self, name: &str, start: Instant) -> Vec<f64> {
        let inner = self.inner.lock().unwrap();
        let mut last = start;
        let of_name = inner.attempts.iter().filter(|(attempted, _)| attempted == name);
        let pauses = of_name.map(|(_, at)| {
            let pause = at.duration_since(last);
            last = *at;
            (pause.as_secs_f64() * 10.0).round() / 10.0
        });
        pauses.collect()
    }

    pub(crate) fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.inner.lock().unwrap().endpoints.get(name).cloned()
    }

    pub(crate) fn link(&self, name: &str) -> Arc<Link> {
        Arc::clone(&self.inner.lock().unwrap().links[name])
    }

    /// The servers whose connection was closed.
    pub(crate) fn closed(&self) -> Vec<String> {
        self.inner.lock().unwrap().closed.clone()
    }
}

impl Link {
    /// Sends an event to the gateway.
    pub(crate) fn happen(&self, event: ConnectionEvent) {
        self.events.lock().unwrap().as_ref().unwrap().on_event(event);
    }

    /// Crashes.
    pub(crate) fn crash(&self) {
        self.happen(ConnectionEvent::Closed { reason: "it exited with status 1".to_owned() });
    }

    /// Changes the tools, with a notification.
    pub(crate) fn offer(&self, tools: Vec<&'static str>) {
        *self.tools.lock().unwrap() = tools;
        self.happen(ConnectionEvent::ListChanged);
    }

    /// Fails every listing from now on.
    pub(crate) fn stop_listing(&self) {
        *self.is_silent.lock().unwrap() = true;
    }

    /// Lets listings succeed again.
    pub(crate) fn resume_listing(&self) {
        *self.is_silent.lock().unwrap() = false;
    }

    /// The number of times it was listed.
    pub(crate) fn listed(&self) -> usize {
        *self.listed.lock().unwrap()
    }

    /// Waits until a call that gets no reply is dropped.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }

    /// The maximum of concurrent calls.
    pub(crate) fn most_calls(&self) -> usize {
        self.calls.lock().unwrap().1
    }
}

impl Connector for Fake {
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
        let ConnectRequest { name, endpoint, events, .. } = request;
        Box::pin(async move {
            let plan = {
                let mut inner = self.inner.lock().unwrap();
                inner.attempts.push((name.to_owned(), Instant::now()));
                inner.endpoints.insert(name.to_owned(), endpoint.clone());
                let plans = inner.plans.entry(name.to_owned()).or_default();
                match plans.len() {
                    0 => Plan::Up(vec!["echo"]),
                    1 => plans[0].clone(),
                    _ => plans.pop_front().unwrap(),
                }
            };
            let tools = match plan {
                Plan::Up(tools) => tools,
                Plan::Slow(pause, tools) => {
                    sleep(pause).await;
                    tools
                }
                Plan::Refuse(error) => return Err(error),
                Plan::Hang => std::future::pending().await,
            };
            let link = Arc::new(Link {
                name: name.to_owned(),
                events: Mutex::new(Some(events)),
                tools: Mutex::new(tools),
                listed: Mutex::default(),
                is_silent: Mutex::default(),
                calls: Mutex::default(),
                cancelled: Arc::default(),
            });
            self.inner.lock().unwrap().links.insert(name.to_owned(), Arc::clone(&link));
            Ok(Arc::new(Connected { fake: self.clone(), link }) as Arc<dyn Connection>)
        })
    }
}

#[derive(Debug)]
struct Connected {
    fake: Fake,
    link: Arc<Link>,
}

impl Backend for Connected {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            {
                let mut calls = self.link.calls.lock().unwrap();
                calls.0 += 1;
                calls.1 = calls.1.max(calls.0);
            }
            sleep(Duration::from_millis(1)).await;
            self.link.calls.lock().unwrap().0 -= 1;
            match self.fake.reply(&call) {
                Some(Said::Text(text)) => return Ok(Outcome::text(text).into()),
                Some(Said::Failure(text)) => return Ok(Outcome::failure(text).into()),
                Some(Said::Result(result)) => {
                    let result = RawValue::from_string(result.to_owned()).unwrap();
                    return Ok(Outcome::Raw(result).into());
                }
                Some(Said::Answer) => {
                    let (method, params) = ("notifications/progress", raw(&json!({"progress": 1})));
                    cx.client.notify(Notification { method: method.to_owned(), params });
                    let (method, params) =
                        ("elicitation/create", raw(&json!({"message": "sure?"})));
                    let request = InputRequest { method: method.to_owned(), params };
                    let answer = cx.client.request_input(request).await;
                    return Ok(match answer {
                        Ok(answer) => Outcome::text(answer.get()).into(),
                        Err(error) => Outcome::failure(error.to_string()).into(),
                    });
                }
                Some(Said::Nothing) => {
                    let _cancelled = Cancelled(Arc::clone(&self.link.cancelled));
                    return std::future::pending().await;
                }
                None => (),
            }
            let text = format!("{} did {}", self.link.name, call.entry().local_name);
            Ok(Outcome::text(text).into())
        })
    }

    /// Accepts subscriptions to its own resources, and refuses all others.
    fn request<'a>(
        &'a self,
        _: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let request = match ask.operation {
            ResourceOperation::Subscribe { uri } => format!("subscribe {uri}"),
            ResourceOperation::Unsubscribe { uri } => format!("unsubscribe {uri}"),
            other => panic!("{other:?}"),
        };
        let result = match request.contains(&format!(" {}://", self.link.name)) {
            true => Ok(Outcome::Raw(raw(&json!({})))),
            false => {
                let message = "there is no such resource".to_owned();
                Err(CallError::Upstream { code: -32002, message, data: None })
            }
        };
        if result.is_ok() {
            self.fake.inner.lock().unwrap().called.push(request);
        }
        Box::pin(std::future::ready(result))
    }
}

impl Connection for Connected {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(async move {
            *self.link.listed.lock().unwrap() += 1;
            if *self.link.is_silent.lock().unwrap() {
                return Err(ConnectError::Transient("no answer".to_owned()));
            }
            let tools = self.link.tools.lock().unwrap();
            let listed = tools.iter().map(|name| {
                raw(&json!({"name": name, "description": "d", "inputSchema": {"type": "object"}}))
            });
            let resources = vec![raw(&json!({"uri": format!("{}://r", self.link.name)}))];
            let protocol = "2025-11-25".to_owned();
            Ok(ServerListing {
                tools: listed.collect(),
                resources,
                protocol,
                ..ServerListing::default()
            })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.fake.inner.lock().unwrap().closed.push(self.link.name.clone());
        })
    }
}
