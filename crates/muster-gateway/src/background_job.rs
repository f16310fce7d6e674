//! Work that may take long, off the threads that serve requests: a few jobs at a time, each until its
//! caller leaves or its time is over.

use std::{
    io::{self, Read, Seek, SeekFrom},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;

/// How long a job may run.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Half of the cores, so that jobs never take the processor away from requests that are quick.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// Whether a job should stop. The default never does.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal {
    abandoned: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl StopSignal {
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether the caller has left, or the time is over.
    pub(crate) fn is_set(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
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

/// Runs a job on a thread of its own when there is room. Dropping the future signals the job to stop.
/// `None` if the job panicked.
pub(crate) async fn run<T: Send + 'static>(
    job: impl FnOnce(&StopSignal) -> T + Send + 'static,
) -> Option<T> {
    let slot = SLOTS.acquire().await.ok()?;
    let abandoned = Abandoned(Arc::default());
    let stop = StopSignal {
        abandoned: Arc::clone(&abandoned.0),
        deadline: Instant::now().checked_add(TIME_LIMIT),
    };
    let running = tokio::task::spawn_blocking(move || {
        let done = job(&stop);
        // A job that was abandoned takes its slot until it has noticed.
        drop(slot);
        done
    });
    let done = running.await.ok();
    drop(abandoned);
    done
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
    use std::sync::mpsc;

    use super::run;

    #[tokio::test]
    async fn a_job_learns_that_its_caller_left() {
        assert_eq!(run(|stop| stop.is_set()).await, Some(false));
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (ended, has_ended) = mpsc::channel();
        let job = run(move |stop| {
            started.send(()).unwrap();
            while !stop.is_set() {
                std::thread::yield_now();
            }
            ended.send(stop.check().is_err()).unwrap();
        });
        tokio::select! {
            _ = job => panic!("it ended by itself"),
            _ = has_started => (),
        }
        let stopped = tokio::task::spawn_blocking(move || has_ended.recv().unwrap());
        assert!(stopped.await.unwrap());
    }
}
