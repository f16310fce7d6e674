//! Policy rules that match no tool and limits that match no argument. Most are typos, and the intended restriction has
//! no effect.

use serde_json::Value;

use super::{Policy, Rule, rules::Rules};
use crate::{
    catalog::{CatalogSnapshot, ToolEntry},
    suggest::similar,
};

/// A rule that matches no tool, or a limit that matches no argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedRule {
    /// The position of the entry in `callers`; `None` for a rule for everybody.
    pub entry: Option<usize>,
    /// The tool name of the rule.
    pub tool: String,
    /// The argument of the limit; `None` if there is no such tool.
    pub argument: Option<String>,
    /// The nearest existing name, or the spelling that is meant.
    pub similar: Option<String>,
    /// Whether the rule uses an MCP server's own name for its tool.
    pub is_bare: bool,
}

impl UnmatchedRule {
    /// The path in the policy file.
    pub fn path(&self) -> Vec<String> {
        let entry = self.entry.map(|at| ["callers".to_owned(), at.to_string()]);
        let mut path: Vec<String> = entry.into_iter().flatten().collect();
        path.extend(["tools".to_owned(), self.tool.clone()]);
        path.extend(self.argument.iter().flat_map(|name| ["args".to_owned(), name.clone()]));
        path
    }

    /// The problem.
    pub const fn message(&self) -> &'static str {
        match (&self.argument, self.is_bare) {
            (None, false) => "there is no such tool",
            (None, true) => {
                "this is a server's own name of a tool, which another server may use as well; it lets no \
                 tool in"
            }
            (Some(_), _) => "the tool has no such argument, so this limits nothing",
        }
    }

    /// The suggested fix.
    pub fn fix(&self) -> Option<String> {
        let fix = |name: &String| match self.is_bare {
            true => format!("write `{name}`"),
            false => format!("did you mean `{name}`?"),
        };
        self.similar.as_ref().map(fix)
    }
}

impl Policy {
    /// The rules and limits that match nothing in the catalog.
    pub fn unmatched_rules(&self, catalog: &CatalogSnapshot) -> Vec<UnmatchedRule> {
        let entries = self.callers.iter().enumerate();
        let entries =
            entries.flat_map(|(at, grant)| grant.rules.iter().map(move |rule| (Some(at), rule)));
        let all = self.rules.iter().map(|rule| (None, rule)).chain(entries);
        all.flat_map(|(entry, (tool, rule))| unmatched(catalog, entry, tool, rule)).collect()
    }
}

fn unmatched(
    catalog: &CatalogSnapshot,
    entry: Option<usize>,
    tool: &str,
    rule: &Rule,
) -> Vec<UnmatchedRule> {
    let of = |argument: Option<String>, similar: Option<String>, is_bare: bool| UnmatchedRule {
        entry,
        tool: tool.to_owned(),
        argument,
        similar,
        is_bare,
    };
    let one: Rules = [(tool.to_owned(), Rule::default())].into_iter().collect();
    let named: Vec<&ToolEntry> = match catalog.get(tool) {
        Some(entry) => vec![entry],
        None => {
            let all = catalog.sorted().map(|entry| &**entry);
            all.filter(|entry| one.of(entry).next().is_some()).collect()
        }
    };
    if named.is_empty() {
        let all = catalog.sorted().filter(|entry| *entry.local_name == *tool);
        let bare: Vec<String> =
            all.map(|entry| format!("{}/{}", entry.backend, entry.local_name)).collect();
        return match bare.is_empty() {
            false => vec![of(None, Some(bare.join("` or `")), true)],
            true => {
                let nearest = catalog.similar(tool, |_| true).first().map(ToString::to_string);
                vec![of(None, nearest, false)]
            }
        };
    }
    // A tool without a closed schema may take any argument.
    let Some(known) = named.into_iter().map(arguments).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let known: Vec<String> = known.into_iter().flatten().collect();
    let unknown = rule.args.keys().filter(|name| !known.contains(name));
    let unknown = unknown.map(|argument| {
        let nearest = similar(argument, known.iter().map(String::as_str)).first().copied();
        of(Some(argument.clone()), nearest.map(str::to_owned), false)
    });
    unknown.collect()
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
