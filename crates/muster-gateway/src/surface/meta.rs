//! The meta surface: a few tools that find, describe and call all others, and the same for resources and
//! prompts.
//!
//! Each meta-tool has a file with its name, description, schema and code. Replies stay within a token
//! budget, however large the catalog is.

mod advert;
pub(super) mod arguments;
pub(super) mod budget;
mod call_tool;
mod call_tools;
mod core_matches;
mod describe_prompt;
mod describe_resource;
mod describe_tool;
mod envelope;
mod error_text;
mod filter_tools;
pub(super) mod fitting;
pub(super) mod get_output;
mod get_prompt;
mod get_resource;
mod list_core_tools;
mod list_prompts;
mod list_resources;
mod list_tools;
mod listing;
pub mod native;
mod page;
pub(super) mod projection;
mod read_tool;
mod run_steps;
pub(super) mod tool_index;
pub(super) mod unavailable;
mod unavailable_products;
mod unknown_arguments;

use std::sync::{Arc, RwLock, Weak};

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Outcome},
    client::ClientHandle,
    json::{Raw, raw},
    request::RequestError,
    text::shortened,
};
use muster_search::meaning::QueryMeaning;
use serde::Serialize;
use serde_json::value::RawValue;

use self::{
    arguments::MetaArguments,
    budget::Budget,
    fitting::{OutputSink, fit},
    native::{Listing, Listings, NativeOptions},
    tool_index::ToolIndex,
};
use super::{Surface, SurfaceContext, ToolCall};
use crate::{
    dispatch::GatewaySnapshot,
    embeddings::{self, ToolEmbeddings},
    outputs::Outputs,
    step_runner::StepRunner,
};

/// The meta-tools, in the order they are listed.
const TOOLS: &[&MetaTool] = &[
    &list_tools::TOOL,
    &describe_tool::TOOL,
    &list_core_tools::TOOL,
    &filter_tools::TOOL,
    &call_tool::TOOL,
    &call_tools::TOOL,
    &run_steps::TOOL,
    &list_resources::TOOL,
    &describe_resource::TOOL,
    &get_resource::TOOL,
    &list_prompts::TOOL,
    &describe_prompt::TOOL,
    &get_prompt::TOOL,
    &get_output::TOOL,
];

/// Whether a name is that of a meta-tool, which no other tool or workflow can call.
pub fn is_meta_tool(name: &str) -> bool {
    name == read_tool::TOOL.name || TOOLS.iter().any(|tool| tool.name == name)
}

/// The number of cached indexes: each caller may have its own snapshot.
const MAX_INDEXES: usize = 16;

/// An index, and the snapshot that it was built from.
type MadeOf = (Weak<GatewaySnapshot>, Arc<ToolIndex>);

/// The surface with the meta-tools.
#[derive(Debug, Default)]
pub struct Meta {
    /// A cache of indexes, newest last. The lock is never held while an index is built.
    indexes: RwLock<Vec<MadeOf>>,
    outputs: Arc<Outputs>,
    /// The embeddings of tools, if there is a model.
    embeddings: Option<Arc<ToolEmbeddings>>,
    /// The runner of unsaved workflows, if there are workflows.
    steps: Option<Arc<dyn StepRunner>>,
    /// Which tools are shown beside the meta-tools, or in their place.
    native: NativeOptions,
    listings: Listings,
}

/// A meta-tool.
struct MetaTool {
    name: &'static str,
    description: &'static str,
    /// The input schema as JSON. Clients send the schemas with every request to their model, so they list only the most
    /// important arguments; `unknown_arguments.rs` has the others.
    input_schema: &'static str,
    /// The default token budget of a reply.
    budget: usize,
    run: Run,
}

/// A pending outcome.
type OutcomeFuture<'a> = BoxFuture<'a, Result<Outcome, RequestError>>;

/// How a meta-tool is run.
enum Run {
    /// From the snapshot.
    Now(fn(&MetaContext<'_>, &MetaArguments<'_>) -> Outcome),
    /// From the snapshot; keeps to the budget itself.
    List(fn(&MetaContext<'_>, &MetaArguments<'_>) -> Outcome),
    /// By a read-only request to a backend.
    Ask(for<'a> fn(&'a MetaContext<'a>, ToolCall) -> OutcomeFuture<'a>),
    /// From a stored output; keeps to the budget itself.
    Look(for<'a> fn(&'a MetaContext<'a>, ToolCall) -> OutcomeFuture<'a>),
    /// By calling a tool, with any effect.
    Call(for<'a> fn(&'a MetaContext<'a>, &'a ToolCall, MetaArguments<'a>) -> OutcomeFuture<'a>),
    /// By calling a tool that only reads.
    Read(for<'a> fn(&'a MetaContext<'a>, &'a ToolCall, MetaArguments<'a>) -> OutcomeFuture<'a>),
    /// By calling several tools, with any effect; keeps to the budget itself.
    Batch(for<'a> fn(&'a MetaContext<'a>, ToolCall) -> OutcomeFuture<'a>),
}

/// The context of one call of a meta-tool.
struct MetaContext<'a> {
    request: SurfaceContext<'a>,
    meta: &'a Meta,
    budget: Budget,
    /// Whether the caller set the budget.
    budget_given: bool,
    /// The vectors of the query, and those of the tools.
    meant: Option<(QueryMeaning, embeddings::EmbeddingSnapshot)>,
}

impl MetaContext<'_> {
    /// The index of the snapshot.
    fn index(&self) -> Arc<ToolIndex> {
        self.meta.index(self.request.snapshot)
    }

    /// The context of this call with another client.
    fn of_client<'b>(&'b self, client: &'b Arc<dyn ClientHandle>) -> MetaContext<'b> {
        MetaContext {
            request: SurfaceContext { client, ..self.request },
            meta: self.meta,
            budget: self.budget,
            budget_given: self.budget_given,
            meant: None,
        }
    }

    /// The context of this call with another budget.
    fn within(&self, budget: Budget) -> MetaContext<'_> {
        MetaContext { budget, ..self.of_client(self.request.client) }
    }

    /// The store for results of this caller that exceed the budget.
    fn sink(&self) -> OutputSink {
        self.meta.sink(self.request.caller)
    }

    /// The budget that the caller set, or else at least this default.
    fn budget_or(&self, default: usize) -> Budget {
        if self.budget_given { self.budget } else { Budget(self.budget.0.max(default)) }
    }
}

impl Meta {
    /// Stores results that exceed the budget in `outputs`.
    pub fn storing(outputs: Outputs) -> Self {
        Self { outputs: Arc::new(outputs), ..Self::default() }
    }

    /// Adds search by meaning.
    #[must_use]
    pub fn with_embeddings(self, embeddings: Arc<ToolEmbeddings>) -> Self {
        Self { embeddings: Some(embeddings), ..self }
    }

    /// Adds unsaved workflows.
    #[must_use]
    pub fn with_steps(self, steps: Arc<dyn StepRunner>) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// Shows other tools beside the meta-tools, or in their place.
    #[must_use]
    pub fn with_native(self, native: NativeOptions) -> Self {
        Self { native, ..self }
    }

    /// The store for results of a caller that exceed the budget.
    fn sink(&self, caller: &Caller) -> OutputSink {
        OutputSink::new(&self.outputs, caller)
    }

    /// The meta-tool of this name.
    fn tool(&self, name: &str) -> Option<&'static MetaTool> {
        let read_tool = Some(&read_tool::TOOL).filter(|_| self.native.read_tool);
        TOOLS.iter().copied().chain(read_tool).find(|tool| tool.name == name)
    }

    /// Embeds a query, off the async threads: the model takes some milliseconds.
    async fn meant(
        &self,
        tool: &MetaTool,
        given: &MetaArguments<'_>,
    ) -> Option<(QueryMeaning, embeddings::EmbeddingSnapshot)> {
        let embeddings =
            self.embeddings.as_ref().filter(|_| tool.name == filter_tools::TOOL.name)?;
        let (query, model) = (given.text("query")?, Arc::clone(embeddings));
        embeddings.want();
        let meaning = tokio::task::spawn_blocking(move || model.embed_query(&query)).await;
        Some((meaning.ok().flatten()?, embeddings.snapshot()))
    }

    fn index(&self, state: &Arc<GatewaySnapshot>) -> Arc<ToolIndex> {
        let known = |kept: &&(Weak<GatewaySnapshot>, Arc<ToolIndex>)| {
            std::ptr::eq(kept.0.as_ptr(), Arc::as_ptr(state))
        };
        if let Ok(kept) = self.indexes.read()
            && let Some((_, index)) = kept.iter().find(known)
        {
            return Arc::clone(index);
        }
        let made = Arc::new(ToolIndex::default());
        if let Ok(mut kept) = self.indexes.write() {
            kept.retain(|(state, _)| state.strong_count() > 0);
            let over = (kept.len() + 1).saturating_sub(MAX_INDEXES);
            kept.drain(..over);
            kept.push((Arc::downgrade(state), Arc::clone(&made)));
        }
        made
    }
}

impl Surface for Meta {
    fn tools(&self, state: &GatewaySnapshot) -> Vec<Raw> {
        let advert = advert::line(state);
        let definition = |tool: &MetaTool| match tool.name == filter_tools::TOOL.name {
            true => tool.definition(&advert),
            false => tool.definition(""),
        };
        let read_tool = Some(&read_tool::TOOL).filter(|_| self.native.read_tool);
        TOOLS.iter().copied().chain(read_tool).map(definition).collect()
    }

    fn tools_for(&self, cx: SurfaceContext<'_>) -> Vec<Raw> {
        let listing = self.listing(cx);
        let mut tools = self.native_tools(cx, &listing);
        // Tools that a model has seen stay in front of meta-tools that come later.
        match listing {
            Listing::MetaTools => drop(tools.splice(..0, self.tools(cx.snapshot))),
            Listing::Direct { is_all: false, .. } => tools.extend(self.tools(cx.snapshot)),
            // Long results are read with `get_output`.
            Listing::Direct { is_all: true, .. } => tools.push(get_output::TOOL.definition("")),
        }
        tools
    }

    fn call<'a>(
        &'a self,
        request: SurfaceContext<'a>,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<Outcome, RequestError>> {
        Box::pin(async move {
            let Some(tool) = self.tool(&call.name) else {
                let error = not_shown(request.snapshot, &call.name);
                // Boxed, like other futures of this function that few calls need: every call allocates room for the
                // largest of them.
                let answer = Box::pin(self.native_call(request, call)).await;
                return answer.unwrap_or(Err(error));
            };
            let given = MetaArguments::read(&call.arguments);
            // Unknown arguments of `call_tool` may be those of the tool it calls.
            let refusal = match tool.run {
                Run::Call(_) | Run::Read(_) => None,
                _ => unknown_arguments::refusal(tool, &call.arguments),
            };
            if let Some(refusal) = refusal {
                return Ok(Outcome::failure(refusal));
            }
            let budget = match Budget::of(&given, tool.budget) {
                Ok(budget) => budget,
                Err(problem) => return Ok(Outcome::failure(problem)),
            };
            let budget_given = given.raw("max_tokens").is_some();
            let meant = self.meant(tool, &given).await;
            let cx = MetaContext { request, meta: self, budget, budget_given, meant };
            let sink = cx.sink();
            match tool.run {
                Run::List(answer) => Ok(answer(&cx, &given)),
                Run::Now(answer) => Ok(Box::pin(fit(answer(&cx, &given), budget, &sink)).await),
                Run::Ask(run) => {
                    let answer = run(&cx, call).await?;
                    Ok(Box::pin(fit(answer, budget, &sink)).await)
                }
                // The result is fitted before it is wrapped.
                Run::Call(run) | Run::Read(run) => run(&cx, &call, given).await,
                Run::Look(run) | Run::Batch(run) => run(&cx, call).await,
            }
        })
    }

    fn lists_catalog(&self, state: &GatewaySnapshot) -> bool {
        let NativeOptions { ui_tools, direct_tokens, .. } = self.native;
        ui_tools || direct_tokens.is_some() || state.policy.has_pins()
    }

    fn name(&self) -> &'static str {
        "meta"
    }

    fn instructions(&self) -> &'static str {
        if self.native.direct_tokens.is_some() {
            return native::INSTRUCTIONS;
        }
        "The tools of many servers and programs are behind these few. Find one with filter_tools \
         {\"query\": words of the task}, read its input schema with describe_tool, run it with call_tool \
         {\"name\", \"arguments\"}; add select (JSONPath), grep or head to get only that part of the result. Run \
         independent calls at once with call_tools, and calls that need the results of others as one run_steps \
         {\"steps\": [{\"id\", \"tool\", \"args\"}], \"output\"}. A long result ends with a handle: search or page it with \
         get_output (grep, path, line, tail, count) in place of calling the tool again. All of them take \
         max_tokens. Images and audio follow the text as blocks of their own."
    }
}

impl MetaTool {
    fn definition(&self, advert: &str) -> Raw {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Definition<'a> {
            name: &'a str,
            description: String,
            input_schema: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            annotations: Option<Annotations>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Annotations {
            read_only_hint: bool,
        }
        raw(&Definition {
            name: self.name,
            description: format!("{}{advert}", self.description),
            input_schema: serde_json::from_str(self.input_schema).ok(),
            annotations: (!matches!(self.run, Run::Call(_) | Run::Batch(_)))
                .then_some(Annotations { read_only_hint: true }),
        })
    }
}

/// The error for a tool that is called by its own name instead of by `call_tool`.
fn not_shown(state: &GatewaySnapshot, name: &str) -> RequestError {
    let there = state.catalog.get(name).is_some_and(|entry| state.policy.shows(entry));
    let hint = if there { "; call it with `call_tool`" } else { "" };
    let name = shortened(name);
    RequestError::InvalidParams(format!("tool '{name}' not found: tool not found{hint}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Meta, TOOLS};
    use crate::{dispatch::GatewaySnapshot, surface::Surface as _};

    #[test]
    fn the_tools_cost_little() {
        let tools = Meta::default().tools(&GatewaySnapshot::default());
        let bytes: usize = tools.iter().map(|tool| tool.get().len() + 1).sum();
        // The line about servers and the frame of the message come on top, within 4,200 bytes.
        assert!(bytes <= 3_990, "{bytes}");
    }

    #[test]
    fn schemas_are_schemas() {
        for tool in TOOLS {
            let schema: Value = serde_json::from_str(tool.input_schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
        }
    }
}
