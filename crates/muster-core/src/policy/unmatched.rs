//! Policy rules that match no tool and limits that match no argument: most often typos, and then an
//! intended restriction does not hold.

use serde_json::Value;

use super::Policy;
use crate::{
    catalog::{CatalogSnapshot, ToolEntry},
    suggest::similar,
};

/// A rule that matches no tool, or a limit that matches no argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedRule {
    /// The tool name of the rule.
    pub tool: String,
    /// The argument of the limit; none if there is no such tool.
    pub argument: Option<String>,
    /// The nearest existing name.
    pub similar: Option<String>,
}

impl UnmatchedRule {
    /// The path in the policy file.
    pub fn path(&self) -> Vec<String> {
        let mut path = vec!["tools".to_owned(), self.tool.clone()];
        path.extend(self.argument.iter().flat_map(|name| ["args".to_owned(), name.clone()]));
        path
    }

    /// The problem.
    pub const fn message(&self) -> &'static str {
        match self.argument {
            None => "there is no such tool",
            Some(_) => "the tool has no such argument, so this limits nothing",
        }
    }

    /// The suggested fix.
    pub fn fix(&self) -> Option<String> {
        self.similar.as_ref().map(|name| format!("did you mean `{name}`?"))
    }
}

impl Policy {
    /// The rules and limits that match nothing in the catalog.
    pub fn unmatched_rules(&self, catalog: &CatalogSnapshot) -> Vec<UnmatchedRule> {
        let mut unmatched = Vec::new();
        for (tool, rule) in &self.rules {
            let named: Vec<&ToolEntry> = match catalog.get(tool) {
                Some(entry) => vec![entry],
                None => {
                    let all = catalog.sorted().map(|entry| &**entry);
                    all.filter(|entry| *entry.local_name == **tool).collect()
                }
            };
            if named.is_empty() {
                let nearest = catalog.similar(tool, |_| true).first().map(ToString::to_string);
                unmatched.push(UnmatchedRule {
                    tool: tool.clone(),
                    argument: None,
                    similar: nearest,
                });
                continue;
            }
            // A tool without a closed schema may take any argument.
            let Some(known) = named.into_iter().map(arguments).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let known: Vec<String> = known.into_iter().flatten().collect();
            for argument in rule.args.keys().filter(|name| !known.contains(name)) {
                let nearest = similar(argument, known.iter().map(String::as_str)).first().copied();
                unmatched.push(UnmatchedRule {
                    tool: tool.clone(),
                    argument: Some(argument.clone()),
                    similar: nearest.map(str::to_owned),
                });
            }
        }
        unmatched
    }
}

/// The argument names of a tool, if it declares them.
fn arguments(entry: &ToolEntry) -> Option<Vec<String>> {
    if let Some(params) = entry.params.as_deref() {
        return Some(params.iter().map(|param| param.name.clone()).collect());
    }
    let schema: Value = serde_json::from_str(entry.input_schema.get()).ok()?;
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    (!properties.is_empty() && !open).then(|| properties.keys().cloned().collect())
}
