//! What a policy says in vain: rules for tools, and limits on arguments, that are not there. Most often a
//! typing error, and then a limit that was meant to hold does not.

use serde_json::Value;

use super::Policy;
use crate::{
    catalog::{Entry, Snapshot},
    suggest::similar,
};

/// A rule or a limit that nothing falls under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vain {
    /// The tool that the rule names.
    pub tool: String,
    /// The argument that the limit names; none where there is no such tool.
    pub argument: Option<String>,
    /// What may have been meant.
    pub similar: Option<String>,
}

impl Vain {
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
    pub fn vain(&self, catalog: &Snapshot) -> Vec<Vain> {
        let mut vain = Vec::new();
        for (tool, rule) in &self.rules {
            let about: Vec<&Entry> = match catalog.get(tool) {
                Some(entry) => vec![entry],
                None => {
                    let all = catalog.sorted().map(|entry| &**entry);
                    all.filter(|entry| *entry.local_name == **tool).collect()
                }
            };
            if about.is_empty() {
                let near = catalog.similar(tool, |_| true).first().map(ToString::to_string);
                vain.push(Vain { tool: tool.clone(), argument: None, similar: near });
                continue;
            }
            // A tool that does not say what it takes may take anything.
            let Some(known) = about.into_iter().map(arguments).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let known: Vec<String> = known.into_iter().flatten().collect();
            for argument in rule.args.keys().filter(|name| !known.contains(name)) {
                let near = similar(argument, known.iter().map(String::as_str)).first().copied();
                vain.push(Vain {
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
fn arguments(entry: &Entry) -> Option<Vec<String>> {
    if let Some(params) = entry.params.as_deref() {
        return Some(params.iter().map(|param| param.name.clone()).collect());
    }
    let schema: Value = serde_json::from_str(entry.input_schema.get()).ok()?;
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    (!properties.is_empty() && !open).then(|| properties.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use crate::{
        catalog::{About, Snapshot, Source, offer},
        connect::Listing,
        json::raw,
        manifest::policy::parse,
        name::BackendName,
    };

    /// What a policy says in vain where there is a tool `x_a_read` that takes this.
    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    fn vain(file: &str, schema: Value) -> Vec<String> {
        let tools = vec![raw(&json!({"name": "read", "inputSchema": schema}))];
        let backend = BackendName::new("a");
        let listing = Listing { tools, ..Listing::default() };
        let offer = offer::offer(&listing, &backend, |local| format!("x_a_{local}"));
        let about = About {
            title: "a".into(),
            description: "".into(),
            category: None,
            tags: Arc::default(),
        };
        let catalog = Snapshot::default().with(Source::new(backend, about, offer));
        let vain = parse(file).unwrap().value.vain(&catalog);
        let said = vain.iter().map(|vain| {
            format!("{} {}", vain.path().join("."), vain.similar.as_deref().unwrap_or("-"))
        });
        said.collect()
    }

    #[test]
    fn only_what_cannot_be_there() {
        let file = json!({"type": "object", "properties": {"file": {}}});
        let limits = "tools: {read: {args: {file: {max: 1}, fil: {max: 1}}}, x_a_rea: {}, zzz: {}}";
        let expect = ["tools.read.args.fil file", "tools.x_a_rea x_a_read", "tools.zzz -"];
        assert_eq!(vain(limits, file.clone()), expect);
        let limit = "tools: {x_a_read: {args: {fil: {max: 1}}}}";
        assert_eq!(vain(limit, file), ["tools.x_a_read.args.fil file"]);
        // Whoever takes anything may take this too.
        let open = json!({"properties": {"file": {}}, "additionalProperties": true});
        assert_eq!(vain(limit, open), [""; 0]);
        assert_eq!(vain(limit, json!({"type": "object"})), [""; 0]);
    }
}
