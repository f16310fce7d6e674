//! Tools that clients see under their own names: beside the meta-tools, or in their place while there are few.
//!
//! **Invariant:** an operator chooses this, by a toolset or by an option. Calls take the same path as all others, and
//! results are fitted into the default budget of `call_tool`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use muster_core::{
    call::{CallError, Caller, Checking, Outcome},
    catalog::ToolEntry,
    json::Raw,
    lock::Lock,
    request::RequestError,
    token_estimate,
};

use super::{Meta, budget::Budget, call_tool, error_text, fitting::fit_result};
use crate::{
    dispatch::GatewaySnapshot,
    surface::{SurfaceContext, ToolCall, classic, passed, ui},
};

/// How agents use a list that has the tools themselves while there are few, and the meta-tools otherwise.
pub(super) const INSTRUCTIONS: &str = "The tools of many servers and programs are here. Those that are listed by their own \
     names are called directly. If filter_tools is listed, there are more: find one with filter_tools {\"query\": words of \
     the task}, read its input schema with describe_tool, run it with call_tool {\"name\", \"arguments\"}; add select \
     (JSONPath), grep or head to get only that part of the result. A long result ends with a handle: search or page it with \
     get_output (grep, path, line, tail, count) in place of calling the tool again. Images and audio follow the text as \
     blocks of their own.";

/// The number of sessions whose list is remembered.
const MAX_SESSIONS: usize = 10_000;

/// An operator's choice of tools beside the meta-tools, or in their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NativeOptions {
    /// Whether `read_tool` is listed.
    pub read_tool: bool,
    /// Whether tools with an interactive UI are listed for clients that can show it.
    pub ui_tools: bool,
    /// The tokens up to which all tools are listed in place of the meta-tools.
    pub direct_tokens: Option<usize>,
}

/// The kind of list that a client sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listing {
    /// The meta-tools, with native tools beside them.
    MetaTools,
    /// The tools of these names.
    Direct {
        /// The names.
        names: Names,
        /// Whether these are all. If not, the meta-tools lead to the others.
        is_all: bool,
    },
}

/// The kind of list of each session. A session keeps the kind it began with: otherwise its model would not find its
/// tools any more, and prompt caches would be lost. Tools that come later join a direct list as long as it is short
/// enough.
#[derive(Debug, Default)]
pub(super) struct Listings {
    sessions: Lock<Sessions>,
}

/// The names of tools.
type Names = Arc<BTreeSet<String>>;

/// A session, and the toolset that it sees: a client may name another one in each request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ListingKey {
    session: Arc<str>,
    toolset: Option<Arc<str>>,
}

impl ListingKey {
    /// The key of a caller. A caller without a session is identified by its subject.
    fn of(caller: &Caller) -> Self {
        let session = Arc::clone(caller.session.as_ref().unwrap_or(&caller.subject));
        Self { session, toolset: caller.toolset.clone() }
    }
}

#[derive(Debug, Default)]
struct Sessions {
    /// The names of the tools that are listed directly; `None` for meta-tools.
    listed: BTreeMap<ListingKey, Option<Names>>,
    /// The oldest first.
    order: VecDeque<ListingKey>,
}

impl Listings {
    /// The list of a session. `all` are the names of all tools, if these are few enough to be listed.
    fn of(&self, session: ListingKey, all: Option<Names>) -> Listing {
        let mut sessions = self.sessions.lock();
        let is_empty = all.as_ref().is_some_and(|all| all.is_empty());
        let all = all.filter(|_| !is_empty);
        let is_all = all.is_some();
        match sessions.listed.get_mut(&session) {
            Some(None) => return Listing::MetaTools,
            Some(Some(names)) => {
                *names = all.unwrap_or_else(|| Arc::clone(names));
                return Listing::Direct { names: Arc::clone(names), is_all };
            }
            // Servers may still be connecting, so it is too early to decide what the session sees.
            None if is_empty => return Listing::MetaTools,
            None => (),
        }
        sessions.listed.insert(session.clone(), all.clone());
        sessions.order.push_back(session);
        if sessions.order.len() > MAX_SESSIONS
            && let Some(oldest) = sessions.order.pop_front()
        {
            sessions.listed.remove(&oldest);
        }
        match all {
            Some(names) => Listing::Direct { names, is_all },
            None => Listing::MetaTools,
        }
    }
}

impl Meta {
    /// The list for the client of a request.
    pub(super) fn listing(&self, cx: SurfaceContext<'_>) -> Listing {
        let Some(most) = self.native.direct_tokens else { return Listing::MetaTools };
        let index = self.index(cx.snapshot);
        let names = index.direct(|| names_within_budget(cx.snapshot, most).map(Arc::new));
        self.listings.of(ListingKey::of(cx.caller), names)
    }

    /// The tools that the client of a request sees under their own names.
    pub(super) fn native_tools(&self, cx: SurfaceContext<'_>, listing: &Listing) -> Vec<Raw> {
        let state = cx.snapshot;
        let is_meta = *listing == Listing::MetaTools;
        if is_meta && !self.native.ui_tools && !state.policy.has_pins() {
            return Vec::new();
        }
        let entries = state.catalog.by_first_definition().into_iter();
        let native = entries.filter(|entry| self.is_native(cx, entry, listing));
        native.map(|entry| classic::listed(entry, &state.policy)).collect()
    }

    /// Whether the client of a request sees a tool under its own name.
    fn is_native(&self, cx: SurfaceContext<'_>, entry: &ToolEntry, listing: &Listing) -> bool {
        let policy = &cx.snapshot.policy;
        let is_direct = match listing {
            Listing::MetaTools => false,
            Listing::Direct { names, .. } => names.contains(entry.name.as_str()),
        };
        let has_ui = || {
            self.native.ui_tools
                && ui::resource_uri(entry).is_some()
                && ui::is_shown_by(&**cx.client)
        };
        policy.pins(entry) || policy.shows(entry) && (is_direct || has_ui())
    }

    /// Calls a tool by its own name; `None` if the client does not see it.
    pub(super) async fn native_call(
        &self,
        cx: SurfaceContext<'_>,
        call: ToolCall,
    ) -> Option<Result<Outcome, RequestError>> {
        let entry = cx.snapshot.catalog.get(&call.name)?;
        if !self.is_native(cx, entry, &self.listing(cx)) {
            return None;
        }
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        let result = cx.call(call.of(name, arguments.clone(), Checking::Strict)).await;
        let budget = Budget(call_tool::TOOL.budget);
        Some(match result {
            Ok(result) => Ok(fit_result(result, None, budget, &self.sink(cx.caller)).await),
            Err(error) => match passed(within_budget(error, budget)) {
                Ok(fault) => Err(fault),
                Err(error) => {
                    let text = error_text::error(self, cx.snapshot, &arguments, &error);
                    Ok(Outcome::failure(budget.cut(&text)))
                }
            },
        })
    }
}

/// The error of a backend with a message and data within a budget.
fn within_budget(error: CallError, budget: Budget) -> CallError {
    match error {
        CallError::Upstream { code, message, data } if code != call_tool::URL_ELICITATION => {
            let message = budget.cut(&message).into_owned();
            CallError::Upstream {
                code,
                message,
                data: data.filter(|data| budget.holds(data.get())),
            }
        }
        error => error,
    }
}

/// The names of all tools but the gateway's own, if listing them costs at most `most` tokens.
fn names_within_budget(state: &GatewaySnapshot, most: usize) -> Option<BTreeSet<String>> {
    let mut left = most;
    let mut names = BTreeSet::new();
    let is_listed = |entry: &ToolEntry| !entry.audience.is_gateway() && state.policy.shows(entry);
    for entry in state.catalog.sorted().filter(|entry| is_listed(entry)) {
        let listed = classic::listed(entry, &state.policy);
        left = left.checked_sub(token_estimate::estimate(listed.get()))?;
        names.insert(entry.name.to_string());
    }
    Some(names)
}
