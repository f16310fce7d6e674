//! `call_tools`: several independent calls at once, with one reply.
//!
//! Each call is read, permitted and observed like one of `call_tool`, and has its own result or error. The replies share
//! the token budget: tokens that short ones leave are for the long ones.

use std::fmt;

use muster_core::{
    backend::BoxFuture,
    call::{CallError, Outcome},
    client::Continuation,
    join::join_all,
    json::{Raw, RawObject},
    request::RequestError,
    spooled::ToolResult,
};
use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run,
    arguments::MetaArguments,
    budget::{Budget, LEAST},
    call_tool::{self, ParsedCall, SentCall},
    envelope,
    fitting::{BlockRoom, Fitted, OutputSink, outcome_cost, projected},
    projection::Projection,
};
use crate::{call_turns::CallTurns, inner_client::InnerClient, surface::ToolCall};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "call_tools",
    description: "Run independent calls at once, each as for call_tool.",
    input_schema: r#"{"type":"object","properties":{"calls":{"type":"array","items":{"type":"object"}}},"required":["calls"]}"#,
    budget: 16_000,
    run: Run::Batch(run),
};

/// The maximum number of calls in one request.
const MAX_CALLS: usize = 20;
/// The tokens around the result of one call.
const RESULT_OVERHEAD: usize = 40;
/// The longest name of a tool in the reply, in tokens.
const MAX_NAME: usize = 80;

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let given = MetaArguments::read(&call.arguments);
        let read = calls(&given).and_then(|calls| Ok((calls, call_tool::effect(&given, true)?)));
        let (calls, ceiling) = match read {
            Ok(read) => read,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let needed = calls.len() * LEAST;
        if cx.budget.0 < needed {
            return Ok(Outcome::failure(format!(
                "max_tokens must be at least {needed} for {} calls",
                calls.len()
            )));
        }
        let meta = without_progress(call.meta.as_deref());
        let client = InnerClient::shared(cx.request.client);
        let cx = &cx.of_client(&client);
        // The error of each call may take an equal share.
        let share = cx.budget.0 / calls.len();
        let one = &cx.within(Budget(share.saturating_sub(RESULT_OVERHEAD + MAX_NAME)));
        let turns = CallTurns::default();
        let running = calls.iter().map(|written| -> BoxFuture<'_, Called> {
            let parsed = call_tool::parse_call(one, written, MetaArguments::read(written), ceiling);
            let (meta, turns) = (meta.clone(), &turns);
            let own = MetaArguments::read(written);
            Box::pin(async move {
                match (parsed, Budget::of(&own, cx.budget.0)) {
                    (Ok(parsed), Ok(budget)) => called(one, turns, meta, parsed, budget).await,
                    (Ok(_), Err(problem)) => Called::refused(&own, Outcome::failure(problem)),
                    (Err(outcome), _) => Called::refused(&own, outcome),
                }
            })
        });
        let called = join_all(running.collect()).await;
        reply(cx, called).await
    })
}

/// The calls of a request, or the error.
fn calls(given: &MetaArguments<'_>) -> Result<Vec<Raw>, String> {
    let written = given.raw("calls").ok_or("calls argument is required")?;
    // Agents send lists as JSON text.
    let list = CallList::read(written.get()).or_else(|| CallList::read(&given.text("calls")?));
    let CallList { calls, left_out } =
        list.ok_or("calls must be a list such as [{\"name\":\"x\",\"arguments\":{}}]")?;
    match (calls.len(), left_out) {
        (0, _) => Err("calls must have at least one call".to_owned()),
        (_, 0) => Ok(calls),
        (count, left_out) => {
            let count = count + left_out;
            Err(format!("calls must have at most {MAX_CALLS} calls, not {count}"))
        }
    }
}

/// A list of calls. Calls beyond the limit are counted, but not held in memory.
#[derive(Debug, Default)]
struct CallList {
    calls: Vec<Raw>,
    /// The number of calls beyond the limit.
    left_out: usize,
}

impl CallList {
    /// Reads a list; `None` if the text is not a list.
    fn read(text: &str) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(text);
        let list = json.deserialize_seq(Self::default()).ok()?;
        json.end().ok()?;
        Some(list)
    }
}

impl<'de> Visitor<'de> for CallList {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of calls")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while self.calls.len() < MAX_CALLS {
            match items.next_element()? {
                Some(call) => self.calls.push(call),
                None => return Ok(self),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {
            self.left_out += 1;
        }
        Ok(self)
    }
}

/// The `_meta` of each call, without the progress token: progress of several calls under one token would go back and
/// forth.
fn without_progress(meta: Option<&RawValue>) -> Option<Raw> {
    let mut meta = RawObject::parse(meta?)?;
    meta.remove("progressToken");
    Some(meta.to_raw())
}

/// The answer to a call.
enum BatchAnswer {
    /// The result of its tool, until it is fitted.
    Returned(Option<ToolResult>),
    /// The reply if it did not run, or its result is lost.
    Failed(Outcome),
}

/// A call that has ended.
struct Called {
    tool: String,
    answer: BatchAnswer,
    projection: Option<Projection>,
    /// The token budget that the caller set for it.
    budget: Budget,
    repairs: Vec<String>,
}

impl Called {
    /// A call that cannot be read, or is not allowed.
    fn refused(given: &MetaArguments<'_>, outcome: Outcome) -> Self {
        let tool = echoed(&given.tool().unwrap_or_default());
        let (projection, budget, repairs) = (None, Budget(0), Vec::new());
        Self { tool, answer: BatchAnswer::Failed(outcome), projection, budget, repairs }
    }

    /// An upper bound of the tokens of its reply, and at least the smallest budget: there is room for that for each
    /// call.
    fn cost(&self) -> usize {
        let cost = match &self.answer {
            BatchAnswer::Returned(Some(ToolResult::Inline(outcome))) => outcome_cost(outcome),
            BatchAnswer::Returned(Some(ToolResult::Spooled(_))) => usize::MAX,
            BatchAnswer::Returned(None) => 0,
            // It has been cut to its share.
            BatchAnswer::Failed(outcome) => return outcome_cost(outcome).saturating_add(MAX_NAME),
        };
        cost.saturating_add(2 * RESULT_OVERHEAD).min(self.budget.0).max(LEAST)
    }

    /// The result within its share of the budget, or the part of it that is requested; `None` if there is no result.
    async fn fitted(
        &mut self,
        share: usize,
        room: &BlockRoom,
        sink: &OutputSink,
    ) -> Option<Fitted> {
        let BatchAnswer::Returned(result) = &mut self.answer else { return None };
        let budget = Budget(share.saturating_sub(RESULT_OVERHEAD));
        let fitted = projected(result.take()?, self.projection.clone(), budget, Some(room), sink);
        match fitted.await {
            Ok(fitted) => Some(fitted),
            Err(error) => {
                self.answer = BatchAnswer::Failed(call_tool::unfit(&error, &self.repairs, budget));
                None
            }
        }
    }
}

/// The name of a tool in the reply.
fn echoed(tool: &str) -> String {
    Budget(MAX_NAME).cut(tool).into_owned()
}

/// Runs a call. The budget of `cx` is for its error.
async fn called(
    cx: &MetaContext<'_>,
    turns: &CallTurns,
    meta: Option<Raw>,
    parsed: ParsedCall,
    budget: Budget,
) -> Called {
    let ParsedCall { call, most, projection } = parsed;
    let tool = echoed(&call.tool);
    let own = budget.0.saturating_sub(RESULT_OVERHEAD + MAX_NAME);
    let cx = &cx.within(Budget(cx.budget.0.min(own)));
    let failure = |text: String, repairs: &[String]| {
        let text = format!("Tool execution failed: {text}");
        BatchAnswer::Failed(envelope::failure(&text, None, repairs, cx.budget))
    };
    let turn = match turns.begin(&**cx.request.client).await {
        Ok(turn) => turn,
        Err(too_many) => {
            let answer = failure(too_many.message, &call.repairs);
            return Called { tool, answer, projection: None, budget, repairs: call.repairs };
        }
    };
    let SentCall { answer, arguments, repairs } =
        call_tool::send(cx, meta, Continuation::default(), most, call).await;
    drop(turn);
    let answer = match answer {
        Ok(ToolResult::Inline(Outcome::InputRequired(_))) => {
            let text = format!("`{tool}` requests input\nhint: call it by itself with call_tool");
            failure(text, &repairs)
        }
        Ok(result) => BatchAnswer::Returned(Some(result)),
        // The URL to visit may be longer than the share of a call.
        Err(CallError::Upstream { code: call_tool::URL_ELICITATION, .. }) => {
            let text = format!(
                "`{tool}` requires a visit in the browser first\nhint: call it by itself with call_tool"
            );
            failure(text, &repairs)
        }
        Err(error) => BatchAnswer::Failed(call_tool::failed(cx, &arguments, &error, &repairs)),
    };
    Called { tool, answer, projection, budget, repairs }
}

/// One reply for all calls: a JSON list of results, then their blocks.
async fn reply(cx: &MetaContext<'_>, called: Vec<Called>) -> Result<Outcome, RequestError> {
    let (sink, room) = (cx.sink(), BlockRoom::default());
    let mut costs: Vec<usize> = called.iter().map(Called::cost).collect();
    let mut called: Vec<(Called, Option<Fitted>)> =
        called.into_iter().map(|called| (called, None)).collect();
    // Fit projected results first, so that the others share the tokens that these leave.
    for is_projected in [true, false] {
        let shares = shares(cx.budget.0, &costs);
        let places = called.iter_mut().zip(&mut costs).zip(shares);
        for (((called, fitted), cost), share) in places {
            if called.projection.is_some() == is_projected {
                *fitted = called.fitted(share, &room, &sink).await;
                if let Some(fitted) = fitted {
                    *cost = fitted.cost().saturating_add(2 * RESULT_OVERHEAD).min(share);
                }
            }
        }
    }
    let mut batch = envelope::Batch::default();
    for (Called { tool, answer, repairs, .. }, fitted) in &called {
        match (fitted, answer) {
            (Some(fitted), _) => {
                let outcome = fitted.enclosed(repairs, batch.next_block());
                batch.push(tool, &outcome, repairs);
            }
            (None, BatchAnswer::Failed(outcome)) => batch.push(tool, outcome, repairs),
            (None, BatchAnswer::Returned(_)) => (),
        }
    }
    Ok(batch.reply())
}

/// Divides a budget fairly (max-min): no call gets less than an equal share of the tokens that cheaper ones leave.
fn shares(budget: usize, costs: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    let cost = |place: usize| costs.get(place).copied().unwrap_or_default();
    order.sort_by_key(|place| cost(*place));
    let (mut left, mut shares) = (budget, vec![0; costs.len()]);
    for (waiting, place) in (1..=costs.len()).rev().zip(order) {
        let share = cost(place).min(left / waiting);
        left -= share;
        if let Some(slot) = shares.get_mut(place) {
            *slot = share;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn long_replies_share_what_short_ones_leave() {
        for (budget, costs, expect) in [
            (900, vec![100, 100, 100], vec![100, 100, 100]),
            (900, vec![1_000, 100, 1_000], vec![400, 100, 400]),
            (900, vec![usize::MAX, usize::MAX, 0], vec![450, 450, 0]),
            (900, vec![500, 300, 300], vec![300, 300, 300]),
            (10, vec![], vec![]),
        ] {
            assert_eq!(shares(budget, &costs), expect, "{costs:?}");
        }
    }
}
