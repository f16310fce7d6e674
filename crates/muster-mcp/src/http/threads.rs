//! The threads that serve connections.
//!
//! A connection stays on one thread, together with the requests that it carries and the upstream connections that they
//! open. The threads of a common queue take tasks from each other instead, and with every task that changes its thread, its
//! memory moves from the cache of one processor to that of another: with two threads that was a third of the CPU time of a
//! call. What takes long is no concern of these threads: it would delay the other connections of its thread.

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

/// The threads that serve connections. They end when this is dropped, which must not happen on one of them.
#[derive(Debug)]
pub struct ConnectionThreads {
    shared: ThreadPool,
}

/// Where connections are given to threads. Clones share the threads.
#[derive(Clone)]
pub struct ThreadPool {
    threads: Arc<Lock<Vec<ConnectionThread>>>,
    /// The number of threads; none are started for a pool without.
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

/// The place of a connection on a thread.
pub(super) struct ThreadPlace {
    pub(super) runtime: Handle,
    /// Counts the connection.
    pub(super) held: Arc<()>,
}

impl ConnectionThreads {
    /// As many threads as there are processors. Each starts when there are as many connections.
    pub fn new() -> Self {
        let limit = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { shared: ThreadPool { threads: Arc::default(), limit } }
    }

    /// Where connections are given to them.
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
    /// No threads: connections are served by the runtime that accepts them.
    pub fn none() -> Self {
        Self { threads: Arc::default(), limit: 0 }
    }

    /// A place on the thread with the fewest connections, or on a new one.
    pub(super) fn place(&self) -> Option<ThreadPlace> {
        let mut threads = self.threads.lock();
        let load = |thread: &ConnectionThread| Arc::strong_count(&thread.connections);
        let lowest = threads.iter().map(load).min();
        if threads.len() < self.limit && lowest.is_none_or(|lowest| lowest > 1) {
            match ConnectionThread::start() {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::warn!("no thread for connections: {error}"),
            }
        }
        let thread = threads.iter().min_by_key(|thread| load(thread))?;
        let (runtime, held) = (thread.runtime.clone(), Arc::clone(&thread.connections));
        Some(ThreadPlace { runtime, held })
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
            // The sender is dropped, nothing is sent.
            drop(runtime.block_on(ended));
            // A blocking task cannot be cancelled: do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connections: Arc::default(), running, thread })
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroUsize, thread};

    use tokio::sync::oneshot;

    use super::{ConnectionThreads, ThreadPool};

    #[test]
    fn the_thread_with_the_fewest_connections_is_next() {
        let threads = ConnectionThreads::new();
        let (pool, limit) = (threads.pool(), threads.shared.limit);
        let id = |place: &super::ThreadPlace| place.runtime.id();
        let mut places: Vec<_> = (0..2 * limit).map(|_| pool.place().unwrap()).collect();
        let mut ids: Vec<_> = places.iter().map(|place| id(place).to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), thread::available_parallelism().map_or(1, NonZeroUsize::get));
        let left = places.swap_remove(1);
        let free = id(&left);
        drop(left);
        assert_eq!(id(&pool.place().unwrap()), free);
        assert!(ThreadPool::none().place().is_none());
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
