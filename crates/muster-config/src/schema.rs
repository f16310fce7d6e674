//! JSON Schemas from field tables.

use muster_core::fields::{Field, FieldDefault, FieldTable, FieldType};
use serde_json::{Map, Value as Json, json};

/// The form of a duration in files, as Go writes it.
pub(crate) const DURATION: &str = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$|^0$";

/// The input schema of a core tool whose arguments are the fields of `tables`.
///
/// Fields that only old callers send are not shown. `defaults` is whether a field that is left out gets its default: it
/// does when something is created, and does not when it is updated.
pub fn arguments(tables: &[&'static FieldTable], required: &[&str], defaults: bool) -> Json {
    let mut builder = Builder { target: Target::Call { defaults }, definitions: Map::new() };
    let fields = tables.iter().flat_map(|table| table.all());
    let properties = builder.properties(fields);
    json!({"type": "object", "required": required, "properties": properties})
}

/// The schema of a file: a document of JSON Schema 2020-12 for editors and validators.
pub(crate) fn document(title: &str, root: Root) -> Json {
    let mut builder = Builder { target: Target::File, definitions: Map::new() };
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    let body = match root {
        Root::Table(table) => builder.object(table),
        // The form decides which errors are reported: a file with `spec` is meant to be in the long form.
        Root::Forms { long, short } => json!({
            "type": "object",
            "if": {"required": ["spec"]},
            "then": builder.reference(long),
            "else": builder.reference(short),
        }),
    };
    if let (Json::Object(document), Json::Object(body)) = (&mut document, body) {
        document.extend(body);
        if !builder.definitions.is_empty() {
            document.insert("$defs".to_owned(), Json::Object(builder.definitions));
        }
    }
    document
}

/// The mappings that a file may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Root {
    /// A mapping with these fields.
    Table(&'static FieldTable),
    /// A Kubernetes resource, or its spec at the top.
    Forms {
        /// The resource.
        long: &'static FieldTable,
        /// The spec at the top.
        short: &'static FieldTable,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    File,
    Call { defaults: bool },
}

struct Builder {
    target: Target,
    definitions: Map<String, Json>,
}

impl Builder {
    fn is_file(&self) -> bool {
        self.target == Target::File
    }

    fn properties(&mut self, fields: impl Iterator<Item = &'static Field>) -> Map<String, Json> {
        let is_file = self.is_file();
        fields
            .filter(|field| is_file || !field.legacy)
            .map(|field| {
                let name = if self.is_file() { field.name } else { field.shown_in_calls() };
                (name.to_owned(), self.field(field))
            })
            .collect()
    }

    fn object(&mut self, table: &'static FieldTable) -> Json {
        let mut properties = self.properties(table.all());
        let required: Vec<&str> = table
            .all()
            .filter(|field| field.is_required())
            .map(|field| if self.is_file() { field.name } else { field.shown_in_calls() })
            .collect();
        let mut object = json!({"type": "object", "additionalProperties": false});
        if self.is_file() {
            // Readers accept the names of core tools too, and leave `x-…` to anchors.
            for field in table.all() {
                if let Some(name) = field.call_name {
                    properties.insert(name.to_owned(), self.field(field));
                }
            }
            set(&mut object, "patternProperties", json!({"^x-": true}));
        }
        set(&mut object, "properties", Json::Object(properties));
        if !required.is_empty() {
            set(&mut object, "required", json!(required));
        }
        object
    }

    /// Returns the schema of a table: a reference in the schema of a file, inlined in that of a tool, because agents
    /// read those without resolving references.
    fn reference(&mut self, table: &'static FieldTable) -> Json {
        if !self.is_file() {
            return self.object(table);
        }
        let name = table.noun.replace(' ', "-");
        if !self.definitions.contains_key(&name) {
            // Inserted first, so that the definitions are in the order of first use.
            self.definitions.insert(name.clone(), Json::Null);
            let object = self.object(table);
            self.definitions.insert(name.clone(), object);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn field(&mut self, field: &'static Field) -> Json {
        let mut schema = self.value(&field.holds);
        if field.nullable && self.is_file() {
            schema = or_null(schema);
        }
        let mut meaning = field.meaning.replace('`', "");
        if !self.is_file() && matches!(field.holds, FieldType::Duration) {
            meaning.push_str(", in nanoseconds");
        }
        set(&mut schema, "description", Json::String(meaning));
        if field.min_items > 0 {
            set(&mut schema, "minItems", json!(field.min_items));
        }
        let defaults = self.target != Target::Call { defaults: false };
        if let (true, FieldDefault::Json(default)) = (defaults, field.default) {
            set(&mut schema, "default", serde_json::from_str(default).unwrap_or_default());
        }
        schema
    }

    fn value(&mut self, holds: &'static FieldType) -> Json {
        match holds {
            FieldType::String | FieldType::Secret => json!({"type": "string"}),
            FieldType::Scalar if self.is_file() => {
                json!({"type": ["string", "number", "boolean"]})
            }
            FieldType::Scalar => json!({"type": "string"}),
            FieldType::Boolean => json!({"type": "boolean"}),
            FieldType::Integer { min, max: i64::MAX } => json!({"type": "integer", "minimum": min}),
            FieldType::Integer { min, max } => {
                json!({"type": "integer", "minimum": min, "maximum": max})
            }
            FieldType::Number => json!({"type": "number"}),
            FieldType::Duration if self.is_file() => {
                json!({"type": "string", "pattern": DURATION, "examples": ["30s", "1m30s"]})
            }
            FieldType::Duration => json!({"type": "integer"}),
            FieldType::Any => json!({}),
            FieldType::Enum(words) | FieldType::EnumByCheck(words) => {
                json!({"type": "string", "enum": words})
            }
            FieldType::List(of) => json!({"type": "array", "items": self.value(of)}),
            FieldType::Map(FieldType::Any) => json!({"type": "object"}),
            FieldType::Map(of) => {
                json!({"type": "object", "additionalProperties": self.value(of)})
            }
            FieldType::Object(table) => self.reference(table),
            FieldType::Either(types) if self.is_file() => {
                let types: Vec<Json> = types.iter().map(|holds| self.value(holds)).collect();
                json!({"anyOf": types})
            }
            // Calls accept the first form only.
            FieldType::Either(types) => {
                types.first().map_or_else(|| json!({}), |holds| self.value(holds))
            }
        }
    }
}

pub(crate) fn set(schema: &mut Json, name: &str, value: Json) {
    if let Json::Object(schema) = schema {
        schema.insert(name.to_owned(), value);
    }
}

fn or_null(mut schema: Json) -> Json {
    if schema.as_object().is_some_and(Map::is_empty) {
        return schema;
    }
    match schema.get_mut("type") {
        Some(Json::String(name)) => {
            let name = std::mem::take(name);
            set(&mut schema, "type", json!([name, "null"]));
        }
        Some(Json::Array(names)) => names.push(json!("null")),
        _ => return json!({"anyOf": [schema, {"type": "null"}]}),
    }
    if let Some(Json::Array(words)) = schema.get_mut("enum") {
        words.push(Json::Null);
    }
    schema
}
