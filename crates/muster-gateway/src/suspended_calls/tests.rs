//! Suspended calls over a scripted client: when a call is suspended, resumed, expired and cancelled.

mod replicas;

use muster_core::client::{
    CallCounter, CallSlot, InputMode, InputRequest, Notification, TooManyCalls,
};
use muster_core::{client::InputError, json::Raw};

use super::*;
use crate::inner_client::InnerClient;

#[derive(Debug, Default)]
struct ModernClient {
    counter: Option<Arc<dyn CallCounter>>,
    notified: Lock<Vec<String>>,
}

impl ClientHandle for ModernClient {
    fn capabilities(&self) -> Raw {
        raw(&serde_json::json!({"elicitation": {}}))
    }
    fn input_mode(&self) -> InputMode {
        InputMode::InResult
    }
    fn notify(&self, notification: Notification) {
        self.notified.lock().push(notification.method);
    }
    fn missing_capability(&self, _: &str) {}
    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        self.counter.clone()
    }
    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        panic!("a modern client is never sent a request")
    }
}

fn done() -> Served {
    Ok(Response::Done { result: RawObject::new().to_raw(), cache: None })
}

fn elicitation() -> InputRequest {
    InputRequest { method: "elicitation/create".to_owned(), params: RawObject::new().to_raw() }
}

fn progress() -> Notification {
    Notification { method: "notifications/progress".to_owned(), params: RawObject::new().to_raw() }
}

#[tokio::test]
async fn a_call_that_requests_nothing_starts_no_task() {
    let (calls, caller) = (SuspendedCalls::default(), Caller::local());
    let client: Arc<dyn ClientHandle> = Arc::new(ModernClient::default());
    let here = tokio::task::try_id();
    let served = calls.begin(&caller, &client, |client| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            client.notify(progress());
            assert_eq!(tokio::task::try_id(), here, "the call runs in the task of its request");
            done()
        })
    });
    assert!(matches!(served.await, Ok(Response::Done { .. })));
    assert_eq!(calls.tasks.len(), 0);
    assert!(calls.calls.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_requests_input_is_suspended_and_resumed() {
    let (calls, caller) = (SuspendedCalls::default(), Caller::local());
    let first = Arc::new(ModernClient::default());
    let first_handle = Arc::clone(&first) as Arc<dyn ClientHandle>;
    let served = calls.begin(&caller, &first_handle, |client| {
        Box::pin(async move {
            let (one, two) = tokio::join!(
                client.request_input(elicitation()),
                client.request_input(elicitation())
            );
            client.notify(progress());
            assert_eq!(client.capabilities().get(), r#"{"elicitation":{}}"#);
            assert_eq!([one.unwrap().get(), two.unwrap().get()], [r#"{"a":1}"#, r#"{"a":2}"#]);
            done()
        })
    });
    let Ok(Response::InputRequired(required)) = served.await else { panic!("input is required") };
    let keys: Vec<_> = required.requests.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["elicitation", "elicitation_2"], "requests made together are sent together");

    let responses = r#"{"elicitation":{"a":1},"elicitation_2":{"a":2}}"#;
    let responses =
        Some(RawObject::parse(&serde_json::from_str::<Raw>(responses).unwrap()).unwrap().to_raw());
    let continuation = Continuation { responses, state: required.state };
    assert!(is_suspended(&continuation));
    let second = Arc::new(ModernClient::default());
    let second_handle = Arc::clone(&second) as Arc<dyn ClientHandle>;
    let served = calls.resume(&caller, &second_handle, &continuation).await;
    assert!(matches!(served, Ok(Response::Done { .. })));
    assert!(first.notified.lock().is_empty());
    assert_eq!(*second.notified.lock(), ["notifications/progress"]);

    let again = calls.resume(&caller, &second_handle, &continuation).await;
    assert!(matches!(again, Err(RequestError::InvalidParams(_))), "a handle is valid once");
}

#[tokio::test(start_paused = true)]
async fn a_missing_capability_ends_a_call_that_requests_nothing_else() {
    let (calls, caller) = (SuspendedCalls::default(), Caller::local());
    let client: Arc<dyn ClientHandle> = Arc::new(ModernClient::default());
    let served = calls.begin(&caller, &client, |client| {
        Box::pin(async move {
            client.missing_capability("sampling");
            std::future::pending().await
        })
    });
    let Err(RequestError::MissingCapability { capability }) = served.await else {
        panic!("the capability is missing")
    };
    assert_eq!(capability, "sampling");
}

#[tokio::test(start_paused = true)]
async fn a_capability_that_one_of_several_calls_needs_ends_that_call_alone() {
    let (calls, caller) = (SuspendedCalls::default(), Caller::local());
    let client: Arc<dyn ClientHandle> = Arc::new(ModernClient::default());
    let served = calls.begin(&caller, &client, |client| {
        Box::pin(async move {
            InnerClient::shared(&client).missing_capability("sampling");
            tokio::task::yield_now().await;
            done()
        })
    });
    assert!(matches!(served.await, Ok(Response::Done { .. })));
}

#[derive(Debug)]
struct Counter;

impl CallCounter for Counter {
    fn begin(&self) -> BoxFuture<'_, Result<CallSlot, TooManyCalls>> {
        Box::pin(std::future::ready(Ok(Box::new(()) as CallSlot)))
    }
}

#[tokio::test]
async fn calls_are_counted_while_their_request_is_suspended() {
    let client = ModernClient { counter: Some(Arc::new(Counter)), ..ModernClient::default() };
    let inbox = Inbox::new(Arc::new(client));
    inbox.detach();
    assert!(inbox.call_counter().is_some());
    // The client that comes back may be at another replica.
    inbox.attach(Arc::new(ModernClient::default()));
    assert!(inbox.call_counter().is_some());
}
