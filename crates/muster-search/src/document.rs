//! What search knows about one tool.

use serde_json::Value;

/// What search knows about one tool. Whatever is unknown stays empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Document<'a> {
    /// What the tool is called where it comes from.
    pub name: &'a str,
    /// Further names that find it at once, such as the one that agents see. They are compared as a
    /// whole; their words are not searched.
    pub full_names: &'a [&'a str],
    /// What it is called for people.
    pub title: &'a str,
    /// Who offers it.
    pub server: &'a str,
    /// What it does.
    pub description: &'a str,
    /// What it takes.
    pub parameters: &'a [Parameter<'a>],
    /// Words for search.
    pub tags: &'a [&'a str],
    /// Other names for it, from whoever set it up.
    pub aliases: &'a [&'a str],
}

/// One thing that a tool takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parameter<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it is.
    pub description: &'a str,
}

/// The parameters that a JSON Schema describes, those within others included.
pub fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let mut found = Vec::new();
    collect(schema, 0, &mut found);
    found
}

fn collect<'a>(schema: &'a Value, depth: usize, found: &mut Vec<Parameter<'a>>) {
    const DEEPEST: usize = 3;
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        found.push(Parameter { name, description });
        if depth < DEEPEST {
            collect(property, depth + 1, found);
            if let Some(items) = property.get("items") {
                collect(items, depth + 1, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parameters;

    #[test]
    fn parameters_within_parameters_are_found() {
        let schema = json!({"properties": {
            "path": {"type": "string", "description": "Where"},
            "edits": {"items": {"properties": {"old": {"description": 3}, "new": true}}},
        }});
        let found: Vec<_> =
            parameters(&schema).into_iter().map(|one| (one.name, one.description)).collect();
        assert_eq!(found, [("path", "Where"), ("edits", ""), ("old", ""), ("new", "")]);
    }

    #[test]
    fn any_value_is_a_schema() {
        for schema in [json!(null), json!([1]), json!({"properties": 3}), json!({"properties": {}})]
        {
            assert!(parameters(&schema).is_empty());
        }
    }
}
