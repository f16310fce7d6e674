//! Long-running jobs, on low-priority threads apart from those that serve requests. A few jobs run at a time, and each
//! is stopped when its caller leaves or it exceeds a time limit.

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

/// The limit of processor time of a job.
const CPU_LIMIT: Duration = Duration::from_secs(10);
/// The limit of elapsed time of a job, for when the processor is busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// One slot for every two cores, so that jobs never starve quick requests of processor time.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// Whether a job should stop. The default never does.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal {
    abandoned: Arc<AtomicBool>,
    /// When the job began; the time limits apply only if this is set.
    began: Option<Instant>,
}

impl StopSignal {
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether the caller has left or a time limit is exceeded.
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

/// A lock per caller: each caller runs one job at a time, so that no caller's jobs can crowd out those of others.
static TURNS: LazyLock<Lock<Turns>> = LazyLock::new(Lock::default);

/// The lock of each caller.
type Turns = BTreeMap<Owner, Arc<Mutex<()>>>;

/// Waits for the lock of a caller.
async fn turn(caller: Owner) -> OwnedMutexGuard<()> {
    let turn = {
        let mut turns = TURNS.lock();
        // Drop the locks that no job holds or waits for.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(caller).or_default())
    };
    turn.lock_owned().await
}

/// Runs a job of a caller on its own thread, once a slot is free. Dropping the future signals the job to stop.
/// `None` if the job panicked or no thread could be started.
pub(crate) async fn run<T: Send + 'static>(
    caller: Owner,
    job: impl FnOnce(&StopSignal) -> T + Send + 'static,
) -> Option<T> {
    let turn = turn(caller).await;
    let slot = SLOTS.acquire().await.ok()?;
    let abandoned = Abandoned(Arc::default());
    let stop = StopSignal { abandoned: Arc::clone(&abandoned.0), began: Some(Instant::now()) };
    let (send, done) = oneshot::channel();
    // A dedicated thread, so that its CPU clock counts this job only.
    let thread = thread::Builder::new().name("background job".to_owned()).spawn(move || {
        thread_priority::lower();
        let done = job(&stop);
        // An abandoned job holds its slot until it notices the stop signal.
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

/// Whether a job has exceeded a time limit. Its processor time cannot exceed its age and is more expensive to query, so
/// the age is checked first.
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

/// A file whose reads fail once its job should stop.
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
        // By now every job is waiting or done.
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
            // It stopped because it was abandoned, not because of a time limit.
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
