//! Work for another replica: begun at most once, even if messages arrive late or again.

use std::sync::atomic::AtomicUsize;

use muster_core::shared::{SharedState, Subscription};
use muster_shared::{MemoryShared, Replica, clock::Clock};
use tokio::{task::JoinSet, time::advance};

use super::*;

const NAMES: WorkNames = WorkNames {
    ask: "ask",
    done: "done",
    abandoned: "abandoned",
    claim: "claim",
    result: "result",
};

/// Counts what it does.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl ReplicaWorker for Counter {
    fn is_open(&self, _: &Raw) -> bool {
        true
    }

    fn perform<'a>(&'a self, _: Raw, _: &'a Asker) -> BoxFuture<'a, Vec<u8>> {
        Box::pin(async {
            sleep(Duration::from_millis(1)).await;
            self.0.fetch_add(1, Ordering::Relaxed);
            b"result".to_vec()
        })
    }
}

struct World {
    state: Arc<dyn SharedState>,
    running: JoinSet<()>,
}

/// A replica that does work.
struct Site {
    link: Arc<Replica>,
    counter: Arc<Counter>,
    work: ReplicaWork,
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        let clock = Clock::new(move || 1_000 + start.elapsed().as_secs());
        Self { state: Arc::new(MemoryShared::new(clock)), running: JoinSet::new() }
    }

    /// A replica that does no work yet.
    async fn link(&mut self) -> Arc<Replica> {
        let link = Replica::new(Arc::clone(&self.state)).unwrap();
        let keep = Arc::clone(&link);
        self.running.spawn(async move { match keep.run().await {} });
        while link.pending_reason().is_some() {
            tokio::task::yield_now().await;
        }
        link
    }

    fn site(link: Arc<Replica>) -> Site {
        let counter = Arc::new(Counter::default());
        let worker: Weak<dyn ReplicaWorker> = Arc::<Counter>::downgrade(&counter);
        let work = ReplicaWork::connect(Arc::clone(&link) as _, NAMES, TaskTracker::new(), worker);
        Site { link, counter, work }
    }

    /// What is sent to a replica, as somebody sees it who can read the shared state.
    async fn overheard(&self, link: &Replica) -> Box<dyn Subscription> {
        self.state.subscribe(&[channel(link)]).await.unwrap()
    }
}

fn channel(link: &Replica) -> String {
    format!("replicas:{}", link.id())
}

impl Site {
    async fn ask(&self, other: &Replica, ticket: &str) -> Result<Vec<u8>, NoResult> {
        self.work.ask(other.id(), ticket, raw(&"request"), std::future::pending()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_begins_nothing() {
    let mut world = World::new();
    let [asks, works, other] =
        [world.link().await, world.link().await, world.link().await].map(World::site);
    let mut overheard = world.overheard(&works.link).await;
    assert_eq!(asks.ask(&works.link, "first").await.unwrap(), b"result");
    let message = overheard.next().await.unwrap();
    drop(overheard);
    // More work than tickets can be remembered.
    for number in 0..5_000 {
        asks.ask(&works.link, &number.to_string()).await.unwrap();
    }
    assert_eq!(works.counter.count(), 5_001);
    world.state.remove("claim:first").await.unwrap();
    for link in [&works.link, &other.link] {
        world.state.publish(&channel(link), message.clone()).await.unwrap();
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!((works.counter.count(), other.counter.count()), (5_001, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_late_begins_nothing() {
    let mut world = World::new();
    let (asks, link) = (World::site(world.link().await), world.link().await);
    let mut overheard = world.overheard(&link).await;
    assert_eq!(asks.ask(&link, "late").await, Err(NoResult::NotBegun));
    let message = overheard.next().await.unwrap();
    let works = World::site(link);
    sleep(Duration::from_secs(300)).await;
    world.state.publish(&channel(&works.link), message).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(works.counter.count(), 0);
    assert_eq!(asks.ask(&works.link, "next").await.unwrap(), b"result");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_paused_does_not_say_that_work_was_not_begun() {
    let mut world = World::new();
    let [asks, works] = [world.link().await, world.link().await].map(World::site);
    let (result, _lost) = tokio::join!(asks.ask(&works.link, "paused"), async {
        // The note of the result is lost. When the replica goes on, the result has expired as well.
        let lost = std::mem::take(&mut *asks.work.0.waiting.lock());
        assert_eq!(lost.len(), 1);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(works.counter.count(), 1);
        advance(RESULT_TTL * 2).await;
        lost
    });
    assert_eq!(result, Err(NoResult::Lost));
}
