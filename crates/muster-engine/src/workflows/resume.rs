//! Resumes unfinished executions of an earlier gateway where no step can run twice, and closes the others
//! with a record.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_core::{
    backend::CallContext,
    call::{Caller, Role},
    caller_directory::CallerQuery,
    client::NoClient,
};
use muster_gateway::dispatch::Dispatcher;
use muster_workflow::{Workflow, record::RunStart, report::ReplyDetail, run::CompletedSteps};
use tokio::{sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    Definitions, Deps, Workflows,
    executions::{Left, Query, Why},
    inherit::inherit,
    missing_tools,
    shared_runs::SharedJournal,
    unsaved::NAME,
};
use crate::{events::Reason, store::Files, view::View};

/// The timeout for servers to connect.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Resumes or closes unfinished executions. Blocks while files are read.
pub(crate) fn resume_unfinished(
    deps: &Deps,
    files: &Files,
    views: &watch::Receiver<Arc<View>>,
    tasks: &TaskTracker,
) {
    let (definitions, namespace) = (files.definitions(), files.settings.namespace());
    tasks.spawn(inherit(deps.clone(), views.clone(), tasks.clone()));
    let executions = Arc::clone(&deps.executions);
    // Unreadable files are set aside now, not with the first query.
    tasks.spawn(async move { drop(executions.list(Query::default()).await) });
    for left in deps.executions.sweep() {
        drop(resume(deps, (&definitions, namespace), left, tasks, None));
    }
}

/// The workflow of an execution: of an unsaved one, the definition in its record.
fn workflow_of(definitions: &Definitions, namespace: &str, left: &Left) -> Option<Arc<Workflow>> {
    let record = &left.opened.record;
    let unsaved = record.unsaved().map(|spec| Arc::new(Workflow::new(NAME, namespace, spec)));
    unsaved.or_else(|| definitions.get(&record.workflow_name).cloned())
}

/// Resumes an unfinished execution in the background, or closes it. Returns the shared journal of one that was closed.
/// Unsaved workflows are in the namespace of the gateway.
pub(super) fn resume(
    deps: &Deps,
    (definitions, namespace): (&Definitions, &str),
    left: Left,
    tasks: &TaskTracker,
    shared: Option<Arc<SharedJournal>>,
) -> Option<Arc<SharedJournal>> {
    let workflow = workflow_of(definitions, namespace, &left);
    let past = workflow.as_ref().and_then(|workflow| left.story.resumable(&workflow.spec));
    match (workflow, past, caller_of(deps, &left.opened)) {
        (Some(workflow), Some(past), Some(caller)) => {
            let workflows = Workflows::new(Arc::clone(definitions), deps.clone());
            tasks.spawn(continue_run(workflows, workflow, left, caller, past, shared));
            None
        }
        (workflow, ..) => {
            give_up(deps, workflow.as_deref(), &left);
            shared
        }
    }
}

/// The caller that an execution is continued for: it may do what it might have done before, not more.
///
/// There is none for a user who logged in, whose login this gateway does not have, nor for a token that was revoked or has
/// expired since.
fn caller_of(deps: &Deps, opened: &RunStart) -> Option<Caller> {
    let caller = match &opened.token {
        None => {
            let toolset = opened.toolset.as_deref().map(Into::into);
            Caller { role: Role::Operator, toolset, ..Caller::local() }
        }
        Some(name) => {
            let directory = deps.directory.as_ref()?;
            let tokens = directory.tokens().ok()?;
            let token = tokens.iter().find(|token| token.name == *name)?;
            let began: Timestamp = opened.record.started_at.parse().ok()?;
            let is_same = i64::try_from(token.created).is_ok_and(|at| at <= began.as_second());
            if token.is_expired || !is_same {
                return None;
            }
            let (token, toolset) = (Some(name.clone()), opened.toolset.clone());
            let query = CallerQuery { token, toolset, ..CallerQuery::default() };
            directory.caller(&query).ok()?
        }
    };
    let role = if opened.operator { Role::Operator } else { Role::Agent };
    let role = role.min(caller.role);
    (*caller.subject == *opened.subject).then(|| Caller {
        role,
        most_effect: opened.most_effect,
        ..caller
    })
}

async fn continue_run(
    workflows: Workflows,
    workflow: Arc<Workflow>,
    left: Left,
    caller: Caller,
    past: CompletedSteps,
    shared: Option<Arc<SharedJournal>>,
) {
    let deps = &workflows.deps;
    let mut states = deps.state.clone();
    let definitions = &workflows.definitions;
    let is_there = states.wait_for(|state| missing_tools(&workflow, definitions, state).is_empty());
    let is_there = tokio::select! {
        found = timeout(LONGEST_WAIT, is_there) => found.is_ok_and(|state| state.is_ok()),
        () = deps.executions.interrupted() => return,
    };
    let live = match is_there {
        true => deps.executions.reopen(&left).await,
        false => Err(std::io::Error::other("its tools are not available")),
    };
    let id = &left.opened.record.execution_id;
    let live = match live {
        Ok(live) => live.shared_as(shared),
        Err(error) => {
            tracing::warn!("run {id} of workflow {} is not continued: {error}", workflow.name);
            let (executions, id) = (Arc::clone(&deps.executions), id.clone());
            executions.abandon(id, Why::Interrupted, shared);
            return;
        }
    };
    tracing::info!("run {id} of workflow {} continues where it was interrupted", workflow.name);
    let dispatcher = Dispatcher::new(deps.state.clone());
    let dispatcher = dispatcher
        .with_principals(deps.principals.clone())
        .with_observer(deps.telemetry.observer());
    let client = NoClient::shared();
    let cx = CallContext { client: &client, caller: &caller, tools: &dispatcher };
    let input = left.opened.record.input.clone();
    tokio::select! {
        _outcome = workflows.run(cx, &workflow, live, input, past, ReplyDetail::Visible) => (),
        // Dropped, it is left for the next gateway.
        () = deps.executions.interrupted() => (),
    }
}

fn give_up(deps: &Deps, workflow: Option<&Workflow>, left: &Left) {
    let record = &left.opened.record;
    let (id, name) = (&record.execution_id, &record.workflow_name);
    tracing::warn!("run {id} of workflow {name} was interrupted when the gateway ended");
    if let Err(error) = deps.executions.give_up(id, Why::Interrupted) {
        tracing::warn!("the record of run {id} cannot be written: {error}");
    }
    let namespace = workflow.map_or("default", |workflow| workflow.namespace.as_str());
    let detail = format!("run {id} was interrupted when the gateway ended");
    deps.journal.tell(Reason::WorkflowExecutionFailed, name, namespace, &detail);
}
