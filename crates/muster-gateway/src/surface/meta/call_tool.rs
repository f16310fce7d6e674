//! `call_tool`: runs any tool of the catalog.

use std::borrow::Cow;

use muster_core::{
    call::{Call, CallError, Checking, Outcome},
    catalog::ToolEntry,
    client::Continuation,
    effect::{Effect, ExcessiveEffect},
    json::{Raw, RawObject},
    name::ToolName,
    repair::{
        RepairedCall, UnreadableCall,
        envelope::{read, well_formed},
        values,
    },
    request::RequestError,
    spooled::ToolResult,
};
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run,
    arguments::MetaArguments,
    budget::Budget,
    envelope, error_text,
    fitting::{FitError, projected},
    page::echo,
    projection::Projection,
};
use crate::surface::ToolCall;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "call_tool",
    description: "Run a tool: {\"name\":\"x_github_create_issue\",\"arguments\":{\"title\":\"Bug\"}}. The answer is JSON \
        text with isError and content; a long one is previewed, with a handle for get_output. `select` (JSONPath), \
        `grep`, `head`: the part you need. `effect`: the worst the tool may do.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"},"effect":{"enum":["read","write","destructive"]},"select":{"type":"string"},"grep":{"type":"string"},"head":{"type":"integer"}},"required":["name"]}"#,
    budget: 16_000,
    run: Run::Call(run),
};

/// The error code of a legacy server that requires a visit in the browser first. The client must see it unchanged.
pub(super) const URL_ELICITATION: i64 = -32042;
/// The key of the backend's own error in `_meta`.
const ERROR: &str = "muster/error";

fn run<'a>(
    cx: &'a MetaContext<'a>,
    call: &'a ToolCall,
    given: MetaArguments<'a>,
) -> OutcomeFuture<'a> {
    run_within(cx, call, given, None)
}

/// Runs a tool. `ceiling` is the worst effect that the meta-tool itself allows.
pub(super) fn run_within<'a>(
    cx: &'a MetaContext<'a>,
    call: &'a ToolCall,
    given: MetaArguments<'a>,
    ceiling: Option<Effect>,
) -> OutcomeFuture<'a> {
    let parsed = parse_call(cx, &call.arguments, given, ceiling);
    Box::pin(async move {
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(outcome) => return Ok(outcome),
        };
        let ParsedCall { call: parsed, most, projection } = parsed;
        let (meta, continuation) = (call.meta.clone(), call.continuation.clone());
        let sent = send(cx, meta, continuation, most, parsed).await;
        match sent.answer {
            Ok(result) => Ok(wrapped(cx, result, projection, &sent.repairs).await),
            Err(CallError::Upstream { code: code @ URL_ELICITATION, message, data }) => {
                Err(RequestError::Upstream { code, message, data })
            }
            Err(CallError::ExcessiveEffect(excess)) if ceiling.is_some() => {
                Ok(refused(cx, &call.name, &excess, &sent.repairs))
            }
            Err(error) => Ok(failed(cx, &sent.arguments, &error, &sent.repairs)),
        }
    })
}

/// A call that was understood.
pub(super) struct ParsedCall {
    pub(super) call: RepairedCall,
    /// The worst effect that its tool may have.
    pub(super) most: Option<Effect>,
    /// The part of its result that is requested.
    pub(super) projection: Option<Projection>,
}

/// Reads a call, or returns the outcome if it cannot be run. `given` are the arguments in `written`; the tool may have at most
/// the effect `ceiling`.
pub(super) fn parse_call(
    cx: &MetaContext<'_>,
    written: &RawValue,
    given: MetaArguments<'_>,
    ceiling: Option<Effect>,
) -> Result<ParsedCall, Outcome> {
    let lookup = |name: &str| shown(cx, name);
    let own = own_keys(cx, &given);
    let has_own = OWN.iter().any(|key| given.raw(key).is_some());
    let is_own = |key: &str| own.contains(&key);
    let failure = |problem: String| Outcome::failure(cx.budget.cut(&problem));
    let effect = effect(&given, is_own("effect")).map_err(failure)?;
    let projection = Projection::read(&given, is_own).map_err(failure)?;
    let mut members = given.into_members();
    own.iter().for_each(|key| members.remove(key));
    let repaired = match well_formed(&members, &lookup) {
        Some(call) => Ok(call),
        None if has_own => read(&members.to_raw(), &lookup),
        None => read(written, &lookup),
    };
    let call = repaired.map_err(|misuse| misused(misuse, cx.budget))?;
    let most = effect.into_iter().chain(ceiling).min();
    Ok(ParsedCall { call, most, projection })
}

/// The answer to a call, and how the call was repaired.
pub(super) struct SentCall {
    pub(super) answer: Result<ToolResult, CallError>,
    pub(super) arguments: Raw,
    pub(super) repairs: Vec<String>,
}

/// Sends a call, and repeats it with repaired arguments if they are invalid.
pub(super) async fn send(
    cx: &MetaContext<'_>,
    meta: Option<Raw>,
    continuation: Continuation,
    most: Option<Effect>,
    call: RepairedCall,
) -> SentCall {
    let RepairedCall { tool, mut arguments, mut repairs } = call;
    let bounded = most.map(|most| cx.request.caller.within(most));
    let request = cx.request.as_caller(bounded.as_ref());
    let send = |arguments: Raw| Call {
        tool: ToolName::new(tool.as_str()),
        arguments,
        checking: Checking::Strict,
        meta: meta.clone(),
        continuation: continuation.clone(),
    };
    let mut answer = request.call(send(arguments.clone())).await;
    // Invalid arguments mean that nothing ran: only then may a repaired call be sent.
    let refused =
        matches!(&answer, Err(CallError::InvalidArguments { tool: of, .. }) if of.as_str() == tool);
    let mended =
        shown(cx, &tool).filter(|_| refused).and_then(|entry| values::repair(entry, &arguments));
    if let Some(mended) = mended {
        repairs.extend(mended.repairs);
        arguments = mended.arguments;
        answer = request.call(send(arguments.clone())).await;
    }
    SentCall { answer, arguments, repairs }
}

/// The reply for a call that did not run.
pub(super) fn failed(
    cx: &MetaContext<'_>,
    arguments: &RawValue,
    error: &CallError,
    repairs: &[String],
) -> Outcome {
    let text = error_text::error(cx.meta, cx.request.snapshot, arguments, error);
    let text = format!("Tool execution failed: {text}");
    envelope::failure(&text, refusal(error, cx.budget), repairs, cx.budget)
}

/// The refusal of a meta-tool that only runs tools that read.
fn refused(
    cx: &MetaContext<'_>,
    own: &str,
    excess: &ExcessiveEffect,
    repairs: &[String],
) -> Outcome {
    let ExcessiveEffect { tool, effect, .. } = excess;
    let text = format!(
        "Tool execution failed: `{tool}` is {effect}, and `{own}` runs only tools that read\n\
         hint: use `{}`",
        TOOL.name
    );
    envelope::failure(&text, None, repairs, cx.budget)
}

/// Our own arguments beside the tool's.
const OWN: [&str; 5] = ["max_tokens", "effect", "select", "grep", "head"];

/// Those of our own arguments that are given. A key that the tool also takes is left to the tool, unless `arguments` is
/// given.
fn own_keys(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Vec<&'static str> {
    let complete = given.raw("arguments").is_some();
    let mut keys = OWN.into_iter().filter(|key| given.raw(key).is_some()).peekable();
    if complete || keys.peek().is_none() {
        return keys.collect();
    }
    let entry = given.text("name").and_then(|name| shown(cx, &name));
    let takes = |key: &str| entry.is_some_and(|entry| entry.declares(key));
    keys.filter(|key| !takes(key)).collect()
}

/// The effect ceiling of the caller.
pub(super) fn effect(given: &MetaArguments<'_>, is_own: bool) -> Result<Option<Effect>, String> {
    let said = given.raw("effect").filter(|said| is_own && !is_unsaid(said));
    let Some(said) = said else { return Ok(None) };
    let word: Option<String> = serde_json::from_str(said.get()).ok();
    let known = word.as_ref().and_then(|word| Effect::parse(&word.to_lowercase()));
    let unknown = || {
        let said = word.as_deref().unwrap_or(said.get());
        format!("effect must be read, write or destructive, not `{}`", echo(said))
    };
    known.ok_or_else(unknown).map(Some)
}

/// Whether an argument is `null` or empty, and so counts as missing.
fn is_unsaid(argument: &RawValue) -> bool {
    matches!(argument.get(), "null" | "\"\"")
}

/// The result in its envelope, within the budget.
async fn wrapped(
    cx: &MetaContext<'_>,
    result: ToolResult,
    projection: Option<Projection>,
    repairs: &[String],
) -> Outcome {
    match projected(result, projection, cx.budget, None, &cx.sink()).await {
        Ok(fitted) => fitted.enclosed(repairs, 1),
        Err(error) => unfit(&error, repairs, cx.budget),
    }
}

/// The reply for a result that cannot be fitted.
pub(super) fn unfit(error: &FitError, repairs: &[String], budget: Budget) -> Outcome {
    let text = format!("Tool execution failed: the tool ran, but muster {error}");
    envelope::failure(&text, None, repairs, budget)
}

fn shown<'a>(cx: &'a MetaContext<'_>, name: &str) -> Option<&'a ToolEntry> {
    let entry = cx.request.snapshot.catalog.get(name)?;
    cx.request.snapshot.policy.shows(entry).then_some(&**entry)
}

/// The outcome of a call that cannot be read.
fn misused(misuse: UnreadableCall, budget: Budget) -> Outcome {
    let hinted = |said: &str, fix: Option<String>| {
        let hint = fix.map(|fix| format!("hint: {fix}")).unwrap_or_default();
        Outcome::failure(budget.cut(&error_text::lines(&[said.to_owned(), hint])))
    };
    match misuse {
        UnreadableCall::MissingTool { fix } => hinted("name argument is required", fix),
        UnreadableCall::NotAnObject { fix } => hinted("arguments must be a JSON object", Some(fix)),
        UnreadableCall::Ambiguous { problem, fix, fragment } => {
            let said = format!("Tool execution failed: {problem}");
            let text = error_text::advised(said, &fix, fragment.as_ref());
            envelope::failure(&text, None, &[], budget)
        }
    }
}

/// The backend's own error, for programs. At most half of the budget is for it.
fn refusal(error: &CallError, budget: Budget) -> Option<Raw> {
    let part = Budget(budget.0 / 4);
    let (code, message, data) = error_text::refusal(error)?;
    let mut own = RawObject::new();
    own.set_value("code", &code);
    own.set_value("message", &part.cut(message));
    match data {
        Some(data) if part.holds(data.get()) => own.set("data", Cow::Borrowed(&**data)),
        Some(_) => own.set_value("dataOmitted", &true),
        None => (),
    }
    let mut meta = RawObject::new();
    meta.set(ERROR, Cow::Owned(own.to_raw()));
    Some(meta.to_raw())
}
