//! Hands executions over between replicas: others continue those of this one, and vice versa.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    sync::Arc,
    time::Duration,
};

use muster_core::{backend::boxed, backoff::Backoff, shared::ReplicaLink};
use tokio::time::sleep;

use super::{
    super::shared_runs::{Ending, Settled, SharedJournal, SharedRuns},
    Executions, FILE_MODE, Left, blocking, read,
};

/// The backoff of retries at the shared storage.
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };

impl Executions {
    /// Shares the executions: replicas continue those of a replica that is lost.
    pub(crate) fn shared_by(self, link: Option<Arc<dyn ReplicaLink>>) -> Self {
        Self { shared: link.map(SharedRuns::new), ..self }
    }

    /// The executions of all replicas, if there are several.
    pub(in super::super) const fn of_all_replicas(&self) -> Option<&SharedRuns> {
        self.shared.as_ref()
    }

    /// Writes the journal and the record of an execution that this replica has taken over. Blocks.
    pub(in super::super) fn inherit(&self, id: &str, lines: &[u8]) -> io::Result<Option<Left>> {
        fs::create_dir_all(&self.folder)?;
        let path = self.journal_path(id);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE);
        io::Write::write_all(&mut options.open(&path)?, lines)?;
        let left = self.left_behind(&path);
        if let Some(left) = &left {
            self.put(&left.opened.record)?;
        }
        Ok(left)
    }

    /// Closes the shared journal of an execution, with the record that this replica has of it.
    pub(in super::super) async fn close_shared(
        self: &Arc<Self>,
        id: &str,
        journal: &Arc<SharedJournal>,
    ) {
        let path = self.record_path(id);
        let ending = match blocking(move || read(&path)).await {
            Ok(record) => Ending::Ended(Box::new(record)),
            Err(_) => Ending::Interrupted,
        };
        self.close_as(id, journal, ending).await;
    }

    /// Closes the shared journal of an execution, in the background if the shared storage is not available.
    pub(in super::super) async fn close_as(
        self: &Arc<Self>,
        id: &str,
        journal: &Arc<SharedJournal>,
        ending: Ending,
    ) {
        let is_closed = match &ending {
            Ending::Ended(record) => journal.close(record).await,
            Ending::Discarded | Ending::Interrupted => false,
        };
        if !is_closed {
            self.settle(id.to_owned(), ending, Some(Arc::clone(journal)));
        }
    }

    /// Closes an execution whose shared journal could not be written, as soon as it can be: while this replica is
    /// alive, no other looks for it. Until then the execution is `held`, so that this replica does not inherit it from
    /// itself.
    pub(in super::super) fn settle(
        self: &Arc<Self>,
        id: String,
        ending: Ending,
        held: Option<Arc<SharedJournal>>,
    ) {
        let this = Arc::clone(self);
        self.tasks.spawn(boxed(async move {
            let _held = held;
            let settling = this.settled(&id, ending);
            tokio::select! {
                () = settling => (),
                // At shutdown, leave it for another replica to take over.
                () = this.interrupted() => (),
            }
        }));
    }

    async fn settled(self: &Arc<Self>, id: &str, mut ending: Ending) {
        let Some(shared) = &self.shared else { return };
        let is_running_here = matches!(ending, Ending::Interrupted);
        let mut retries = 0;
        let settled = loop {
            match shared.settle(id, &mut ending).await {
                Ok(settled) => break settled,
                Err(error) => tracing::debug!("run {id} is not closed yet: {error}"),
            }
            sleep(RETRY.delay(retries)).await;
            retries += 1;
        };
        match settled {
            _ if !is_running_here => (),
            Settled::Closed(Some(record)) => self.conclude(*record).await,
            Settled::Closed(None) | Settled::TakenOver => self.forget(id).await,
        }
    }

    /// Forgets an execution that another replica has taken over.
    async fn forget(&self, id: &str) {
        if let Some(stored) = &self.stored {
            stored.release(id);
        }
        for path in [self.journal_path(id), self.record_path(id)] {
            drop(tokio::fs::remove_file(path).await);
        }
        self.live.lock().await.remove(id);
    }
}
