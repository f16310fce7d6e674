//! What a schema says about the arguments of a tool, as far as a repair needs to know.

use serde_json::{Value, value::RawValue};

/// How many references in a row are followed.
const MOST_REFERENCES: usize = 8;

/// An input schema.
#[derive(Debug)]
pub(super) struct Shape {
    root: Value,
}

impl Shape {
    /// Reads a schema; a broken one says nothing.
    pub(super) fn of(schema: &RawValue) -> Self {
        Self { root: serde_json::from_str(schema.get()).unwrap_or(Value::Null) }
    }

    /// The schema as a whole.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The names of the arguments, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let properties = self.object(&self.root).and_then(|object| object.get("properties"));
        properties.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Whether there is an argument of this name.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.property(name).is_some()
    }

    /// What an argument takes.
    pub(super) fn property(&self, name: &str) -> Option<&Value> {
        self.object(&self.root)?.get("properties")?.get(name)
    }

    /// Whether arguments that are not declared may well be meant: others are spoken of, or none is
    /// declared.
    pub(super) fn is_open(&self) -> bool {
        let others =
            self.root.get("additionalProperties").map(|others| *others != Value::Bool(false));
        let patterns = self.root.get("patternProperties").is_some();
        patterns || others.unwrap_or_else(|| self.names().next().is_none())
    }

    /// The names of the arguments that must be there.
    pub(super) fn required(&self) -> Vec<&str> {
        self.object(&self.root).map(required).unwrap_or_default()
    }

    /// A schema behind its references.
    pub(super) fn resolved<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MOST_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(pointer) = reference.and_then(|text| text.strip_prefix('#')) else { break };
            let Some(target) = self.root.pointer(pointer) else { break };
            schema = target;
        }
        schema
    }

    /// The types a schema lets through; none where that cannot be told.
    pub(super) fn types<'a>(&'a self, schema: &'a Value) -> Option<Vec<&'a str>> {
        self.types_within(schema, MOST_REFERENCES)
    }

    fn types_within<'a>(&'a self, schema: &'a Value, depth: usize) -> Option<Vec<&'a str>> {
        let depth = depth.checked_sub(1)?;
        let schema = self.resolved(schema);
        match schema.get("type") {
            Some(Value::String(kind)) => return Some(vec![kind]),
            Some(Value::Array(kinds)) => return kinds.iter().map(Value::as_str).collect(),
            _ => (),
        }
        if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            return self.types_within(only, depth);
        }
        if let Some(branches) = branches(schema) {
            let kinds = branches.iter().map(|branch| self.types_within(branch, depth));
            return kinds.collect::<Option<Vec<_>>>().map(|kinds| kinds.concat());
        }
        let values = schema.get("enum").and_then(Value::as_array)?;
        Some(values.iter().map(kind).collect())
    }

    /// The one schema for an object that a schema holds.
    pub(super) fn object<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.only(schema, "object", "properties", MOST_REFERENCES)
    }

    /// The one schema for a list that a schema holds.
    pub(super) fn list<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.only(schema, "array", "items", MOST_REFERENCES)
    }

    fn only<'a>(
        &'a self,
        schema: &'a Value,
        wanted: &str,
        keyword: &str,
        depth: usize,
    ) -> Option<&'a Value> {
        let depth = depth.checked_sub(1)?;
        let schema = self.resolved(schema);
        if schema.get(keyword).is_some() {
            return Some(schema);
        }
        if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            return self.only(only, wanted, keyword, depth);
        }
        let mut fitting = branches(schema)?
            .iter()
            .filter(|branch| self.types(branch).is_some_and(|kinds| kinds.contains(&wanted)));
        match (fitting.next(), fitting.next()) {
            (Some(branch), None) => self.only(branch, wanted, keyword, depth),
            _ => None,
        }
    }
}

/// The names that an object must have.
pub(super) fn required(object: &Value) -> Vec<&str> {
    let names = object.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn branches(schema: &Value) -> Option<&[Value]> {
    let branches = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    branches.as_array().map(Vec::as_slice)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
