//! Eleven tools in place of hundreds: find one, look at it, call it; the same for resources and
//! prompts.
//!
//! Each of the eleven has a file of its own with its name, its words, its schema and its code. What
//! they list is bounded in bytes, whatever there is behind them.

mod call_tool;
mod describe_prompt;
mod describe_resource;
mod describe_tool;
mod envelope;
mod filter_tools;
mod get_prompt;
mod get_resource;
mod given;
mod list_core_tools;
mod list_prompts;
mod list_resources;
mod list_tools;
mod listing;
mod page;
mod shelf;
mod words;

use std::sync::{Arc, RwLock, Weak};

use muster_core::{
    backend::BoxFuture,
    call::Outcome,
    json::{Raw, raw},
    request::Fault,
};
use serde::Serialize;
use serde_json::value::RawValue;

use self::{given::Given, shelf::Shelf};
use super::{At, Surface, ToolCall};
use crate::dispatch::State;

/// The tools, in the order they are listed.
const TOOLS: [&Builtin; 11] = [
    &list_tools::TOOL,
    &describe_tool::TOOL,
    &list_core_tools::TOOL,
    &filter_tools::TOOL,
    &call_tool::TOOL,
    &list_resources::TOOL,
    &describe_resource::TOOL,
    &get_resource::TOOL,
    &list_prompts::TOOL,
    &describe_prompt::TOOL,
    &get_prompt::TOOL,
];

/// Shows the eleven meta-tools.
#[derive(Debug, Default)]
pub struct Meta {
    /// What was last made of states, for as long as they are the state of someone. The lock is held to
    /// look, never to make one.
    shelves: RwLock<Vec<(Weak<State>, Arc<Shelf>)>>,
}

/// People who have something of their own have a state of their own; of so many the shelf is kept.
const SHELVES: usize = 32;

/// One of the tools.
struct Builtin {
    name: &'static str,
    description: &'static str,
    /// As JSON Schema.
    input_schema: &'static str,
    run: Run,
}

/// An answer to come.
type Answer<'a> = BoxFuture<'a, Result<Outcome, Fault>>;

/// How a tool answers.
enum Run {
    /// From what there is.
    Now(fn(&Seen<'_>, &Given<'_>) -> Outcome),
    /// By asking a backend for something that does not change anything.
    Ask(for<'a> fn(&'a Seen<'a>, At<'a>, ToolCall) -> Answer<'a>),
    /// By running a tool, whatever that does.
    Call(for<'a> fn(&'a Seen<'a>, At<'a>, ToolCall) -> Answer<'a>),
}

/// What there is, as of one moment.
struct Seen<'a> {
    state: Arc<State>,
    meta: &'a Meta,
}

impl Seen<'_> {
    /// Its tools in order.
    fn shelf(&self) -> Arc<Shelf> {
        self.meta.shelf(&self.state)
    }
}

impl Meta {
    fn shelf(&self, state: &Arc<State>) -> Arc<Shelf> {
        let is_of =
            |(of, _): &&(Weak<State>, Arc<Shelf>)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(state));
        if let Ok(kept) = self.shelves.read()
            && let Some((_, shelf)) = kept.iter().find(is_of)
        {
            return Arc::clone(shelf);
        }
        let made = Arc::new(Shelf::of(state));
        if let Ok(mut kept) = self.shelves.write() {
            kept.retain(|(of, _)| of.strong_count() > 0);
            if kept.len() >= SHELVES {
                kept.remove(0);
            }
            kept.push((Arc::downgrade(state), Arc::clone(&made)));
        }
        made
    }
}

impl Surface for Meta {
    fn tools(&self, _state: &State) -> Vec<Raw> {
        TOOLS.into_iter().map(Builtin::definition).collect()
    }

    fn call<'a>(&'a self, at: At<'a>, call: ToolCall) -> BoxFuture<'a, Result<Outcome, Fault>> {
        Box::pin(async move {
            let state = at.dispatcher.state(at.caller);
            let Some(tool) = TOOLS.into_iter().find(|tool| tool.name == call.name) else {
                return Err(not_shown(&state, &call.name));
            };
            let seen = Seen { state, meta: self };
            match tool.run {
                Run::Now(answer) => Ok(answer(&seen, &Given::read(&call.arguments))),
                Run::Ask(run) | Run::Call(run) => run(&seen, at, call).await,
            }
        })
    }

    fn lists_catalog(&self) -> bool {
        false
    }
}

impl Builtin {
    fn definition(&self) -> Raw {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Definition<'a> {
            name: &'a str,
            description: &'a str,
            input_schema: Option<&'a RawValue>,
            annotations: Annotations,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Annotations {
            read_only_hint: bool,
        }
        raw(&Definition {
            name: self.name,
            description: self.description,
            input_schema: serde_json::from_str(self.input_schema).ok(),
            annotations: Annotations { read_only_hint: !matches!(self.run, Run::Call(_)) },
        })
    }
}

/// Whether a name is that of a meta-tool.
fn is_meta(name: &str) -> bool {
    TOOLS.into_iter().any(|tool| tool.name == name)
}

/// A tool is called by its own name, though only meta-tools are shown.
fn not_shown(state: &State, name: &str) -> Fault {
    let there = state.catalog.get(name).is_some_and(|entry| state.policy.shows(entry));
    let hint = if there { "; call it with `call_tool`" } else { "" };
    Fault::InvalidParams(format!("tool '{name}' not found: tool not found{hint}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Meta, TOOLS};
    use crate::{dispatch::State, surface::Surface as _};

    #[test]
    fn eleven_tools_that_cost_little() {
        let tools = Meta::default().tools(&State::default());
        let bytes: usize = tools.iter().map(|tool| tool.get().len()).sum();
        assert_eq!(tools.len(), 11);
        // A token is about four bytes of such text.
        assert!(bytes < 7_000, "{bytes}");
    }

    #[test]
    fn schemas_are_schemas() {
        for tool in TOOLS {
            let schema: Value = serde_json::from_str(tool.input_schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
        }
    }
}
