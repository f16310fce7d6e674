//! Compares a result with the expectations and describes the differences.

mod compare;
mod variables;

use std::time::Duration;

use serde_json::Value;

use crate::{
    client::{ClientError, ReceivedNotification, ToolResponse},
    duration,
    scenario::{Budget, Expected, ExpectedNotification, Presence},
};

/// How much of a result a difference shows.
const EXCERPT: usize = 400;

/// An expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The expectation: `contains`, `json_path state`.
    pub at: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

impl Difference {
    pub(crate) fn new(
        at: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self { at: at.into(), expected: expected.into(), got: got.into() }
    }
}

/// The outcome of a call: a result, or a failure of the call itself.
pub type StepOutcome = Result<ToolResponse, ClientError>;

/// All expectations on the result that do not hold. Notifications are checked separately, because they may
/// still arrive.
pub fn check(
    expected: &Expected,
    outcome: &StepOutcome,
    took: Duration,
    tokens: fn(&str) -> usize,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let (failed, text) = match outcome {
        Ok(answer) => (answer.is_error, answer.text()),
        Err(failure) => (true, failure.to_string()),
    };
    differences.extend(success(expected, outcome, &text));
    for part in &expected.error_contains {
        let at = "error_contains";
        if !failed {
            let got = format!("no error: {}", excerpt(&text));
            differences.push(Difference::new(at, quoted(part), got));
        } else if !contains(&text, part) {
            differences.push(Difference::new(at, quoted(part), excerpt(&text)));
        }
    }
    // A failed call has no content to check.
    if let Ok(answer) = outcome {
        content(expected, answer, &text, &mut differences);
        budget(&expected.budget, &text, tokens, &mut differences);
    }
    if let Some(max) = expected.budget.max_duration
        && took > max
    {
        let (max, took) = (duration::short(max), duration::short(took));
        differences.push(Difference::new("max_duration", format!("at most {max}"), took));
    }
    differences
}

fn success(expected: &Expected, outcome: &StepOutcome, text: &str) -> Option<Difference> {
    let (failed, got) = match outcome {
        Err(_) => (true, "the call itself failed"),
        Ok(answer) if answer.is_error => (true, "an error"),
        Ok(_) => (false, "a success"),
    };
    let wanted = if expected.success { "a success" } else { "an error" };
    let got = || format!("{got}: {}", excerpt(text));
    (expected.success == failed).then(|| Difference::new("success", wanted, got()))
}

fn content(
    expected: &Expected,
    answer: &ToolResponse,
    text: &str,
    differences: &mut Vec<Difference>,
) {
    for part in &expected.contains {
        if !contains(text, part) {
            differences.push(Difference::new("contains", quoted(part), excerpt(text)));
        }
    }
    for part in &expected.not_contains {
        if contains(text, part) {
            let wanted = format!("no {}", quoted(part));
            differences.push(Difference::new("not_contains", wanted, around(text, part)));
        }
    }
    if expected.json_path.is_empty() {
        return;
    }
    let Some(object) = answer.first_object() else {
        let got = format!("no JSON object: {}", excerpt(text));
        differences.push(Difference::new("json_path", "a JSON object", got));
        return;
    };
    for (path, wanted) in &expected.json_path {
        differences.extend(json_path(&object, path, wanted));
    }
}

fn json_path(object: &Value, path: &str, wanted: &Value) -> Option<Difference> {
    let at = |path: &str| format!("json_path {path}");
    match compare::walk(object, path) {
        Err(why) => Some(Difference::new(at(path), wanted.to_string(), why)),
        Ok(got) => compare::mismatch(wanted, got).map(|mismatch| {
            let path = format!("{path}{}", mismatch.below);
            Difference::new(at(&path), mismatch.expected, excerpt(&mismatch.got))
        }),
    }
}

fn budget(
    budget: &Budget,
    text: &str,
    tokens: fn(&str) -> usize,
    differences: &mut Vec<Difference>,
) {
    let mut hold = |at: &str, max: Option<usize>, is: usize, unit: &str| {
        if let Some(max) = max.filter(|max| is > *max) {
            let wanted = format!("at most {max} {unit}");
            differences.push(Difference::new(at, wanted, format!("{is} {unit}")));
        }
    };
    hold("max_bytes", budget.max_bytes, text.len(), "bytes");
    if budget.max_tokens.is_some() {
        hold("max_tokens", budget.max_tokens, tokens(text), "tokens");
    }
}

/// Whether the expected notification is among those received.
pub fn is_received(expected: &ExpectedNotification, received: &[ReceivedNotification]) -> bool {
    received.iter().any(|received| {
        let params = received.params.to_string();
        received.method == expected.method
            && expected.contains.iter().all(|part| contains(&params, part))
    })
}

/// Checks the notifications received in time.
pub fn check_notification(
    expected: &ExpectedNotification,
    received: &[ReceivedNotification],
) -> Option<Difference> {
    let at = format!("notifications {}", expected.method);
    let all = || match received {
        [] => "none at all".to_owned(),
        received => {
            let received: Vec<String> = received
                .iter()
                .map(|received| format!("{} {}", received.method, received.params))
                .collect();
            excerpt(&received.join(", "))
        }
    };
    let within = duration::short(expected.within);
    match (expected.presence, is_received(expected, received)) {
        (Presence::Present, true) | (Presence::Absent, false) => None,
        (Presence::Present, false) => {
            let with = expected.contains.iter().map(|part| format!(" with {}", quoted(part)));
            let wanted = format!("one within {within}{}", with.collect::<String>());
            Some(Difference::new(at, wanted, all()))
        }
        (Presence::Absent, true) => {
            Some(Difference::new(at, format!("none within {within}"), all()))
        }
    }
}

/// Whether `text` contains `part`, ignoring ASCII case.
fn contains(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(EXCERPT).collect();
    match text.len() - short.len() {
        0 if short.is_empty() => "nothing".to_owned(),
        0 => short,
        more => format!("{short}… ({more} bytes more)"),
    }
}

/// The surroundings of `part` in `text`.
fn around(text: &str, part: &str) -> String {
    const MARGIN: usize = 60;
    let lower = text.to_ascii_lowercase();
    let at = lower.find(&part.to_ascii_lowercase()).unwrap_or_default();
    let before = text.get(..at).map_or(0, |before| before.chars().count());
    let skipped = before.saturating_sub(MARGIN);
    let length = before - skipped + part.chars().count() + MARGIN;
    let shown: String = text.chars().skip(skipped).take(length).collect();
    let (head, tail) = (skipped > 0, skipped + length < text.chars().count());
    format!("{}{shown}{}", if head { "…" } else { "" }, if tail { "…" } else { "" })
}

#[cfg(test)]
mod tests;
