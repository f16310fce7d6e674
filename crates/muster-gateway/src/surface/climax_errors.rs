//! Errors in CLImax's words. The texts are a contract; further help is structured content beside the text.

use muster_core::{
    call::{ARGUMENT_VALUES, CallError, Outcome},
    json::raw,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Help for the next attempt.
#[derive(Serialize, Default)]
struct Help<'a> {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    did_you_mean: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
}

/// The outcome of a call that did not run.
pub(super) fn outcome(error: &CallError) -> Outcome {
    if let CallError::PolicyViolation { tool, violations } = error {
        let violations = violations.join("; ");
        tracing::warn!(target: ARGUMENT_VALUES, "Policy rejected {tool}: {violations}");
    }
    let text = text(error);
    let help = Help { error: text.clone(), ..help(error) };
    Outcome::Text { text, failed: true, details: Some(raw(&help)) }
}

fn text(error: &CallError) -> String {
    match error {
        CallError::UnknownTool { tool, .. } => format!("Unknown tool: {tool}"),
        CallError::InvalidArguments { problems, .. } => match problems.as_slice() {
            [problem @ muster_core::arguments::ArgumentProblem::Schema { .. }] => {
                problem.to_string()
            }
            problems => listed("Argument validation failed:", problems),
        },
        CallError::PolicyViolation { violations, .. } => {
            listed("Policy validation failed:", violations)
        }
        CallError::InvalidPolicy { .. }
        | CallError::Unavailable { .. }
        | CallError::Instance(_)
        | CallError::Upstream { .. }
        | CallError::Destructive { .. }
        | CallError::ExcessiveEffect(_)
        | CallError::TooDeep { .. } => error.to_string(),
    }
}

fn listed(heading: &str, items: &[impl ToString]) -> String {
    items.iter().fold(heading.to_owned(), |text, item| text + "\n  - " + &item.to_string())
}

fn help(error: &CallError) -> Help<'_> {
    match error {
        CallError::UnknownTool { similar, .. } => Help {
            hint: Some(match similar.first() {
                Some(name) => format!("did you mean `{name}`?"),
                None => "call `climax_search` to see what there is".to_owned(),
            }),
            did_you_mean: similar.iter().map(|name| name.as_str()).collect(),
            ..Help::default()
        },
        CallError::InvalidArguments { unknown, schema, .. } => Help {
            hint: unknown.first().map(|(name, near)| match near {
                Some(near) => format!("there is no argument `{name}`; did you mean `{near}`?"),
                None => format!("there is no argument `{name}`"),
            }),
            input_schema: Some(schema),
            ..Help::default()
        },
        CallError::PolicyViolation { .. } => Help {
            hint: Some("the values allowed are set by this server's policy".to_owned()),
            ..Help::default()
        },
        CallError::InvalidPolicy { .. } => Help {
            hint: Some(
                "the policy file must be corrected by the operator of this server".to_owned(),
            ),
            ..Help::default()
        },
        CallError::Unavailable { .. }
        | CallError::Instance(_)
        | CallError::Upstream { .. }
        | CallError::Destructive { .. }
        | CallError::ExcessiveEffect(_)
        | CallError::TooDeep { .. } => Help::default(),
    }
}
