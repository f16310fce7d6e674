//! `call_tool`: runs any tool of the catalog.

use std::borrow::Cow;

use muster_core::{
    call::{Call, CallError, Checking, Outcome},
    catalog::ToolEntry,
    effect::Effect,
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
    envelope, error_text,
    fitting::{Fitted, fitted},
    page::echo,
};
use crate::surface::ToolCall;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "call_tool",
    description: "Run a tool: {\"name\":\"x_github_create_issue\",\"arguments\":{\"title\":\"Bug\"}}. Errors say how to correct \
        the call. The answer is JSON text with isError and content; of a long one you get a preview and a handle \
        for get_output. `effect`: the worst that the tool may do.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"},"effect":{"enum":["read","write","destructive"]},"max_tokens":{"type":"integer"}},"required":["name"]}"#,
    budget: 16_000,
    run: Run::Call(run),
};

/// A legacy server requires a visit in the browser first. The client must see this error unchanged.
const URL_ELICITATION: i64 = -32042;
/// The key of the backend's own error in `_meta`.
const ERROR: &str = "muster/error";

fn run<'a>(
    cx: &'a MetaContext<'a>,
    call: &'a ToolCall,
    given: MetaArguments<'a>,
) -> OutcomeFuture<'a> {
    let meant = meant(cx, &call.arguments, given.into_members());
    Box::pin(async move {
        match meant {
            Ok(meant) => meant_call(cx, call, meant).await,
            Err(outcome) => Ok(outcome),
        }
    })
}

/// The call that is meant, or the outcome if it cannot be run. `members` are those of `given`.
fn meant(
    cx: &MetaContext<'_>,
    given: &RawValue,
    mut members: RawObject<'_>,
) -> Result<RepairedCall, Outcome> {
    let lookup = |name: &str| shown(cx, name);
    let has_own = OWN.iter().any(|key| members.get(key).is_some());
    let bounds = match has_own {
        true => take_bounds(cx, &mut members).map_err(Outcome::failure)?,
        false => Bounds { effect: None },
    };
    let meant = match well_formed(&members, &lookup) {
        Some(meant) => Ok(meant),
        None if has_own => read(&members.to_raw(), &lookup),
        None => read(given, &lookup),
    };
    let meant = meant.map_err(misused)?;
    match bounds.refusal(cx, &meant) {
        Some(refusal) => Err(envelope::failure(&refusal, None, &meant.repairs)),
        None => Ok(meant),
    }
}

async fn meant_call(
    cx: &MetaContext<'_>,
    call: &ToolCall,
    meant: RepairedCall,
) -> Result<Outcome, RequestError> {
    let RepairedCall { tool, mut arguments, mut repairs } = meant;
    let send = |arguments: Raw| Call {
        tool: ToolName::new(tool.as_str()),
        arguments,
        checking: Checking::Strict,
        meta: call.meta.clone(),
        continuation: call.continuation.clone(),
    };
    let mut answer = cx.request.call(send(arguments.clone())).await;
    // Invalid arguments mean that nothing ran: only then a repaired call may be sent.
    let refused =
        matches!(&answer, Err(CallError::InvalidArguments { tool: of, .. }) if of.as_str() == tool);
    let mended =
        shown(cx, &tool).filter(|_| refused).and_then(|entry| values::repair(entry, &arguments));
    if let Some(mended) = mended {
        repairs.extend(mended.repairs);
        arguments = mended.arguments;
        answer = cx.request.call(send(arguments.clone())).await;
    }
    match answer {
        Ok(result) => Ok(wrapped(cx, result, &repairs).await),
        Err(CallError::Upstream { code: code @ URL_ELICITATION, message, data }) => {
            Err(RequestError::Upstream { code, message, data })
        }
        Err(error) => {
            let text = error_text::error(cx.request.snapshot, &arguments, &error);
            let text = format!("Tool execution failed: {text}");
            Ok(envelope::failure(&text, refusal(&error), &repairs))
        }
    }
}

/// The bounds that the caller set.
struct Bounds {
    effect: Option<Effect>,
}

/// Our own arguments beside the tool's.
const OWN: [&str; 2] = ["max_tokens", "effect"];

/// Separates our own arguments from the tool's. A key that the tool also takes is left to the tool, unless
/// `arguments` is given.
fn take_bounds(cx: &MetaContext<'_>, members: &mut RawObject<'_>) -> Result<Bounds, String> {
    let complete = members.get("arguments").is_some();
    let entry = members.get_text("name").and_then(|name| shown(cx, &name));
    let takes = |key: &str| {
        entry.is_some_and(|entry| entry.input_schema.get().contains(&format!("\"{key}\"")))
    };
    let mut effect = None;
    for key in OWN.into_iter().filter(|key| complete || !takes(key)) {
        let said = members.get(key).filter(|said| key == "effect" && !is_unsaid(said));
        if let Some(said) = said {
            let word: Option<String> = serde_json::from_str(said.get()).ok();
            let known = word.as_ref().and_then(|word| Effect::parse(&word.to_lowercase()));
            let unknown = || {
                let said = word.as_deref().unwrap_or(said.get());
                format!("effect must be read, write or destructive, not `{}`", echo(said))
            };
            effect = Some(known.ok_or_else(unknown)?);
        }
        members.remove(key);
    }
    Ok(Bounds { effect })
}

/// Whether an argument says nothing.
fn is_unsaid(argument: &RawValue) -> bool {
    matches!(argument.get(), "null" | "\"\"")
}

impl Bounds {
    /// The refusal of a tool beyond the effect ceiling.
    fn refusal(&self, cx: &MetaContext<'_>, meant: &RepairedCall) -> Option<String> {
        let most = self.effect?;
        let effect = cx.request.snapshot.policy.effect(shown(cx, &meant.tool)?);
        (effect > most).then(|| {
            error_text::lines(&[
                format!(
                    "Tool execution failed: `{}` is {effect}, and the call said `{most}`",
                    meant.tool
                ),
                format!("hint: if that is wanted, call again with effect `{effect}`"),
            ])
        })
    }
}

/// The result in its envelope, within the budget.
async fn wrapped(cx: &MetaContext<'_>, result: ToolResult, repairs: &[String]) -> Outcome {
    match fitted(result, cx.budget, &cx.sink()).await {
        Ok(Fitted::AsIs(outcome)) => envelope::wrap(&outcome, repairs),
        Ok(Fitted::Reply(reply)) => reply.enclosed(repairs),
        Err(error) => {
            let text = format!("Tool execution failed: the tool ran, but muster {error}");
            envelope::failure(&text, None, repairs)
        }
    }
}

fn shown<'a>(cx: &'a MetaContext<'_>, name: &str) -> Option<&'a ToolEntry> {
    let entry = cx.request.snapshot.catalog.get(name)?;
    cx.request.snapshot.policy.shows(entry).then_some(&**entry)
}

/// The outcome of a call that cannot be read.
fn misused(misuse: UnreadableCall) -> Outcome {
    let hinted = |said: &str, fix: Option<String>| {
        let hint = fix.map(|fix| format!("hint: {fix}")).unwrap_or_default();
        Outcome::failure(error_text::lines(&[said.to_owned(), hint]))
    };
    match misuse {
        UnreadableCall::MissingTool { fix } => hinted("name argument is required", fix),
        UnreadableCall::NotAnObject { fix } => hinted("arguments must be a JSON object", Some(fix)),
        UnreadableCall::Ambiguous { problem, fix, fragment } => {
            let said = format!("Tool execution failed: {problem}");
            envelope::failure(&error_text::advised(said, &fix, fragment.as_ref()), None, &[])
        }
    }
}

/// The backend's own error, for programs.
fn refusal(error: &CallError) -> Option<Raw> {
    let (code, message, data) = error_text::refusal(error)?;
    let mut own = RawObject::new();
    own.set_value("code", &code);
    own.set_value("message", message);
    if let Some(data) = data {
        own.set("data", Cow::Borrowed(&**data));
    }
    let mut meta = RawObject::new();
    meta.set(ERROR, Cow::Owned(own.to_raw()));
    Some(meta.to_raw())
}
