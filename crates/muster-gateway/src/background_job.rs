//! Work that may take long, off the threads that serve requests, and behind them where the processor is busy: a few
//! jobs at a time, each until its caller leaves or its time is over.

use std::{
    collections::BTreeMap,
    io::{self, Read, Seek, SeekFrom},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use muster_core::{call::Owner, lock::Lock};
use muster_exec::{thread_clock, thread_priority};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, oneshot};

/// How much processor time a job may use.
const CPU_LIMIT: Duration = Duration::from_secs(10);
/// How long a job may take where the processor is busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Half of the cores, so that jobs never take the processor away from requests that are quick.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// Whether a job should stop. The default never does.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal {
    abandoned: Arc<AtomicBool>,
    /// When the job began, on a thread of its own.
    began: Option<Instant>,
}

impl StopSignal {
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether the caller has left, or the time is over.
    pub(crate) fn is_set(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
            || self.began.is_some_and(|began| is_over(began.elapsed(), thread_clock::cpu_time))
    }

    /// Fails once the job should stop.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_set() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it took too long and was stopped",
            ));
        }
        Ok(())
    }
}

/// The turns of callers: each has one job at a time, so that no caller's jobs queue before those of others.
static TURNS: LazyLock<Lock<Turns>> = LazyLock::new(Lock::default);

/// The turn of each caller.
type Turns = BTreeMap<Owner, Arc<Mutex<()>>>;

/// Waits for the turn of a caller.
async fn turn(caller: Owner) -> OwnedMutexGuard<()> {
    let turn = {
        let mut turns = TURNS.lock();
        // Drop the locks that no job holds or waits for.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(caller).or_default())
    };
    turn.lock_owned().await
}

/// Runs a job of a caller on a thread of its own when there is room. Dropping the future signals the job to stop.
/// `None` if the job panicked.
pub(crate) async fn run<T: Send + 'static>(
    caller: Owner,
    job: impl FnOnce(&StopSignal) -> T + Send + 'static,
) -> Option<T> {
    let turn = turn(caller).await;
    let slot = SLOTS.acquire().await.ok()?;
    let abandoned = Abandoned(Arc::default());
    let stop = StopSignal { abandoned: Arc::clone(&abandoned.0), began: Some(Instant::now()) };
    let (send, done) = oneshot::channel();
    // A thread of its own, whose clock counts this job only.
    let thread = thread::Builder::new().name("background job".to_owned()).spawn(move || {
        thread_priority::lower();
        let done = job(&stop);
        // A job that was abandoned takes its slot until it has noticed.
        drop((slot, turn));
        // Its caller may have left.
        drop(send.send(done));
    });
    if let Err(error) = thread {
        tracing::warn!("no thread for a background job: {error}");
        return None;
    }
    let done = done.await.ok();
    drop(abandoned);
    done
}

/// Whether a job has used up its time. Its processor time cannot exceed its age, and costs more to ask for.
fn is_over(age: Duration, cpu_time: impl FnOnce() -> Duration) -> bool {
    age >= TIME_LIMIT || age >= CPU_LIMIT && cpu_time() >= CPU_LIMIT
}

/// Signals a job to stop when it is dropped.
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file that cannot be read any more once its job should stop.
#[derive(Debug)]
pub(crate) struct StoppableFile {
    pub(crate) file: std::fs::File,
    pub(crate) stop: StopSignal,
}

impl Read for StoppableFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check()?;
        self.file.read(buffer)
    }
}

impl Seek for StoppableFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{atomic::Ordering, mpsc};

    use muster_core::call::Owner;
    use tokio::task::JoinSet;

    use super::{CPU_LIMIT, TIME_LIMIT, is_over, run};

    fn owner(session: &str) -> Owner {
        Owner::Session(session.into())
    }

    #[test]
    fn a_busy_processor_does_not_count() {
        let (short, long) = (CPU_LIMIT / 2, CPU_LIMIT * 2);
        assert!(!is_over(short, || unreachable!()));
        assert!(!is_over(long, || short));
        assert!(is_over(long, || CPU_LIMIT));
        assert!(is_over(TIME_LIMIT, || unreachable!()));
    }

    #[tokio::test]
    async fn callers_take_turns() {
        let (done, order) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let mut jobs = JoinSet::new();
        let hold = move || {
            let _released = held.recv();
        };
        jobs.spawn(run(owner("hostile"), move |_| hold()));
        for name in std::iter::repeat_n("hostile", 50).chain(["honest"]) {
            let done = done.clone();
            jobs.spawn(run(owner(name), move |_| done.send(name).unwrap()));
        }
        // All of them wait, or are done.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        drop((release, done));
        jobs.join_all().await;
        let place = order.iter().position(|name| name == "honest").unwrap();
        assert!(place < 2, "{place} jobs of another caller went first");
    }

    #[tokio::test]
    async fn a_job_learns_that_its_caller_left() {
        assert_eq!(run(owner("a"), |stop| stop.is_set()).await, Some(false));
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (ended, has_ended) = mpsc::channel();
        let job = run(owner("a"), move |stop| {
            started.send(()).unwrap();
            while !stop.is_set() {
                std::thread::yield_now();
            }
            // Not because its time is over.
            ended.send(stop.check().is_err() && stop.abandoned.load(Ordering::Relaxed)).unwrap();
        });
        tokio::select! {
            _ = job => panic!("it ended by itself"),
            _ = has_started => (),
        }
        let stopped = tokio::task::spawn_blocking(move || has_ended.recv().unwrap());
        assert!(stopped.await.unwrap());
    }
}
