//! `run_steps`: what the steps are run with.

use std::sync::Arc;

use muster_core::{
    backend::{BoxFuture, CallContext},
    call::{Caller, Outcome},
    effect::Effect,
    json::Raw,
    lock::Lock,
    trace_context::SpanContext,
};
use muster_gateway::{
    step_runner::StepRunner,
    surface::{ToolCall, meta::Meta},
};

use crate::gateway::{Gateway, raw, tool_call};

/// Runs nothing.
#[derive(Debug, Default)]
struct Steps {
    callers: Lock<Vec<Caller>>,
    definitions: Lock<Vec<String>>,
}

impl StepRunner for Steps {
    fn run_steps<'a>(&'a self, cx: CallContext<'a>, definition: Raw) -> BoxFuture<'a, Outcome> {
        self.callers.lock().push(cx.caller.clone());
        self.definitions.lock().push(definition.get().to_owned());
        Box::pin(std::future::ready(Outcome::text("done")))
    }
}

#[test]
fn steps_have_the_trace_and_the_ceiling_of_the_request() {
    let steps = Arc::new(Steps::default());
    let mut gateway = Gateway::new();
    gateway.meta = Meta::default().with_steps(Arc::clone(&steps) as Arc<dyn StepRunner>);
    let meta = raw(r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#);
    let span = SpanContext::of_meta(&meta);
    assert!(span.is_some());
    for (arguments, most) in [
        (r#"{"steps":[]}"#, None),
        (r#"{"steps":[],"effect":"read","max_tokens":500}"#, Some(Effect::Read)),
    ] {
        let call = ToolCall { meta: Some(meta.clone()), ..tool_call("run_steps", arguments) };
        let Ok(Outcome::Text { text, .. }) = gateway.send(call) else { panic!("not run") };
        assert_eq!(text, "done");
        let caller = steps.callers.lock().pop().unwrap();
        assert_eq!((caller.span, caller.most_effect), (span, most));
        assert_eq!(steps.definitions.lock().pop().unwrap(), r#"{"steps":[]}"#);
    }
}
