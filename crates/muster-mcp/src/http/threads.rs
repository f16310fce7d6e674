//! The threads that serve connections.
//!
//! A connection stays on one thread, together with its requests and the upstream connections that they open. Threads
//! that share a queue steal tasks from each other instead, and each task that moves takes its memory from the cache of
//! one processor to that of another: with two threads, that was a third of the CPU time of a call.
//!
//! Waking another thread for a response takes longer than the rest of a call. So the first connections, which may be
//! all those of one client, share the first thread, and so do the processes that respond to them.
//!
//! Work that takes long does not belong on these threads: it would delay the other connections of its thread.

use std::{
    fmt, io,
    num::NonZeroUsize,
    sync::Arc,
    thread::{self, JoinHandle},
};

use muster_core::lock::Lock;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The number of connections that are given to a thread in a row.
const GROUP: usize = 4;

/// The threads that serve connections. They end when this is dropped, which must not happen on one of them.
#[derive(Debug)]
pub struct ConnectionThreads {
    shared: ThreadPool,
}

/// Assigns connections to threads. Clones share the threads. The default pool has none: connections are served by the
/// runtime that accepts them.
#[derive(Clone, Default)]
pub struct ThreadPool {
    threads: Arc<Lock<Vec<ConnectionThread>>>,
    /// The highest number of threads.
    limit: usize,
}

struct ConnectionThread {
    runtime: Handle,
    /// Cloned for each connection.
    connections: Arc<()>,
    /// Ends the thread when it is dropped.
    running: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The place of a connection on a thread, which it keeps until it is dropped.
pub(super) struct ThreadPlace {
    pub(super) runtime: Handle,
    /// Counts the connection.
    pub(super) held: Arc<()>,
}

impl ConnectionThreads {
    /// Creates at most as many threads as there are processors. Each starts with its first connection.
    pub fn new() -> Self {
        let limit = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { shared: ThreadPool { threads: Arc::default(), limit } }
    }

    /// The pool that assigns connections to these threads.
    pub fn pool(&self) -> ThreadPool {
        self.shared.clone()
    }
}

impl Default for ConnectionThreads {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ConnectionThreads {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut *self.shared.threads.lock());
        for ConnectionThread { running, thread, .. } in threads {
            drop(running);
            if thread.join().is_err() {
                tracing::warn!("a thread that served connections crashed");
            }
        }
    }
}

impl ThreadPool {
    /// The runtime of the thread that has the first connections.
    pub fn first_runtime(&self) -> Option<Handle> {
        let mut threads = self.threads.lock();
        self.start(&mut threads, 1);
        threads.first().map(|thread| thread.runtime.clone())
    }

    /// A place on the thread with the fewest groups of connections.
    pub(super) fn place(&self) -> Option<ThreadPlace> {
        let mut threads = self.threads.lock();
        let groups = |thread: &ConnectionThread| {
            let connections = Arc::strong_count(&thread.connections) - 1;
            connections / GROUP
        };
        if threads.iter().all(|thread| groups(thread) > 0) {
            let more = threads.len() + 1;
            self.start(&mut threads, more);
        }
        // The first of several with equally few groups.
        let thread = threads.iter().min_by_key(|thread| groups(thread))?;
        let (runtime, held) = (thread.runtime.clone(), Arc::clone(&thread.connections));
        Some(ThreadPlace { runtime, held })
    }

    /// Starts a thread if there are fewer than `wanted`, within the limit.
    fn start(&self, threads: &mut Vec<ConnectionThread>, wanted: usize) {
        if threads.len() < wanted.min(self.limit) {
            match ConnectionThread::start() {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::warn!("no thread for connections: {error}"),
            }
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl ConnectionThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let builder = thread::Builder::new().name("connections".to_owned());
        let thread = builder.spawn(move || {
            // Ends when the sender is dropped; nothing is sent.
            drop(runtime.block_on(ended));
            // A blocking task cannot be cancelled: do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connections: Arc::default(), running, thread })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::{ConnectionThreads, GROUP, ThreadPool};

    #[test]
    fn connections_fill_threads_in_groups() {
        let threads = ConnectionThreads::new();
        let (pool, limit) = (threads.pool(), threads.shared.limit);
        let first = pool.first_runtime().unwrap().id();
        let mut places: Vec<_> = (0..2 * limit * GROUP).map(|_| pool.place().unwrap()).collect();
        let ids: Vec<_> = places.iter().map(|place| place.runtime.id()).collect();
        let groups: Vec<_> = ids.chunks(GROUP).map(|group| group[0]).collect();
        assert!(ids.chunks(GROUP).zip(&groups).all(|(ids, id)| ids.iter().all(|one| one == id)));
        let (once, again) = groups.split_at(limit);
        assert_eq!((once[0], once), (first, again));
        assert!((1..limit).all(|at| !once[..at].contains(&once[at])));
        let left = places.pop().unwrap();
        let free = left.runtime.id();
        drop(left);
        assert_eq!(pool.place().unwrap().runtime.id(), free);
        assert!(ThreadPool::default().place().is_none());
        assert!(ThreadPool::default().first_runtime().is_none());
    }

    #[test]
    fn tasks_end_with_the_threads() {
        let threads = ConnectionThreads::new();
        let place = threads.pool().place().unwrap();
        let (ended, mut has_ended) = oneshot::channel::<()>();
        let task = place.runtime.spawn(async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        drop(threads);
        assert!(task.is_finished());
        assert_eq!(has_ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
