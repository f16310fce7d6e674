//! The view of an input schema that repairs need.

use std::cell::Cell;

use serde_json::{Value, value::RawValue};

/// The maximum number of references followed.
const MAX_REFERENCES: usize = 8;
/// The maximum number of branches looked at for the types of a schema.
const MAX_BRANCHES: usize = 1_000;

/// An input schema.
#[derive(Debug)]
pub(super) struct SchemaView {
    root: Value,
}

impl SchemaView {
    /// Parses a schema; an invalid one declares no arguments.
    pub(super) fn of(schema: &RawValue) -> Self {
        Self { root: serde_json::from_str(schema.get()).unwrap_or(Value::Null) }
    }

    /// The root schema.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The argument names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let properties = self.object(&self.root).and_then(|object| object.get("properties"));
        properties.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Whether an argument is declared.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.property(name).is_some()
    }

    /// The schema of an argument.
    pub(super) fn property(&self, name: &str) -> Option<&Value> {
        self.object(&self.root)?.get("properties")?.get(name)
    }

    /// Whether undeclared arguments are likely: the schema allows additional ones explicitly, or declares none.
    pub(super) fn is_open(&self) -> bool {
        let others =
            self.root.get("additionalProperties").map(|others| *others != Value::Bool(false));
        let patterns = self.root.get("patternProperties").is_some();
        patterns || others.unwrap_or_else(|| self.names().next().is_none())
    }

    /// The names of the required arguments.
    pub(super) fn required(&self) -> Vec<&str> {
        self.object(&self.root).map(required).unwrap_or_default()
    }

    /// Follows references.
    pub(super) fn resolved<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(pointer) = reference.and_then(|text| text.strip_prefix('#')) else { break };
            let Some(target) = self.root.pointer(pointer) else { break };
            schema = target;
        }
        schema
    }

    /// The types that a schema accepts; `None` if unknown.
    pub(super) fn types<'a>(&'a self, schema: &'a Value) -> Option<Vec<&'a str>> {
        self.types_within(schema, MAX_REFERENCES, &Cell::new(MAX_BRANCHES))
    }

    fn types_within<'a>(
        &'a self,
        schema: &'a Value,
        depth: usize,
        branches_left: &Cell<usize>,
    ) -> Option<Vec<&'a str>> {
        let depth = depth.checked_sub(1)?;
        branches_left.set(branches_left.get().checked_sub(1)?);
        let schema = self.resolved(schema);
        match schema.get("type") {
            Some(Value::String(kind)) => return Some(vec![kind]),
            Some(Value::Array(kinds)) => return kinds.iter().map(Value::as_str).collect(),
            _ => (),
        }
        if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            return self.types_within(only, depth, branches_left);
        }
        if let Some(branches) = branches(schema) {
            let kinds =
                branches.iter().map(|branch| self.types_within(branch, depth, branches_left));
            return kinds.collect::<Option<Vec<_>>>().map(|kinds| kinds.concat());
        }
        let values = schema.get("enum").and_then(Value::as_array)?;
        Some(values.iter().map(kind).collect())
    }

    /// The only object schema within a schema.
    pub(super) fn object<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.only(schema, "object", "properties", MAX_REFERENCES)
    }

    /// The only array schema within a schema.
    pub(super) fn list<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        self.only(schema, "array", "items", MAX_REFERENCES)
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

/// The required members of an object schema.
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
