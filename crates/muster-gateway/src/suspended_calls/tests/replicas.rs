//! Calls that are resumed at another replica, over a link that loses messages.

use std::sync::atomic::{AtomicBool, Ordering};

use muster_core::shared::{MessageListener, Recipient, SharedState, StoreError, StoreFuture};
use muster_shared::{MemoryShared, Replica, clock::Clock};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{super::other_replicas::NAMES, *};

const RESUME: &str = NAMES.ask;
const RESUMED: &str = NAMES.done;

/// A link that loses the next message of some topics, and cannot reach the shared state while it is down.
#[derive(Debug)]
struct Unreliable {
    link: Arc<Replica>,
    loses: Lock<Vec<&'static str>>,
    is_down: AtomicBool,
}

impl Unreliable {
    fn down<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
        Box::pin(std::future::ready(Err(StoreError::Unavailable("a test".to_owned()))))
    }
}

impl ReplicaLink for Unreliable {
    fn id(&self) -> &str {
        self.link.id()
    }
    fn state(&self) -> &Arc<dyn SharedState> {
        self.link.state()
    }
    fn is_alive<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool> {
        if self.is_down.load(Ordering::Relaxed) { Self::down() } else { self.link.is_alive(id) }
    }
    fn send<'a>(
        &'a self,
        to: Recipient<'a>,
        topic: &'a str,
        message: Vec<u8>,
    ) -> StoreFuture<'a, ()> {
        let mut loses = self.loses.lock();
        if let Some(place) = loses.iter().position(|lost| *lost == topic) {
            loses.remove(place);
            return Box::pin(std::future::ready(Ok(())));
        }
        if self.is_down.load(Ordering::Relaxed) {
            return Self::down();
        }
        self.link.send(to, topic, message)
    }
    fn listen(&self, topic: &'static str, listener: Arc<dyn MessageListener>) {
        self.link.listen(topic, listener);
    }
}

/// Two replicas: a call is suspended at the first.
struct Pair {
    links: [Arc<Unreliable>; 2],
    calls: [Arc<SuspendedCalls>; 2],
    running: JoinSet<()>,
    ended: mpsc::UnboundedReceiver<&'static str>,
    finish: Arc<tokio::sync::Notify>,
    continuation: Continuation,
}

/// Notes how a call ended.
struct Ended(mpsc::UnboundedSender<&'static str>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send("dropped").unwrap_or_default();
    }
}

async fn pair() -> Pair {
    let start = Instant::now();
    let clock = Clock::new(move || 1_000 + start.elapsed().as_secs());
    let state: Arc<dyn SharedState> = Arc::new(MemoryShared::new(clock));
    let mut running = JoinSet::new();
    let links = [(); 2].map(|()| {
        let link = Replica::new(Arc::clone(&state)).unwrap();
        let keep = Arc::clone(&link);
        running.spawn(async move { match keep.run().await {} });
        Arc::new(Unreliable { link, loses: Lock::default(), is_down: AtomicBool::new(false) })
    });
    while links.iter().any(|link| link.link.pending_reason().is_some()) {
        tokio::task::yield_now().await;
    }
    let calls = links.each_ref().map(|link| SuspendedCalls::of_replica(Arc::clone(link) as _));
    let (note, ended) = mpsc::unbounded_channel();
    let finish = Arc::new(tokio::sync::Notify::new());
    let (client, finished): (Arc<dyn ClientHandle>, _) =
        (Arc::new(ModernClient::default()), Arc::clone(&finish));
    let caller = Caller::local();
    let served = calls[0].begin(&caller, &client, |client| {
        Box::pin(async move {
            let _ended = Ended(note.clone());
            drop(client.request_input(elicitation()).await);
            note.send("resumed").unwrap_or_default();
            finished.notified().await;
            done()
        })
    });
    let Ok(Response::InputRequired(required)) = served.await else { panic!("input is required") };
    let responses = Some(serde_json::from_str(r#"{"elicitation":{}}"#).unwrap());
    let continuation = Continuation { responses, state: required.state };
    Pair { links, calls, running, ended, finish, continuation }
}

impl Pair {
    /// Resumes the call at the second replica.
    fn resume(&self) -> impl Future<Output = Served> + Send + use<> {
        let (calls, continuation) = (Arc::clone(&self.calls[1]), self.continuation.clone());
        async move {
            let client: Arc<dyn ClientHandle> = Arc::new(ModernClient::default());
            calls.resume(&Caller::local(), &client, &continuation).await
        }
    }

    /// Both replicas lose their leases for some time, and receive no messages.
    async fn lose_leases(&mut self, time: Duration) {
        self.running.shutdown().await;
        for link in &self.links {
            link.link.retire().await;
        }
        sleep(time).await;
        for link in &self.links {
            let keep = Arc::clone(&link.link);
            self.running.spawn(async move { match keep.run().await {} });
        }
    }
}

#[track_caller]
fn assert_failed(served: &Served, reason: &str) {
    let Err(RequestError::Internal(message)) = served else { panic!("{served:?}") };
    assert!(message.contains(reason), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_resumed_once_although_messages_are_lost() {
    let mut pair = pair().await;
    pair.links[1].loses.lock().extend([RESUME, RESUME]);
    pair.links[0].loses.lock().push(RESUMED);
    let (served, ()) = tokio::join!(pair.resume(), async {
        assert_eq!(pair.ended.recv().await, Some("resumed"));
        // It takes longer than a claim holds.
        sleep(Duration::from_secs(300)).await;
        pair.finish.notify_one();
    });
    assert!(matches!(served, Ok(Response::Done { .. })), "{served:?}");
    assert_eq!(pair.ended.recv().await, Some("dropped"));
    assert!(pair.ended.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_resumed_can_be_resumed_again() {
    let mut pair = pair().await;
    pair.links[1].loses.lock().extend([RESUME; 100]);
    assert_failed(&pair.resume().await, "try again");
    pair.links[1].loses.lock().clear();
    pair.finish.notify_one();
    assert!(matches!(pair.resume().await, Ok(Response::Done { .. })));
    assert_eq!(pair.ended.recv().await, Some("resumed"));
}

#[tokio::test(start_paused = true)]
async fn a_result_is_found_after_the_storage_was_not_available() {
    let pair = pair().await;
    let (served, ()) = tokio::join!(pair.resume(), async {
        sleep(Duration::from_secs(5)).await;
        pair.links[1].is_down.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(5)).await;
        pair.finish.notify_one();
        sleep(Duration::from_secs(40)).await;
        pair.links[1].is_down.store(false, Ordering::Relaxed);
    });
    assert!(matches!(served, Ok(Response::Done { .. })), "{served:?}");
    let pair = self::pair().await;
    let (served, ()) = tokio::join!(pair.resume(), async {
        sleep(Duration::from_secs(5)).await;
        pair.links[1].is_down.store(true, Ordering::Relaxed);
    });
    assert_failed(&served, "may have been carried out");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_replica_died_is_not_simply_called_again() {
    let mut pair = pair().await;
    let mut resumed = JoinSet::new();
    resumed.spawn(pair.resume());
    assert_eq!(pair.ended.recv().await, Some("resumed"));
    pair.running.shutdown().await;
    pair.links[0].link.retire().await;
    assert_failed(&resumed.join_next().await.unwrap().unwrap(), "died");
    assert_failed(&pair.resume().await, "died");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_with_its_client_at_another_replica() {
    let mut pair = pair().await;
    let mut resumed = JoinSet::new();
    resumed.spawn(pair.resume());
    assert_eq!(pair.ended.recv().await, Some("resumed"));
    resumed.shutdown().await;
    assert_eq!(pair.ended.recv().await, Some("dropped"));
    // Nor does it go on if that replica dies.
    let mut pair = self::pair().await;
    resumed.spawn(pair.resume());
    assert_eq!(pair.ended.recv().await, Some("resumed"));
    pair.running.shutdown().await;
    pair.links[1].link.retire().await;
    assert_eq!(pair.ended.recv().await, Some("dropped"));
}

#[tokio::test(start_paused = true)]
async fn replicas_may_seem_dead_while_they_renew_their_leases() {
    let mut pair = pair().await;
    let mut resumed = JoinSet::new();
    resumed.spawn(pair.resume());
    assert_eq!(pair.ended.recv().await, Some("resumed"));
    sleep(Duration::from_secs(3)).await;
    pair.lose_leases(Duration::from_secs(8)).await;
    sleep(Duration::from_secs(60)).await;
    assert!(pair.ended.try_recv().is_err() && resumed.try_join_next().is_none());
    pair.finish.notify_one();
    let served = resumed.join_next().await.unwrap().unwrap();
    assert!(matches!(served, Ok(Response::Done { .. })), "{served:?}");
    // Nor is a call refused meanwhile.
    let mut pair = self::pair().await;
    pair.finish.notify_one();
    resumed.spawn(pair.resume());
    pair.lose_leases(Duration::from_secs(8)).await;
    let served = resumed.join_next().await.unwrap().unwrap();
    assert!(matches!(served, Ok(Response::Done { .. })), "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_have_expired_unseen_counts() {
    let pair = pair().await;
    pair.links[1].loses.lock().extend([RESUME; 100]);
    pair.links[1].is_down.store(true, Ordering::Relaxed);
    let (served, ()) = tokio::join!(pair.resume(), async {
        sleep(Duration::from_secs(5)).await;
        pair.links[1].is_down.store(false, Ordering::Relaxed);
    });
    assert_failed(&served, "may have been carried out");
}
