//! `read_tool`: runs a tool that only reads. Clients ask the user before each `call_tool`; `read_tool` can be allowed
//! once for all calls.

use muster_core::effect::Effect;

use super::{MetaContext, MetaTool, OutcomeFuture, Run, call_tool};
use crate::surface::ToolCall;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "read_tool",
    description: "Run a tool whose effect is read, as call_tool does.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"},"select":{"type":"string"},"grep":{"type":"string"},"head":{"type":"integer"}},"required":["name"]}"#,
    budget: call_tool::TOOL.budget,
    run: Run::Read(run),
};

fn run<'a>(
    cx: &'a MetaContext<'a>,
    call: &'a ToolCall,
    given: super::MetaArguments<'a>,
) -> OutcomeFuture<'a> {
    call_tool::run_within(cx, call, given, Some(Effect::Read))
}
