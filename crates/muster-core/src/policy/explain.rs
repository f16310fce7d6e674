//! Explanations of a policy's decisions.

use serde::{Deserialize, Serialize};

use super::{DefaultAccess, Policy, Rule, rules::Rules};
use crate::{
    call::{Call, CallError, Caller, Role},
    catalog::{CatalogSnapshot, ToolAudience, ToolEntry},
    effect::Effect,
};

/// The decision of a policy about a call, and the part of the policy that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The paths of the parts of the policy that decide, the most specific first: `tools.github/*`, `default`.
    pub rules: Vec<String>,
    /// The positions of the entries of `callers` that match the caller.
    pub entries: Vec<usize>,
    /// Whether the caller may change the gateway.
    pub role: Role,
    /// The effect of the tool, if there is such a tool.
    pub effect: Option<Effect>,
    /// Why, in one sentence.
    pub reason: String,
    /// The problems with the arguments, one sentence each.
    pub problems: Vec<String>,
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allowed,
    /// The caller cannot see the tool.
    Hidden,
    /// An argument is outside the limits of a rule.
    Limited,
    /// The tool is known to be destructive, and such tools are blocked.
    Destructive,
    /// The policy allows the tool; its schema does not allow the arguments.
    InvalidArguments,
    /// There is no such tool for any caller.
    UnknownTool,
    /// It cannot be decided, for example because a pattern is invalid.
    Failed,
}

impl Policy {
    /// Decides about a call exactly as [`Policy::permit`] does, and says why.
    pub fn explain(&self, catalog: &CatalogSnapshot, caller: &Caller, call: Call) -> Explanation {
        let own = self.narrowed(self.access_of(caller), catalog);
        let entries = own.scope.entries().to_vec();
        let mut found = Explanation {
            decision: Decision::Allowed,
            rules: Vec::new(),
            entries,
            role: own.role(),
            effect: None,
            reason: String::new(),
            problems: Vec::new(),
        };
        let name = call.tool.clone();
        let Some(entry) = catalog.get(name.as_str()) else {
            found.decision = Decision::UnknownTool;
            let near = catalog.similar(name.as_str(), |_| true);
            let near = near.first().map(|near| format!("; the nearest is `{near}`"));
            found.reason = format!("there is no tool `{name}`{}", near.unwrap_or_default());
            return found;
        };
        // The rules of the server that a family's call selects also decide.
        let instance = catalog.instance(entry, &call.arguments).and_then(Result::ok);
        let family = instance.as_ref().map(|_| entry);
        let entry = instance.as_ref().map_or(entry, |(own, _)| own);
        let paths = || {
            let mut paths = own.paths(entry);
            for path in family.map(|family| own.paths(family)).unwrap_or_default() {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            paths
        };
        found.effect = Some(own.effect(entry));
        match own.permit(catalog, caller, call) {
            Ok(_) => {
                let basis = own.basis(entry);
                found.reason = reason_of(&basis).to_owned();
                found.rules = match paths() {
                    paths if paths.is_empty() => vec![basis],
                    paths => paths,
                };
            }
            Err(error) if is_hidden(&error) || family.is_some() && !own.shows(entry) => {
                let family = family.filter(|family| !own.shows(family));
                let (rule, reason) = own.hidden_by(family.unwrap_or(entry));
                found.decision = Decision::Hidden;
                found.rules = vec![rule];
                found.reason = reason;
            }
            Err(CallError::PolicyViolation { violations, .. }) => {
                found.decision = Decision::Limited;
                found.rules = paths();
                found
                    .rules
                    .extend(own.rules.bare(entry).map(|_| format!("tools.{}", entry.local_name)));
                found.reason = "a rule limits the arguments, and these are outside".to_owned();
                found.problems = violations;
            }
            Err(CallError::InvalidArguments { problems, unknown, .. }) => {
                found.decision = Decision::InvalidArguments;
                found.rules = paths();
                found.reason =
                    "the policy allows the tool, but its schema does not allow these arguments"
                        .to_owned();
                found.problems = problems.iter().map(ToString::to_string).collect();
                let unknown = unknown.iter().map(|(name, _)| format!("Unknown argument '{name}'"));
                found.problems.extend(unknown);
            }
            Err(error @ CallError::Destructive { .. }) => {
                found.decision = Decision::Destructive;
                found.reason = error.to_string();
            }
            Err(error) => {
                found.decision = Decision::Failed;
                found.reason = error.to_string();
            }
        }
        found
    }

    /// Returns why the caller cannot see a tool: the part of the policy, and a sentence. The conditions are those of
    /// [`Policy::shows`], in its order.
    fn hidden_by(&self, entry: &ToolEntry) -> (String, String) {
        if let Some(name) = self.unknown_toolset() {
            let reason =
                format!("the caller is bound to the toolset `{name}`, which does not exist");
            return (format!("toolsets.{name}"), reason);
        }
        if let Some(name) = self.scope.bound_toolset()
            && !self.scope.admits(entry, || self.effect(entry))
        {
            let reason = format!(
                "the caller is bound to the toolset `{name}`, which does not select the tool"
            );
            return (format!("toolsets.{name}"), reason);
        }
        if entry.audience == ToolAudience::Operators && self.role() == Role::Agent {
            let reason = "the tool changes the gateway or shows what only operators may see, and the caller is an agent";
            return ("operators".to_owned(), reason.to_owned());
        }
        match self.open_to() {
            None => {
                let reason = "no rule names the tool, and tools without a rule are hidden";
                ("default".to_owned(), reason.to_owned())
            }
            Some(most) => {
                let reason = format!(
                    "no rule names the tool, and without one only tools up to the effect `{}` are shown; its effect is `{}`",
                    most.as_str(),
                    Effect::of(entry).as_str()
                );
                ("effect".to_owned(), reason)
            }
        }
    }

    /// The paths of the rules that name a tool for this caller, the most specific first.
    fn paths(&self, entry: &ToolEntry) -> Vec<String> {
        self.rules_of(entry).filter_map(|rule| self.path_of(rule)).collect()
    }

    /// The path of a rule in the file. Rules do not store their key, so this is a linear search; there are few rules,
    /// and this is not on the call path.
    pub(super) fn path_of(&self, rule: &Rule) -> Option<String> {
        let key = |rules: &Rules| {
            let mut all = rules.iter();
            all.find(|(_, known)| std::ptr::eq::<Rule>(*known, rule)).map(|(key, _)| key.clone())
        };
        let added = self.callers.iter().enumerate().find_map(|(at, grant)| {
            key(&grant.rules).map(|key| format!("callers[{at}].tools.{key}"))
        });
        added.or_else(|| key(&self.rules).map(|key| format!("tools.{key}")))
    }

    /// The part of the policy by which its caller may call a tool, as a path in the file: `tools.github/*`,
    /// `callers[1].tools.x_git_log`, `callers` for tools that an entry adds without a rule, `default`, or `operator`.
    pub fn basis(&self, entry: &ToolEntry) -> String {
        if entry.audience.is_gateway() && self.role() == Role::Operator {
            return "operator".to_owned();
        }
        match self.rules_of(entry).next() {
            Some(rule) => self.path_of(rule).unwrap_or_default(),
            None if self.default == DefaultAccess::Enabled
                && self.max_effect.is_none_or(|most| Effect::of(entry) <= most) =>
            {
                "default".to_owned()
            }
            None => "callers".to_owned(),
        }
    }
}

/// Whether an error says that the caller cannot see the tool.
const fn is_hidden(error: &CallError) -> bool {
    matches!(error, CallError::UnknownTool { .. })
}

/// The sentence that explains why a call is permitted.
fn reason_of(basis: &str) -> &'static str {
    match basis {
        "operator" => "the caller is an operator, who may call the gateway's own tools",
        "default" => "no rule names the tool, and tools without a rule may be called",
        "callers" => "an entry of `callers` lets the caller use tools without a rule",
        _ => "a rule lets the caller use the tool",
    }
}
