//! Values read by the types of a field table.

use muster_core::{
    fields::{Field, FieldDefault, FieldTable, FieldType},
    schema,
    value::Value,
};
use muster_workflow::service::class::GoDuration;
use serde_json::{Map, Value as Json};

use super::{Fields, Reader, scalar};
use crate::yaml::{Node, NodeValue};

impl Reader {
    /// Reads a mapping by its table: an object with the fields that are given, under their names in files.
    pub(crate) fn object(
        &mut self,
        node: &Node,
        table: &'static FieldTable,
    ) -> Option<Map<String, Json>> {
        let fields = self.fields(node, table)?;
        self.values(&fields, table)
    }

    /// Reads those of `fields` that are in `table`.
    pub(crate) fn values(
        &mut self,
        fields: &Fields<'_>,
        table: &'static FieldTable,
    ) -> Option<Map<String, Json>> {
        // Read all fields, so that every problem is reported.
        let values: Vec<Option<Option<(String, Json)>>> =
            table.all().map(|field| self.field(fields, field)).collect();
        let values: Option<Vec<Option<(String, Json)>>> = values.into_iter().collect();
        Some(values?.into_iter().flatten().collect())
    }

    #[expect(clippy::option_option, reason = "a field that is left out is not an unreadable one")]
    fn field(
        &mut self,
        fields: &Fields<'_>,
        field: &'static Field,
    ) -> Option<Option<(String, Json)>> {
        let node = fields.get(field.name).or_else(|| fields.get(field.call_name?));
        let node = match (node, field.default) {
            (None, FieldDefault::Required) => {
                return self.required(fields, field.name, |_, _| None);
            }
            (None, _) => return Some(None),
            (Some(node), _) => node,
        };
        let is_unset = match scalar(node) {
            Some(Value::Null) => field.nullable,
            // An empty word selects the default.
            Some(Value::Text(text)) => text.is_empty() && matches!(field.holds, FieldType::Enum(_)),
            Some(_) | None => false,
        };
        if is_unset {
            return Some(None);
        }
        let value = self.within(field.name, |reader| reader.value(node, &field.holds))?;
        Some(Some((field.name.to_owned(), value)))
    }

    fn value(&mut self, node: &Node, holds: &'static FieldType) -> Option<Json> {
        match holds {
            FieldType::String | FieldType::Secret | FieldType::EnumByCheck(_) => {
                self.text(node).map(Json::String)
            }
            FieldType::Scalar => self.as_written(node).map(Json::String),
            FieldType::Boolean => self.boolean(node).map(Json::Bool),
            FieldType::Integer { min, max } => self.integer(node, *min, *max).map(Json::from),
            FieldType::Number => self.number(node).map(Json::from),
            FieldType::Duration => self.duration(node).map(Json::String),
            FieldType::Any => Some(json(node)),
            FieldType::Enum(words) => {
                let words: Vec<(&str, &str)> = words.iter().map(|word| (*word, *word)).collect();
                self.choice(node, &words).map(Json::from)
            }
            FieldType::List(of) => {
                self.list(node, |reader, node| reader.value(node, of)).map(Json::Array)
            }
            FieldType::Map(of) => {
                let pairs = self.map(node, |reader, node| reader.value(node, of))?;
                Some(Json::Object(pairs.into_iter().collect()))
            }
            FieldType::Object(table) => self.object(node, table).map(Json::Object),
            FieldType::Either(types) => {
                let fits = |holds: &&FieldType| match node.value {
                    NodeValue::Map(_) => matches!(holds, FieldType::Object(_) | FieldType::Map(_)),
                    NodeValue::List(_) => matches!(holds, FieldType::List(_)),
                    NodeValue::Scalar(_) => true,
                };
                let holds = types.iter().rev().find(fits).or_else(|| types.first())?;
                self.value(node, holds)
            }
        }
    }

    /// Reads text, also where YAML sees a number or a boolean: `args: [--port, 8080]` is clear.
    pub(crate) fn as_written(&mut self, node: &Node) -> Option<String> {
        match (node.written(), scalar(node)) {
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(Value::Int(digits))) => Some(digits.clone()),
            (None, Some(Value::Bool(flag))) => Some(flag.to_string()),
            (None, _) => self.text(node),
        }
    }

    /// Reads a whole number within bounds.
    pub(crate) fn integer(&mut self, node: &Node, min: i64, max: i64) -> Option<i64> {
        let number = self.number(node)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and checked below")]
        let whole = number as i64;
        if number.fract() == 0.0 && (min..=max).contains(&whole) {
            return Some(whole);
        }
        let message = match max {
            ..=65_535 => format!("Input should be a whole number from {min} to {max}"),
            _ => "Input should be a whole number".to_owned(),
        };
        self.refuse(node, message, "write a whole number")
    }

    fn duration(&mut self, node: &Node) -> Option<String> {
        let text = self.as_written(node)?;
        match GoDuration::parse(&text) {
            Ok(_) => Some(text),
            Err(_) => {
                let fix = "write a number with its unit, like `30s` or `1m30s`";
                self.refuse(node, "Input should be a valid duration", fix)
            }
        }
    }
}

/// A YAML value as JSON.
pub(crate) fn json(node: &Node) -> Json {
    serde_json::from_str(schema::to_json(&node.to_value()).get()).unwrap_or_default()
}
