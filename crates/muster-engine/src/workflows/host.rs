//! The host of an execution: calls through the dispatcher, the journal, time and randomness.

use muster_core::{
    backend::{BoxFuture, CallContext},
    call::{Call, CallError, Caller, Checking, Outcome},
    client::{Continuation, InputMode, InputRequired},
    json::{self, Raw, raw},
    name::ToolName,
    repair::values,
};
use muster_template::{Context, Limits};
use muster_workflow::{
    Object, PREFIX, Workflow,
    content::Content,
    report::{Report, Status},
    run::{Called, Host, Note},
};

use super::{Deps, execution::RunningExecution, not_found};
use crate::events::Reason;

/// A tool that still requests input after this many rounds never stops.
const MOST_ROUNDS: usize = 10;

/// An execution as its interpreter sees the gateway.
pub(super) struct Runner<'a> {
    cx: CallContext<'a>,
    caller: Caller,
    workflow: &'a Workflow,
    live: &'a RunningExecution,
    deps: &'a Deps,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        cx: CallContext<'a>,
        workflow: &'a Workflow,
        live: &'a RunningExecution,
        deps: &'a Deps,
    ) -> Self {
        let depth = cx.caller.depth.saturating_add(1);
        let caller = Caller { depth, ..cx.caller.clone() };
        Self { cx, caller, workflow, live, deps }
    }

    async fn called(&self, tool: &str, arguments: Object) -> Called {
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
            Ok(outcome) => match Content::of(outcome) {
                Some(content) => Called::Answered(content),
                None => Called::Lost(format!(
                    "failed to call tool {tool}: it asks questions that nobody can answer inside a \
                     workflow; call it by itself"
                )),
            },
            Err(CallError::UnknownTool { .. }) => match tool.strip_prefix(PREFIX) {
                Some(name) => missing(name),
                None => Called::Lost(format!("tool {tool} is not available")),
            },
            Err(error) => Called::Lost(format!("failed to call tool {tool}: {}", words(&error))),
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

    fn tell_end(&self, report: &Report) {
        let id = &report.id;
        if let Some(judged) = &report.condition {
            let held = if judged.holds { "true" } else { "false" };
            self.tell(Reason::WorkflowStepConditionEvaluated, &format!("{id}: {held}"));
        }
        match (report.status, &report.error) {
            (Status::Completed, _) => self.tell(Reason::WorkflowStepCompleted, id),
            (Status::Skipped, _) => self.tell(Reason::WorkflowStepSkipped, id),
            (Status::Failed, error) => {
                let error = error.as_deref().unwrap_or_default();
                self.tell(Reason::WorkflowStepFailed, &format!("{id}: {error}"));
            }
        }
    }
}

impl Host for Runner<'_> {
    fn call<'b>(&'b self, tool: &'b str, arguments: Object) -> BoxFuture<'b, Called> {
        Box::pin(self.called(tool, arguments))
    }

    fn note(&self, note: Note) -> BoxFuture<'_, ()> {
        match &note {
            Note::Begins { step, .. } => self.tell(Reason::WorkflowStepStarted, step),
            Note::Ended { report, .. } => self.tell_end(report),
        }
        Box::pin(self.live.note(note))
    }

    fn context(&self) -> Context<'_> {
        let now = jiff::Timestamp::now();
        let nanos = u32::try_from(now.subsec_nanosecond()).unwrap_or_default();
        Context {
            now: (now.as_second(), nanos),
            zone: "UTC",
            random: Some(&fill),
            limits: Limits::default(),
        }
    }
}

/// Without a source of randomness, values are not random.
fn fill(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        bytes.fill(0);
    }
}

/// The reply of an unknown workflow.
fn missing(name: &str) -> Called {
    match Content::of(Outcome::failure(not_found(name))) {
        Some(content) => Called::Answered(content),
        None => Called::Lost(not_found(name)),
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
