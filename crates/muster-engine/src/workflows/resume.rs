//! Resumes unfinished executions of an earlier gateway if no step can run twice, and closes the others with a
//! record.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_core::{
    backend::{CallContext, boxed},
    call::{Caller, Role},
    caller_directory::{CallerQuery, LoginReference},
    client::NoClient,
};
use muster_gateway::dispatch::{CallerSnapshots as _, Dispatcher, GatewaySnapshot};
use muster_workflow::{Workflow, record::RunStart, report::ReplyDetail, run::CompletedSteps};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    Definitions, Deps, Workflows,
    execution::RunningExecution,
    executions::{Left, Query, Why},
    inherit::inherit,
    missing_tools,
    shared_runs::SharedJournal,
    unsaved::NAME,
};
use crate::{events::Reason, store::Files, view::View};

/// The timeout for servers to connect, and for the login storage to answer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The interval between checks for tools and logins that may become available later.
const RETRY: Duration = Duration::from_secs(1);

/// Resumes or closes unfinished executions. Blocks while files are read.
pub(crate) fn resume_unfinished(
    deps: &Deps,
    files: &Files,
    views: &watch::Receiver<Arc<View>>,
    tasks: &TaskTracker,
) {
    let (definitions, namespace) = (files.definitions(), files.settings.namespace());
    tasks.spawn(boxed(inherit(deps.clone(), views.clone(), tasks.clone())));
    let executions = Arc::clone(&deps.executions);
    // Set unreadable files aside now rather than with the first query.
    tasks.spawn(boxed(async move { drop(executions.list(Query::default()).await) }));
    for left in deps.executions.sweep() {
        drop(resume(deps, (&definitions, namespace), left, tasks, None));
    }
}

/// The workflow of an execution; for an unsaved run, the definition in its record.
fn workflow_of(definitions: &Definitions, namespace: &str, left: &Left) -> Option<Arc<Workflow>> {
    let record = &left.opened.record;
    let unsaved = record.unsaved().map(|spec| Arc::new(Workflow::new(NAME, namespace, spec)));
    unsaved.or_else(|| definitions.get(&record.workflow_name).cloned())
}

/// Resumes an unfinished execution in the background, or closes it and returns its shared journal. Unsaved workflows
/// are in the namespace of the gateway.
pub(super) fn resume(
    deps: &Deps,
    (definitions, namespace): (&Definitions, &str),
    left: Left,
    tasks: &TaskTracker,
    shared: Option<Arc<SharedJournal>>,
) -> Option<Arc<SharedJournal>> {
    let workflow = workflow_of(definitions, namespace, &left);
    let past = workflow.as_ref().and_then(|workflow| left.story.resumable(&workflow.spec));
    let starter = match &left.opened.login {
        Some(login) => Some(Starter::Login(login.clone())),
        None => caller_of(deps, &left.opened).map(|caller| Starter::Known(Box::new(caller))),
    };
    match (workflow, past, starter) {
        (Some(workflow), Some(past), Some(starter)) => {
            let workflows = Workflows::new(Arc::clone(definitions), deps.clone());
            tasks.spawn(boxed(continue_run(workflows, workflow, left, starter, past, shared)));
            None
        }
        (workflow, past, starter) => {
            let is_refused = past.is_some() && starter.is_none();
            let why = if is_refused { Why::NotAdmitted } else { Why::Interrupted };
            if let Err(error) = deps.executions.give_up(&left.opened.record.execution_id, why) {
                let id = &left.opened.record.execution_id;
                tracing::warn!("the record of run {id} cannot be written: {error}");
            }
            tell(deps, workflow.as_deref(), &left);
            shared
        }
    }
}

/// The caller that started an execution.
enum Starter {
    Known(Box<Caller>),
    /// A user, whose login may have ended.
    Login(LoginReference),
}

/// The caller that an execution is continued for, unless a user who logged in has started it.
///
/// `None` for a token that was revoked or has expired since, and for a user whose login the gateway did not issue,
/// because its issuer may have ended it.
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
    limited(caller, opened)
}

/// Limits a caller to the rights that it had before; `None` if the subject is a different one.
fn limited(caller: Caller, opened: &RunStart) -> Option<Caller> {
    let role = if opened.operator { Role::Operator } else { Role::Agent };
    let role = role.min(caller.role);
    (*caller.subject == *opened.subject).then(|| Caller {
        role,
        most_effect: opened.most_effect,
        ..caller
    })
}

/// The user who started an execution, if their login has not ended. The error says why this is unknown.
async fn logged_in(
    deps: &Deps,
    login: &LoginReference,
    opened: &RunStart,
) -> Result<Option<Caller>, String> {
    let Some(directory) = &deps.directory else { return Ok(None) };
    let asking = async {
        loop {
            match directory.logged_in(login, opened.toolset.as_deref()).await {
                Ok(caller) => return caller.and_then(|caller| limited(caller, opened)),
                Err(error) => tracing::debug!("the login of a run is not known: {error}"),
            }
            sleep(RETRY).await;
        }
    };
    timeout(LONGEST_WAIT, asking).await.map_err(|_| "its login cannot be checked".to_owned())
}

/// Waits until a caller has the tools of a workflow, including those of servers that the caller logged in to.
async fn has_tools(workflows: &Workflows, workflow: &Workflow, caller: &Caller) -> bool {
    let (deps, definitions) = (&workflows.deps, &workflows.definitions);
    let mut states = deps.state.clone();
    let waiting = async {
        loop {
            if let Some(connected) = Arc::clone(&deps.user_connections).touch(caller) {
                connected.await;
            }
            let shared = Arc::clone(&states.borrow_and_update());
            // An available tool that the caller may no longer call is refused when it is called.
            let is_there =
                |state: &GatewaySnapshot| missing_tools(workflow, definitions, state).is_empty();
            if is_there(&shared) || is_there(&deps.state_of(caller)) {
                return true;
            }
            // Poll, because connections of a single caller do not change the shared state.
            if let Ok(Err(_)) = timeout(RETRY, states.changed()).await {
                return false;
            }
        }
    };
    timeout(LONGEST_WAIT, waiting).await.unwrap_or(false)
}

async fn continue_run(
    workflows: Workflows,
    workflow: Arc<Workflow>,
    left: Left,
    starter: Starter,
    past: CompletedSteps,
    shared: Option<Arc<SharedJournal>>,
) {
    let deps = &workflows.deps;
    let prepared = tokio::select! {
        prepared = prepare(&workflows, &workflow, &left, starter) => prepared,
        () = deps.executions.interrupted() => return,
    };
    let id = &left.opened.record.execution_id;
    let (caller, live) = match prepared {
        Ok((caller, live)) => (caller, live.shared_as(shared)),
        Err((why, error)) => {
            tracing::warn!("run {id} of workflow {} is not continued: {error}", workflow.name);
            tell(deps, Some(&workflow), &left);
            deps.executions.abandon(id.clone(), why, shared);
            return;
        }
    };
    tracing::info!("run {id} of workflow {} continues where it was interrupted", workflow.name);
    let dispatcher = Dispatcher::new(deps.state.clone());
    let dispatcher = dispatcher
        .with_principals(deps.user_connections.clone())
        .with_observer(deps.telemetry.observer());
    let client = NoClient::shared();
    let cx = CallContext { client: &client, caller: &caller, tools: &dispatcher, sent: None };
    let input = left.opened.record.input.clone();
    tokio::select! {
        _outcome = workflows.run(cx, &workflow, live, input, past, ReplyDetail::Visible) => (),
        // Dropping the run leaves it for the next gateway.
        () = deps.executions.interrupted() => (),
    }
}

/// Determines the caller of an execution, waits for its tools, and reopens it.
async fn prepare(
    workflows: &Workflows,
    workflow: &Workflow,
    left: &Left,
    starter: Starter,
) -> Result<(Caller, RunningExecution), (Why, String)> {
    let deps = &workflows.deps;
    let caller = match starter {
        Starter::Known(caller) => *caller,
        Starter::Login(login) => {
            let caller = logged_in(deps, &login, &left.opened).await;
            let caller = caller.map_err(|error| (Why::Interrupted, error))?;
            caller.ok_or_else(|| (Why::NotAdmitted, "its login has ended".to_owned()))?
        }
    };
    if !has_tools(workflows, workflow, &caller).await {
        return Err((Why::Interrupted, "its tools are not available".to_owned()));
    }
    let live = deps.executions.reopen(left).await;
    live.map(|live| (caller, live)).map_err(|error| (Why::Interrupted, error.to_string()))
}

/// Reports that an execution is not continued.
fn tell(deps: &Deps, workflow: Option<&Workflow>, left: &Left) {
    let record = &left.opened.record;
    let (id, name) = (&record.execution_id, &record.workflow_name);
    tracing::warn!("run {id} of workflow {name} was interrupted when the gateway ended");
    let namespace = workflow.map_or("default", |workflow| workflow.namespace.as_str());
    let detail = format!("run {id} was interrupted when the gateway ended");
    deps.journal.tell(Reason::WorkflowExecutionFailed, name, namespace, &detail);
}
