//! `run_steps`: an unsaved workflow. Only its output comes back, so that results of single steps cost no tokens.

use muster_core::{
    backend::CallContext,
    call::{Caller, Outcome},
    trace_context::SpanContext,
};

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run, arguments::MetaArguments, call_tool, fitting::fit,
};
use crate::{inner_client::InnerClient, surface::ToolCall};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "run_steps",
    description: "Run dependent calls as one: `steps` [{id,tool,args,forEach?,condition?}], args with Go templates \
        ({{ .results.ID.field }}). Only `output` comes back.",
    input_schema: r#"{"type":"object","properties":{"steps":{"type":"array","items":{"type":"object"}},"output":{}},"required":["steps"]}"#,
    budget: 16_000,
    run: Run::Batch(run),
};

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let given = MetaArguments::read(&call.arguments);
        let effect = match call_tool::effect(&given, true) {
            Ok(effect) => effect,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let Some(runner) = &cx.meta.steps else {
            return Ok(Outcome::failure("this gateway has no workflows"));
        };
        let mut definition = given.into_members();
        for own in ["effect", "max_tokens", "_meta"] {
            definition.remove(own);
        }
        // Steps belong to the trace of the request.
        let span = call.meta.as_deref().and_then(SpanContext::of_meta);
        let caller = Caller { span: span.or(cx.request.caller.span), ..cx.request.caller.clone() };
        let caller = effect.map_or_else(|| caller.clone(), |most| caller.within(most));
        let client = &InnerClient::shared(cx.request.client);
        let steps =
            CallContext { client, caller: &caller, tools: cx.request.dispatcher, sent: None };
        let outcome = runner.run_steps(steps, definition.to_raw()).await;
        Ok(fit(outcome, cx.budget, &cx.sink()).await)
    })
}
