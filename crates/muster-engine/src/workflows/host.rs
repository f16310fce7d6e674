//! The host of an execution: calls through the dispatcher, the journal, time and randomness.

use muster_core::{
    backend::{BoxFuture, CallContext},
    call::{Call, CallError, Caller, Checking, Outcome},
    client::{Continuation, InputMode, InputRequired},
    json::{self, Raw, raw},
    name::ToolName,
    repair::values,
};
use muster_gateway::call_turns::CallTurns;
use muster_template::{RenderContext, RenderLimits};
use muster_workflow::{
    JsonObject, TOOL_PREFIX, Workflow,
    content::ToolContent,
    report::{StepReport, StepStatus},
    run::{CallOutcome, Host, JournalNote, RunBounds},
};

use super::{Deps, execution::RunningExecution, not_found};
use crate::events::Reason;

/// A tool that still requests input after this many rounds never stops.
const MOST_ROUNDS: usize = 10;
/// The limits of an unsaved run. Saved workflows have none, because operators write them.
const UNSAVED: RunBounds = RunBounds { calls: 1_000, bytes: 64 << 20, rendered: 256 << 20 };

/// The gateway as the interpreter of an execution sees it.
pub(super) struct Runner<'a> {
    cx: CallContext<'a>,
    caller: Caller,
    workflow: &'a Workflow,
    live: &'a RunningExecution,
    deps: &'a Deps,
    /// The concurrency limiter of its calls, if they count against the limits of the caller.
    turns: Option<CallTurns>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        cx: CallContext<'a>,
        workflow: &'a Workflow,
        live: &'a RunningExecution,
        deps: &'a Deps,
        turns: Option<CallTurns>,
    ) -> Self {
        let depth = cx.caller.depth.saturating_add(1);
        let caller = Caller { depth, ..cx.caller.clone() };
        Self { cx, caller, workflow, live, deps, turns }
    }

    async fn called(&self, tool: &str, arguments: JsonObject) -> CallOutcome {
        let turn = match &self.turns {
            Some(turns) => turns.begin(&**self.cx.client).await.map(Some),
            None => Ok(None),
        };
        let _turn = match turn {
            Ok(turn) => turn,
            Err(too_many) => return CallOutcome::Failed(too_many.message),
        };
        let arguments = raw(&arguments);
        let mut answer = self.answered(tool, arguments.clone()).await;
        // Templates render text, also where a tool takes a number.
        let refused = matches!(&answer, Err(CallError::InvalidArguments { tool: of, .. }) if of.as_str() == tool);
        let mended = match refused {
            true => {
                let state = self.deps.state_of(&self.caller);
                state.catalog.get(tool).and_then(|entry| values::repair(entry, &arguments))
            }
            false => None,
        };
        if let Some(mended) = mended {
            answer = self.answered(tool, mended.arguments).await;
        }
        match answer {
            Ok(outcome) => match ToolContent::of(outcome) {
                Some(content) => CallOutcome::Returned(content),
                None => CallOutcome::Failed(format!(
                    "failed to call tool {tool}: it asks questions that nobody can answer inside a \
                     workflow; call it by itself"
                )),
            },
            Err(CallError::UnknownTool { .. }) => match tool.strip_prefix(TOOL_PREFIX) {
                Some(name) => missing(name),
                None => CallOutcome::Failed(format!("tool {tool} is not available")),
            },
            Err(error) => {
                CallOutcome::Failed(format!("failed to call tool {tool}: {}", words(&error)))
            }
        }
    }

    /// Calls a tool, and asks the client for the input it requests.
    async fn answered(&self, tool: &str, arguments: Raw) -> Result<Outcome, CallError> {
        let mut continuation = Continuation::default();
        for _ in 0..MOST_ROUNDS {
            let name = ToolName::new(tool);
            let mut call = Call::new(name, arguments.clone(), Checking::Strict);
            call.continuation = continuation;
            let outcome = self.cx.tools.call(&self.caller, self.cx.client, call).await?;
            let Outcome::InputRequired(needs) = outcome else { return Ok(outcome) };
            if self.cx.client.input_mode() != InputMode::Direct {
                return Ok(Outcome::InputRequired(needs));
            }
            continuation = self.asked(needs).await?;
        }
        let message = format!("it still asks questions after {MOST_ROUNDS} rounds");
        Err(CallError::Upstream { code: -32603, message, data: None })
    }

    async fn asked(&self, needs: InputRequired) -> Result<Continuation, CallError> {
        let mut answers = json::RawObject::new();
        for (key, question) in needs.requests {
            let answer = self.cx.client.request_input(question).await.map_err(|error| {
                CallError::Upstream { code: -32603, message: error.to_string(), data: None }
            })?;
            answers.set(key, std::borrow::Cow::Owned(answer));
        }
        Ok(Continuation { responses: Some(answers.to_raw()), state: needs.state })
    }

    fn tell(&self, reason: Reason, detail: &str) {
        let Workflow { name, namespace, .. } = self.workflow;
        self.deps.journal.tell(reason, name, namespace, detail);
    }

    fn tell_end(&self, report: &StepReport) {
        let id = &report.id;
        if let Some(judged) = &report.condition {
            let held = if judged.holds { "true" } else { "false" };
            self.tell(Reason::WorkflowStepConditionEvaluated, &format!("{id}: {held}"));
        }
        match (report.status, &report.error) {
            (StepStatus::Completed, _) => self.tell(Reason::WorkflowStepCompleted, id),
            (StepStatus::Skipped, _) => self.tell(Reason::WorkflowStepSkipped, id),
            (StepStatus::Failed, error) => {
                let error = error.as_deref().unwrap_or_default();
                self.tell(Reason::WorkflowStepFailed, &format!("{id}: {error}"));
            }
        }
    }
}

impl Host for Runner<'_> {
    fn call<'b>(&'b self, tool: &'b str, arguments: JsonObject) -> BoxFuture<'b, CallOutcome> {
        Box::pin(self.called(tool, arguments))
    }

    fn journal(&self, note: JournalNote) -> BoxFuture<'_, ()> {
        match &note {
            JournalNote::Begins { id, tool, .. } => {
                self.tell(Reason::WorkflowStepStarted, &format!("{id}: {tool}"));
            }
            JournalNote::Ended { report, .. } => self.tell_end(report),
        }
        Box::pin(self.live.note(note))
    }

    fn limits(&self) -> Option<RunBounds> {
        self.live.is_unsaved().then_some(UNSAVED)
    }

    fn context(&self) -> RenderContext<'_> {
        let now = jiff::Timestamp::now();
        let nanos = u32::try_from(now.subsec_nanosecond()).unwrap_or_default();
        RenderContext {
            now: (now.as_second(), nanos),
            zone: "UTC",
            random: Some(&fill),
            limits: RenderLimits::default(),
            budget: None,
        }
    }
}

/// Fills a buffer with random bytes, or with zeros without a source of randomness.
fn fill(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        bytes.fill(0);
    }
}

/// The reply of an unknown workflow.
fn missing(name: &str) -> CallOutcome {
    match ToolContent::of(Outcome::failure(not_found(name))) {
        Some(content) => CallOutcome::Returned(content),
        None => CallOutcome::Failed(not_found(name)),
    }
}

fn words(error: &CallError) -> String {
    match error {
        CallError::InvalidArguments { tool, problems, .. } => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("the arguments do not fit `{tool}`: {}", problems.join("; "))
        }
        CallError::PolicyViolation { tool, violations } => {
            format!("the policy refuses these arguments of `{tool}`: {}", violations.join("; "))
        }
        error => error.to_string(),
    }
}
