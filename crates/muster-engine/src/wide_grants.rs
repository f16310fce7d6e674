//! Finds policy entries that let agents, or everybody, change the gateway.

use std::{collections::BTreeSet, path::PathBuf};

use muster_core::policy::{callers::CallerGrant, rules::Rules};

use crate::{core_tools, store::Files};

/// An entry of a policy that gives the right to change the gateway to more than some callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideGrant {
    /// The file of the policy.
    pub path: PathBuf,
    /// The position of the entry in `callers`; `None` for the policy for everybody.
    pub entry: Option<usize>,
    /// The operators' tools that it names; empty if all callers of the entry are operators.
    pub tools: Vec<String>,
}

impl WideGrant {
    /// Explains what the entry grants.
    pub fn message(&self) -> String {
        let place = self.entry.map_or_else(String::new, |entry| format!("callers → {entry} → "));
        match self.tools.as_slice() {
            [] => {
                format!("{place}operator: everybody that this entry matches may change the gateway")
            }
            tools => {
                format!("{place}tools: agents may change the gateway with {}", tools.join(", "))
            }
        }
    }

    /// How to restrict it.
    pub const fn fix(&self) -> &'static str {
        "name the users, groups or tokens that may, in an entry of `callers`"
    }
}

/// The entries of all policies that give agents, or users who were not named, the right to change the gateway.
pub fn examined(files: &Files) -> Vec<WideGrant> {
    let operators: BTreeSet<&str> = core_tools::for_operators().collect();
    let named = |rules: &Rules| -> Vec<String> {
        let tools = rules.keys().map(|key| key.strip_prefix("core/").unwrap_or(key));
        tools.filter(|tool| operators.contains(tool)).map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    for (path, file) in &files.policies {
        let Some(policy) = &file.policy else { continue };
        let mut add = |entry, tools| found.push(WideGrant { path: path.clone(), entry, tools });
        let tools = named(&policy.rules);
        if !tools.is_empty() {
            add(None, tools);
        }
        let wide = policy.callers.iter().enumerate().filter(|(_, grant)| is_wide(grant));
        for (at, grant) in wide {
            let tools = named(&grant.rules);
            if grant.operator {
                add(Some(at), Vec::new());
            } else if !tools.is_empty() {
                add(Some(at), tools);
            }
        }
    }
    found
}

/// Whether an entry matches callers without a login, or arbitrary users.
fn is_wide(grant: &CallerGrant) -> bool {
    const ANYBODY: [&str; 2] = ["somebody@unknown.invalid", "f2d1c9a0-unknown"];
    let subjects = &grant.subjects;
    let mut patterns = subjects.users.iter().chain(&subjects.clients);
    subjects.anonymous || patterns.any(|glob| ANYBODY.iter().any(|anybody| glob.matches(anybody)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::examined;
    use crate::store::{ConfigStore, Files};

    #[test]
    fn rights_of_operators_for_agents_and_everybody_are_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("policies");
        fs::create_dir(&folder).unwrap();
        let messages = |text: &str| -> Vec<String> {
            fs::write(folder.join("p.yaml"), text).unwrap();
            let files = ConfigStore::new(root.path()).load(&Files::default());
            assert!(files.problems.is_empty(), "{:?}", files.problems);
            examined(&files).iter().map(|grant| grant.message()).collect()
        };
        let create = "{core_mcpserver_create: {}, core_events: {}}";
        for (policy, expected) in [
            (
                format!("tools: {create}"),
                "tools: agents may change the gateway with core_mcpserver_create",
            ),
            (
                "tools: {core/core_workflow_delete: {}}".to_owned(),
                "tools: agents may change the gateway with core_workflow_delete",
            ),
            (
                "callers: [{users: ['a@b.example'], operator: true}, {users: ['*'], operator: true}]".to_owned(),
                "callers → 1 → operator: everybody that this entry matches may change the gateway",
            ),
            (
                "callers: [{clients: ['*'], operator: true}]".to_owned(),
                "callers → 0 → operator: everybody that this entry matches may change the gateway",
            ),
            (
                format!("callers: [{{anonymous: true, tools: {create}}}]"),
                "callers → 0 → tools: agents may change the gateway with core_mcpserver_create",
            ),
        ] {
            assert_eq!(messages(&policy), [expected], "{policy}");
        }
        for policy in [
            "default: enabled".to_owned(),
            "tools: {core/*: {}, '*': {}, core_events: {}}".to_owned(),
            "callers: [{users: ['*@b.example'], groups: [g], operator: true}]".to_owned(),
            format!("callers: [{{tokens: [ci], tools: {create}}}]"),
        ] {
            assert_eq!(messages(&policy), [""; 0], "{policy}");
        }
    }
}
