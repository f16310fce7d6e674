//! Why a call was permitted.

use super::{DefaultAccess, Policy, Rule, rules::Rules};
use crate::{call::Role, catalog::ToolEntry};

impl Policy {
    /// The part of the policy by which its caller may call a tool, as a path in the file: `tools.github/*`,
    /// `callers[1].tools.x_git_log`, `callers` for what an entry adds without a rule, `default`, or `operator`.
    pub fn basis(&self, entry: &ToolEntry) -> String {
        if entry.audience.is_gateway() && self.role() == Role::Operator {
            return "operator".to_owned();
        }
        let Some(rule) = self.rules_of(entry).next() else {
            return match self.default {
                DefaultAccess::Enabled => "default".to_owned(),
                DefaultAccess::Disabled => "callers".to_owned(),
            };
        };
        // A rule does not know its key. There are few, and this is not asked on the call path.
        let key = |rules: &Rules| {
            let mut all = rules.iter();
            all.find(|(_, known)| std::ptr::eq::<Rule>(*known, rule)).map(|(key, _)| key.clone())
        };
        let added = self.callers.iter().enumerate().find_map(|(at, grant)| {
            key(&grant.rules).map(|key| format!("callers[{at}].tools.{key}"))
        });
        added.or_else(|| key(&self.rules).map(|key| format!("tools.{key}"))).unwrap_or_default()
    }
}
