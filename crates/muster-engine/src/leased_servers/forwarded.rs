//! Calls that another replica runs for clients of this one: relays the server's messages to their clients.

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    backend::boxed,
    client::{ClientHandle, InputError, InputRequest},
    json::{Raw, raw},
    lock::Lock,
    shared::Recipient,
};
use muster_gateway::replica_work::MAX_REQUEST;
use tokio::task::AbortHandle;

use super::{
    ANSWER, LeasedServers,
    messages::{Answer, Notice, NoticeKind},
};

/// The maximum number of requests for input per call, open ones and answered ones together.
const MAX_INPUTS: usize = 16;

/// The calls, by ticket.
#[derive(Debug, Default)]
pub(super) struct ForwardedCalls(Lock<BTreeMap<String, ForwardedCall>>);

#[derive(Debug)]
struct ForwardedCall {
    client: Arc<dyn ClientHandle>,
    /// The requests for input, by number.
    inputs: BTreeMap<u64, Input>,
}

#[derive(Debug)]
enum Input {
    /// The client is asked.
    Open(AbortHandle),
    /// The client has answered. The message is sent again whenever the request is repeated.
    Answered(Vec<u8>),
}

/// The registration of a forwarded call, removed when it is dropped.
pub(super) struct Forwarding {
    servers: Arc<LeasedServers>,
    ticket: String,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        let call = self.servers.forwarded.0.lock().remove(&self.ticket);
        for input in call.into_iter().flat_map(|call| call.inputs.into_values()) {
            if let Input::Open(task) = input {
                task.abort();
            }
        }
    }
}

impl ForwardedCalls {
    pub(super) fn begin(
        &self,
        servers: &Arc<LeasedServers>,
        ticket: &str,
        client: &Arc<dyn ClientHandle>,
    ) -> Forwarding {
        let call = ForwardedCall { client: Arc::clone(client), inputs: BTreeMap::new() };
        self.0.lock().insert(ticket.to_owned(), call);
        Forwarding { servers: Arc::clone(servers), ticket: ticket.to_owned() }
    }
}

/// Handles a message from the server of a call for its client.
pub(super) fn noticed(servers: &Arc<LeasedServers>, message: &[u8]) {
    let Ok(Notice { ticket, replica, what }) = serde_json::from_slice(message) else { return };
    let mut calls = servers.forwarded.0.lock();
    let Some(call) = calls.get_mut(&ticket) else { return };
    let client = Arc::clone(&call.client);
    match what {
        NoticeKind::Notification(notification) => {
            drop(calls);
            client.notify(notification);
        }
        NoticeKind::MissingCapability(capability) => {
            drop(calls);
            client.missing_capability(&capability);
        }
        NoticeKind::Withdrawn { number } => {
            if let Some(Input::Open(task)) = call.inputs.remove(&number) {
                task.abort();
            }
        }
        NoticeKind::Input { number, request } => match call.inputs.get(&number) {
            Some(Input::Open(_)) => (),
            Some(Input::Answered(answer)) => send(servers, replica, answer.clone()),
            None => {
                if call.inputs.len() >= MAX_INPUTS {
                    let is_answered = |input: &Input| matches!(input, Input::Answered(_));
                    let oldest = call.inputs.iter().find(|(_, input)| is_answered(input));
                    let Some(oldest) = oldest.map(|(number, _)| *number) else { return };
                    call.inputs.remove(&oldest);
                }
                let servers_of = Arc::clone(servers);
                let task = servers.deps.tasks.spawn(boxed(async move {
                    let answer = answer(client, request).await;
                    let message = raw(&Answer { ticket: ticket.clone(), number, answer });
                    let message = message.get().as_bytes().to_vec();
                    if let Some(call) = servers_of.forwarded.0.lock().get_mut(&ticket) {
                        call.inputs.insert(number, Input::Answered(message.clone()));
                    }
                    send(&servers_of, replica, message);
                }));
                call.inputs.insert(number, Input::Open(task.abort_handle()));
            }
        },
    }
}

async fn answer(client: Arc<dyn ClientHandle>, request: InputRequest) -> Result<Raw, InputError> {
    let answer = client.request_input(request).await?;
    match answer.get().len() <= MAX_REQUEST {
        true => Ok(answer),
        false => Err(InputError::Refused {
            code: -32603,
            message: format!("an answer for another replica may have at most {MAX_REQUEST} bytes"),
            data: None,
        }),
    }
}

fn send(servers: &Arc<LeasedServers>, replica: String, message: Vec<u8>) {
    let servers = Arc::clone(servers);
    let tasks = servers.deps.tasks.clone();
    tasks.spawn(boxed(async move {
        servers.send(Recipient::Replica(&replica), ANSWER, message).await;
    }));
}
