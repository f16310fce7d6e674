//! `core_calls_list`, `core_calls_get` and `core_calls_stats`: the history of calls.

use muster_core::{call::Role, effect::Effect, observer::CallStatus};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{is_zero, keyword::known};

/// One call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallInfo {
    /// Its number: unique in the history, and increasing.
    pub id: u64,
    /// When it began: RFC 3339, in UTC.
    pub time: String,
    /// The tool, as the caller named it.
    pub tool: String,
    /// The server that the tool belongs to; empty if there is no such tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub status: Option<CallStatus>,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// How long the server took; `None` if the call never reached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_ms: Option<f64>,
    /// The subject of the caller.
    pub caller: String,
    /// The name of the static token that the caller presented.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The role of the caller.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub role: Option<Role>,
    /// The surface that the caller used.
    pub surface: String,
    /// The effect of the tool.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
    /// The part of the policy that permits it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The number of enclosing calls, such as workflows.
    #[serde(skip_serializing_if = "is_zero")]
    pub depth: u64,
    /// The length of the arguments.
    pub argument_bytes: u64,
    /// The length of the result, as the server returned it.
    pub result_bytes: u64,
    /// The error of a call without a result, if the history keeps texts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The arguments, as far as the history keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
}

/// The reply of `core_calls_list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallList {
    /// The calls, newest first, without their arguments.
    pub calls: Vec<CallInfo>,
    /// The cursor of the next page, for `before`; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The reply of `core_calls_stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallStats {
    /// The time of the first call: RFC 3339; empty if there is none.
    pub since: String,
    /// The totals of all calls.
    pub total: CallTotals,
    /// The calls by server and tool, those with the most calls first, up to a limit.
    pub tools: Vec<ToolCalls>,
    /// The number of tools, including those that are not listed.
    pub tool_count: usize,
    /// The calls by hour, oldest first. Hours without calls are left out.
    pub hours: Vec<HourCalls>,
}

/// The totals of some calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallTotals {
    /// The number of calls.
    pub calls: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// The average duration of those that a server ran, in milliseconds.
    pub average_ms: f64,
    /// The longest duration in milliseconds.
    pub longest_ms: f64,
    /// The bytes of all results.
    pub result_bytes: u64,
}

/// The calls of one tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCalls {
    /// The server; empty for tools that do not exist.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Its calls.
    #[serde(flatten)]
    pub totals: CallTotals,
}

/// The calls of one hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HourCalls {
    /// When the hour began: RFC 3339.
    pub hour: String,
    /// Its calls.
    #[serde(flatten)]
    pub totals: CallTotals,
}
