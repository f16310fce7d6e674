//! What a policy says in vain: rules for tools, and limits on arguments, that are not there. Most often a
//! typing error, and then a limit that was meant to hold does not.

use serde_json::Value;

use super::Policy;
use crate::{
    catalog::{CatalogSnapshot, ToolEntry},
    suggest::similar,
};

/// A rule or a limit that nothing falls under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedRule {
    /// The tool that the rule names.
    pub tool: String,
    /// The argument that the limit names; none where there is no such tool.
    pub argument: Option<String>,
    /// What may have been meant.
    pub similar: Option<String>,
}

impl UnmatchedRule {
    /// Where it stands in the file.
    pub fn path(&self) -> Vec<String> {
        let mut path = vec!["tools".to_owned(), self.tool.clone()];
        path.extend(self.argument.iter().flat_map(|name| ["args".to_owned(), name.clone()]));
        path
    }

    /// What is wrong.
    pub const fn message(&self) -> &'static str {
        match self.argument {
            None => "there is no such tool",
            Some(_) => "the tool has no such argument, so this limits nothing",
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> Option<String> {
        self.similar.as_ref().map(|name| format!("did you mean `{name}`?"))
    }
}

impl Policy {
    /// What the policy says in vain about the tools that there are.
    pub fn unmatched_rules(&self, catalog: &CatalogSnapshot) -> Vec<UnmatchedRule> {
        let mut vain = Vec::new();
        for (tool, rule) in &self.rules {
            let about: Vec<&ToolEntry> = match catalog.get(tool) {
                Some(entry) => vec![entry],
                None => {
                    let all = catalog.sorted().map(|entry| &**entry);
                    all.filter(|entry| *entry.local_name == **tool).collect()
                }
            };
            if about.is_empty() {
                let near = catalog.similar(tool, |_| true).first().map(ToString::to_string);
                vain.push(UnmatchedRule { tool: tool.clone(), argument: None, similar: near });
                continue;
            }
            // A tool that does not say what it takes may take anything.
            let Some(known) = about.into_iter().map(arguments).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let known: Vec<String> = known.into_iter().flatten().collect();
            for argument in rule.args.keys().filter(|name| !known.contains(name)) {
                let near = similar(argument, known.iter().map(String::as_str)).first().copied();
                vain.push(UnmatchedRule {
                    tool: tool.clone(),
                    argument: Some(argument.clone()),
                    similar: near.map(str::to_owned),
                });
            }
        }
        vain
    }
}

/// The arguments of a tool, if it says so.
fn arguments(entry: &ToolEntry) -> Option<Vec<String>> {
    if let Some(params) = entry.params.as_deref() {
        return Some(params.iter().map(|param| param.name.clone()).collect());
    }
    let schema: Value = serde_json::from_str(entry.input_schema.get()).ok()?;
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    (!properties.is_empty() && !open).then(|| properties.keys().cloned().collect())
}
