//! The searchable document of a tool.

use serde_json::Value;

/// The searchable document of a tool. Unknown parts are empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Document<'a> {
    /// The name of the tool at its server.
    pub name: &'a str,
    /// Other exact names, such as the one that agents see. They match as a whole only; their words are
    /// not searched.
    pub full_names: &'a [&'a str],
    /// Its title for people.
    pub title: &'a str,
    /// Its server.
    pub server: &'a str,
    /// Its description.
    pub description: &'a str,
    /// Its parameters.
    pub parameters: &'a [Parameter<'a>],
    /// Its tags.
    pub tags: &'a [&'a str],
    /// Aliases from the configuration.
    pub aliases: &'a [&'a str],
}

/// A parameter of a tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
}

/// The parameters in a JSON Schema, including nested ones.
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
