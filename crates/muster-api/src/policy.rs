//! `core_policy_get` and `core_policy_check`: who may do what.

use muster_core::{
    call::Role,
    effect::Effect,
    policy::{DefaultAccess, explain::Decision},
};
use serde::{Deserialize, Serialize};

use crate::keyword::known;

/// The reply of `core_policy_check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyAnswer {
    /// Whether the call may run.
    pub allowed: bool,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub decision: Option<Decision>,
    /// Why, in one sentence.
    pub reason: String,
    /// The parts of the policy that decided, the most specific first: `tools.github/*`, `default`.
    pub rules: Vec<String>,
    /// What is wrong with the arguments, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The tool.
    pub tool: String,
    /// The server of the tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The effect of the tool.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
    /// The caller.
    pub caller: String,
    /// The role of the caller.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub role: Option<Role>,
    /// The toolset that the caller is bound to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub toolset: String,
    /// The entries of `callers` that match the caller: `callers[0]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
}

/// The reply of `core_policy_get`: all policy files together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyInfo {
    /// The access to tools without a rule.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub default: Option<DefaultAccess>,
    /// The greatest effect of tools without a rule; empty for any.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
    /// Whether tools that are known to be destructive are blocked.
    pub destructive_blocked: bool,
    /// The rules for everybody, in file order.
    pub rules: Vec<PolicyRuleInfo>,
    /// The additional access of particular callers.
    pub callers: Vec<PolicyEntryInfo>,
    /// The toolsets.
    pub toolsets: Vec<ToolsetSummary>,
    /// What is wrong with the files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyRuleInfo {
    /// The tools that it names, as in the file.
    pub tool: String,
    /// The effect that it gives them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
    /// The limits on arguments, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// An entry of `callers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyEntryInfo {
    /// Its path: `callers[0]`.
    pub path: String,
    /// The callers: `user *@example.com`, `group developers`, `client …`, `token ci`, `callers without a login`.
    pub subjects: Vec<String>,
    /// Whether they are operators.
    #[serde(skip_serializing_if = "crate::is_false")]
    pub operator: bool,
    /// The access to tools without a rule, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub default: Option<DefaultAccess>,
    /// The greatest effect of tools without a rule, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
    /// The toolset whose tools are added.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub toolset: String,
    /// Its rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRuleInfo>,
}

/// A toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolsetSummary {
    /// Its name.
    pub name: String,
    /// One line about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it selects, one phrase each: `server github`, `tool x_git_*`, `tag ops`.
    pub selects: Vec<String>,
    /// The greatest effect of its tools; empty for any.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub effect: Option<Effect>,
}
