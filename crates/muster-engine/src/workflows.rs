//! The backend of workflows: each workflow is a tool whose steps call tools through the dispatcher.

mod effects;
mod execution;
mod executions;
mod host;
mod index;
mod inherit;
mod resume;
mod shared_runs;
mod source;
mod unsaved;

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext},
    call::{CallError, Caller, Outcome},
    caller_directory::CallerDirectory,
    policy::Permitted,
    spooled::ToolResult,
};
use muster_gateway::{
    call_turns::CallTurns,
    dispatch::{CallerSnapshots as _, GatewaySnapshot},
};
use muster_telemetry::Telemetry;
use muster_workflow::{
    JsonObject, Workflow, arguments,
    content::{with_blocks, with_execution_id},
    find_cycle,
    report::ReplyDetail,
    run::{self, CompletedSteps, RunOutcome, RunResult},
};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use self::{execution::RunningExecution, executions::Origin, host::Runner};
pub(crate) use self::{
    executions::{Executions, GetError, Query, owner},
    resume::resume_unfinished,
    source::{source, updated_source},
    unsaved::UnsavedRuns,
};
use crate::{
    events::{EventJournal, Reason},
    handle::Handle,
    unavailable_tools::Explainer,
    user_connections::UserConnections,
};

/// The argument by which a caller requests the results of all steps.
const DEBUG: &str = "_debug";

/// The workflows by name.
pub(crate) type Definitions = Arc<BTreeMap<String, Arc<Workflow>>>;

/// The dependencies of workflows. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Deps {
    pub(crate) executions: Arc<Executions>,
    pub(crate) journal: EventJournal,
    pub(crate) state: watch::Receiver<Arc<GatewaySnapshot>>,
    pub(crate) user_connections: Arc<UserConnections>,
    pub(crate) telemetry: Telemetry,
    pub(crate) directory: Option<Arc<dyn CallerDirectory>>,
}

impl Deps {
    /// Takes the dependencies from the engine's handle.
    pub(crate) fn of(handle: &Handle) -> Self {
        Self {
            executions: Arc::clone(&handle.executions),
            journal: handle.journal.clone(),
            state: handle.state.clone(),
            user_connections: Arc::clone(&handle.user_connections),
            telemetry: handle.telemetry.clone(),
            directory: handle.directory.clone(),
        }
    }

    /// The current snapshot, with the connections of one caller.
    fn snapshot_of(&self, caller: &Caller) -> Arc<GatewaySnapshot> {
        let shared = Arc::clone(&self.state.borrow());
        self.user_connections.snapshot(caller, shared)
    }

    /// The current snapshot for one caller.
    fn state_of(&self, caller: &Caller) -> Arc<GatewaySnapshot> {
        self.snapshot_of(caller).for_caller(caller)
    }
}

/// Runs the workflows of one snapshot.
#[derive(Debug)]
pub(crate) struct Workflows {
    definitions: Definitions,
    deps: Deps,
}

impl Workflows {
    pub(crate) fn new(definitions: Definitions, deps: Deps) -> Self {
        Self { definitions, deps }
    }

    async fn start(&self, cx: CallContext<'_>, name: &str, mut given: JsonObject) -> Outcome {
        let Some(workflow) = self.definitions.get(name) else {
            return Outcome::failure(not_found(name));
        };
        if let Some((why, detail)) = self.unavailable_reason(workflow, cx.caller, Origin::Saved) {
            self.tell(workflow, Reason::WorkflowUnavailable, &detail);
            return Outcome::failure(why);
        }
        let detail = reply_detail(&mut given);
        let (input, unfit) = match arguments::with_defaults(&workflow.spec, given.clone()) {
            Ok(input) => (input, None),
            Err(unfit) => (given, Some(unfit)),
        };
        let begun = self.begin(workflow, input.clone(), cx.caller, Origin::Saved).await;
        let live = match begun {
            Ok(live) => live,
            Err(failure) => return failure,
        };
        match unfit {
            Some(unfit) => self.end(workflow, live, refused(unfit.to_string())).await,
            None => self.run(cx, workflow, live, input, CompletedSteps::new(), detail).await,
        }
    }

    /// Opens the record of a run.
    async fn begin(
        &self,
        workflow: &Workflow,
        input: JsonObject,
        caller: &Caller,
        origin: Origin,
    ) -> Result<RunningExecution, Outcome> {
        let login = self.deps.directory.as_ref().and_then(|directory| directory.login_of(caller));
        let begun = self.deps.executions.begin(workflow, input, (caller, login), origin).await;
        let live = begun
            .map_err(|error| Outcome::failure(format!("the run cannot be recorded: {error}")))?;
        self.tell(workflow, Reason::WorkflowExecutionStarted, live.id());
        Ok(live)
    }

    /// Runs a workflow to its end.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the run")]
    async fn run(
        &self,
        cx: CallContext<'_>,
        workflow: &Workflow,
        live: RunningExecution,
        input: JsonObject,
        past: CompletedSteps,
        detail: ReplyDetail,
    ) -> Outcome {
        match self.interpret(cx, workflow, &live, None, input, past, detail).await {
            Some(ended) => self.end(workflow, live, ended).await,
            None => live.disown(),
        }
    }

    /// Runs the steps of a workflow, with the concurrency limit of `turns` if there is one. `None` if another gateway
    /// has taken over the run.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the run")]
    async fn interpret(
        &self,
        cx: CallContext<'_>,
        workflow: &Workflow,
        live: &RunningExecution,
        turns: Option<CallTurns>,
        input: JsonObject,
        past: CompletedSteps,
        detail: ReplyDetail,
    ) -> Option<RunOutcome> {
        let host = Runner::new(cx, workflow, live, &self.deps, turns);
        tokio::select! {
            ended = run::run(workflow, input, &host, past, detail) => Some(ended),
            () = live.lost() => None,
        }
    }

    async fn end(&self, workflow: &Workflow, live: RunningExecution, ended: RunOutcome) -> Outcome {
        let id = live.id().to_owned();
        self.close(workflow, live, &ended).await;
        let failed = ended.error.is_some();
        let RunOutcome { result, blocks, .. } = ended;
        let outcome = match result {
            RunResult::Value(result) => text(&result, failed),
            RunResult::Tool(outcome) => outcome,
            RunResult::Error(error) => text(&json!({"execution_id": "", "error": error}), true),
        };
        with_blocks(with_execution_id(outcome, &id), blocks)
    }

    /// Writes the record of a run that ended.
    async fn close(&self, workflow: &Workflow, live: RunningExecution, ended: &RunOutcome) {
        let RunOutcome { result: answer, error, reports, .. } = ended;
        self.tell(workflow, Reason::WorkflowExecutionTracked, live.id());
        match error {
            None => {
                let steps = match reports.len() {
                    1 => "1 step".to_owned(),
                    count => format!("{count} steps"),
                };
                let detail = format!("{steps} in {} ms", live.elapsed_ms());
                self.tell(workflow, Reason::WorkflowExecutionCompleted, &detail);
            }
            Some(error) => self.tell(workflow, Reason::WorkflowExecutionFailed, error),
        }
        let result = match answer {
            RunResult::Value(result) if error.is_none() => result.clone(),
            RunResult::Value(_) | RunResult::Tool(_) | RunResult::Error(_) => Json::Null,
        };
        live.end(reports, result, error.clone()).await;
    }

    /// Why a workflow cannot start: for its caller, and for its events.
    fn unavailable_reason(
        &self,
        workflow: &Workflow,
        caller: &Caller,
        origin: Origin,
    ) -> Option<(String, String)> {
        let name = &workflow.name;
        let snapshot = self.deps.snapshot_of(caller);
        let state = Arc::clone(&snapshot).for_caller(caller);
        let missing = missing_tools(workflow, &self.definitions, &state);
        if !missing.is_empty() {
            let tools = Explainer::new(caller, state, snapshot).in_words(&missing);
            let why = format!("workflow {name} is not available (missing required tools)\n{tools}");
            return Some((why, format!("missing tools: {}", missing.join(", "))));
        }
        let ceiling = caller.most_effect;
        if let Some(excess) = ceiling
            .and_then(|ceiling| effects::excess(workflow, &self.definitions, &state, ceiling))
        {
            return Some((excess.to_string(), excess.to_string()));
        }
        if origin == Origin::Unsaved {
            // Nothing can call it, even if a saved workflow has the name of unsaved ones.
            return None;
        }
        let way = find_cycle(workflow, &|name| self.definitions.get(name).map(|found| &**found))?;
        let why = format!(
            "workflow {name} calls itself: {}\nhint: remove one of these calls",
            way.join(" → ")
        );
        Some((why.clone(), why))
    }

    fn tell(&self, workflow: &Workflow, reason: Reason, detail: &str) {
        self.deps.journal.tell(reason, &workflow.name, &workflow.namespace, detail);
    }
}

impl Backend for Workflows {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let given = serde_json::from_str(call.raw_arguments().get()).unwrap_or_default();
            Ok(self.start(cx, &call.entry().local_name, given).await.into())
        })
    }
}

/// The tools that a workflow needs but the caller of a snapshot cannot call.
pub(crate) fn missing_tools(
    workflow: &Workflow,
    definitions: &Definitions,
    state: &GatewaySnapshot,
) -> Vec<String> {
    let find = |name: &str| definitions.get(name).map(|found| &**found);
    workflow.missing_tools(find, |tool| is_shown(state, tool))
}

/// Removes the reserved argument `_debug` from the arguments of a call, and reads it.
fn reply_detail(given: &mut JsonObject) -> ReplyDetail {
    match given.remove(DEBUG) {
        Some(Json::Bool(true)) => ReplyDetail::Debug,
        Some(Json::String(text)) if text == "true" => ReplyDetail::Debug,
        Some(_) | None => ReplyDetail::Visible,
    }
}

/// Whether a tool can be called.
fn is_shown(state: &GatewaySnapshot, tool: &str) -> bool {
    state.catalog.get(tool).is_some_and(|entry| state.policy.shows(entry))
}

/// The error for an unknown workflow.
pub(crate) fn not_found(name: &str) -> String {
    format!("workflow {name} not found")
}

fn text(result: &Json, failed: bool) -> Outcome {
    Outcome::Text { text: result.to_string(), failed, details: None }
}

fn refused(error: String) -> RunOutcome {
    let (reports, blocks) = (Vec::new(), Vec::new());
    RunOutcome { result: RunResult::Error(error.clone()), error: Some(error), reports, blocks }
}
