//! `call_tool`: runs any tool there is.

use std::borrow::Cow;

use muster_core::{
    backend::CallTool as _,
    call::{Call, CallError, Checking, Outcome},
    catalog::Entry,
    json::{Object, Raw},
    name::ToolName,
    repair::{Meant, Misuse, envelope::read, values},
    request::Fault,
};

use super::{Answer, Builtin, Run, Seen, envelope, words};
use crate::surface::{At, ToolCall};

pub(super) const TOOL: Builtin = Builtin {
    name: "call_tool",
    description: "Run a tool that filter_tools or list_tools showed. Example: {\"name\":\
        \"x_github_create_issue\",\"arguments\":{\"title\":\"Bug\"}}. `arguments` must fit the input \
        schema that describe_tool shows. The answer is JSON text: {\"isError\":…,\"content\":[…]} with \
        the tool's own result; errors say how to correct the call.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string","description":"Exact name of the tool"},"arguments":{"type":"object","description":"Arguments of the tool"}},"required":["name"]}"#,
    run: Run::Call(run),
};

/// A legacy server asks for something to be done in a browser first. That is for the client to see.
const URL_ELICITATION: i64 = -32042;
/// A backend's own error, among the things said about the answer.
const ERROR: &str = "muster/error";

fn run<'a>(seen: &'a Seen<'a>, at: At<'a>, call: ToolCall) -> Answer<'a> {
    Box::pin(async move {
        match read(&call.arguments, &|name| shown(seen, name)) {
            Ok(meant) => meant_call(seen, at, &call, meant).await,
            Err(misuse) => Ok(misused(misuse)),
        }
    })
}

async fn meant_call(
    seen: &Seen<'_>,
    at: At<'_>,
    call: &ToolCall,
    meant: Meant,
) -> Result<Outcome, Fault> {
    let Meant { tool, mut arguments, mut repairs } = meant;
    let send = |arguments: Raw| Call {
        tool: ToolName::new(tool.as_str()),
        arguments,
        checking: Checking::Strict,
        meta: call.meta.clone(),
        continuation: call.continuation.clone(),
    };
    let mut answer = at.dispatcher.call(at.caller, at.client, send(arguments.clone())).await;
    // Nothing ran yet if the arguments do not fit, and only then is there something to put right.
    let refused =
        matches!(&answer, Err(CallError::Arguments { tool: of, .. }) if of.as_str() == tool);
    let mended =
        shown(seen, &tool).filter(|_| refused).and_then(|entry| values::mend(entry, &arguments));
    if let Some(mended) = mended {
        repairs.extend(mended.repairs);
        arguments = mended.arguments;
        answer = at.dispatcher.call(at.caller, at.client, send(arguments.clone())).await;
    }
    match answer {
        Ok(outcome) => Ok(envelope::wrap(outcome, &repairs)),
        Err(CallError::Refused { code: code @ URL_ELICITATION, message, data }) => {
            Err(Fault::Passed { code, message, data })
        }
        Err(error) => {
            let text = words::error(&at.dispatcher.state(at.caller), &arguments, &error);
            let text = format!("Tool execution failed: {text}");
            Ok(envelope::failure(&text, refusal(&error), &repairs))
        }
    }
}

fn shown<'a>(seen: &'a Seen<'_>, name: &str) -> Option<&'a Entry> {
    let entry = seen.state.catalog.get(name)?;
    seen.state.policy.shows(entry).then_some(&**entry)
}

/// Words a call that cannot be read. Who gets `call_tool` itself wrong is told so plainly.
fn misused(misuse: Misuse) -> Outcome {
    let hinted = |said: &str, fix: Option<String>| {
        let hint = fix.map(|fix| format!("hint: {fix}")).unwrap_or_default();
        Outcome::failure(words::lines(&[said.to_owned(), hint]))
    };
    match misuse {
        Misuse::NoName { fix } => hinted("name argument is required", fix),
        Misuse::NotAnObject { fix } => hinted("arguments must be a JSON object", Some(fix)),
        Misuse::Unclear { problem, fix, fragment } => {
            let said = format!("Tool execution failed: {problem}");
            envelope::failure(&words::advised(said, &fix, fragment.as_ref()), None, &[])
        }
    }
}

/// A backend's own error as it came, for programs.
fn refusal(error: &CallError) -> Option<Raw> {
    let (code, message, data) = words::refusal(error)?;
    let mut own = Object::new();
    own.set_value("code", &code);
    own.set_value("message", message);
    if let Some(data) = data {
        own.set("data", Cow::Borrowed(&**data));
    }
    let mut meta = Object::new();
    meta.set(ERROR, Cow::Owned(own.to_raw()));
    Some(meta.to_raw())
}
