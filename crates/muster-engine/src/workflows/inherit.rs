//! Takes over the executions of replicas that died.

use std::{io, sync::Arc, time::Duration};

use muster_workflow::record::RunJournal;
use tokio::{sync::watch, time::sleep};
use tokio_util::task::TaskTracker;

use super::{
    Deps,
    resume::resume,
    shared_runs::{Ending, Inherited},
};
use crate::view::View;

/// The interval between checks for executions of dead replicas.
const INTERVAL: Duration = Duration::from_secs(2);

/// Takes over executions of dead replicas until the gateway shuts down.
pub(super) async fn inherit(deps: Deps, views: watch::Receiver<Arc<View>>, tasks: TaskTracker) {
    tokio::select! {
        () = watch_for_orphans(&deps, &views, &tasks) => (),
        () = deps.executions.interrupted() => (),
    }
}

async fn watch_for_orphans(deps: &Deps, views: &watch::Receiver<Arc<View>>, tasks: &TaskTracker) {
    let Some(runs) = deps.executions.of_all_replicas() else { return };
    loop {
        sleep(INTERVAL).await;
        let orphans = runs.orphans().await.unwrap_or_else(|error| {
            tracing::debug!("the executions of other replicas are not known: {error}");
            Vec::new()
        });
        for run in orphans {
            match runs.inherit(&run).await {
                Ok(Some(inherited)) => take_over(deps, views, tasks, inherited).await,
                Ok(None) => (),
                Err(error) => tracing::debug!("run {} is not taken over: {error}", run.id),
            }
        }
    }
}

async fn take_over(
    deps: &Deps,
    views: &watch::Receiver<Arc<View>>,
    tasks: &TaskTracker,
    inherited: Inherited,
) {
    let Inherited { id, lines, journal } = inherited;
    let executions = Arc::clone(&deps.executions);
    let name = id.clone();
    let lines = Arc::new(lines);
    let written = Arc::clone(&lines);
    let left = tokio::task::spawn_blocking(move || executions.inherit(&name, &written)).await;
    let left = match left.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(Some(left)) => left,
        // The execution never started, or has ended.
        Ok(None) => return deps.executions.close_shared(&id, &journal).await,
        Err(error) => {
            // This replica has taken it over but cannot continue it, so it has to close it.
            tracing::warn!("run {id} cannot be continued: {error}");
            let story = RunJournal::read(&String::from_utf8_lossy(&lines));
            let ending = match &story.opened {
                Some(opened) => Ending::Ended(Box::new(opened.record.clone().interrupted(&story))),
                None => Ending::Discarded,
            };
            return deps.executions.close_as(&id, &journal, ending).await;
        }
    };
    tracing::info!("run {id} of another replica, which died, is taken over");
    let view = Arc::clone(&views.borrow());
    let known = (&view.workflows, view.settings.namespace());
    if let Some(closed) = resume(deps, known, left, tasks, Some(journal)) {
        deps.executions.close_shared(&id, &closed).await;
    }
}
