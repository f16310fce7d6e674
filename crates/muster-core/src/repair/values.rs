//! Repair of values whose type is wrong but whose meaning is clear, such as `"5"` for a number.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use super::{
    lenient_object::{JsonType, LenientObject, items, text},
    schema_view::{SchemaView, required},
};
use crate::{
    catalog::ToolEntry,
    json::{Raw, RawObject, raw},
};

/// The maximum depth of repairs.
const MAX_DEPTH: usize = 16;

/// Repaired arguments.
#[derive(Debug)]
pub struct RepairedArguments {
    /// The arguments, now valid.
    pub arguments: Raw,
    /// The repairs made.
    pub repairs: Vec<String>,
}

/// Repairs values. `None` if nothing is wrong or the result would still be invalid.
pub fn repair(entry: &ToolEntry, arguments: &RawValue) -> Option<RepairedArguments> {
    if is_valid(entry, arguments) {
        return None;
    }
    let shape = SchemaView::of(&entry.input_schema);
    let mut mender = ValueRepairer { shape: &shape, repairs: Vec::new() };
    let arguments = mender.object(shape.root(), arguments, "", MAX_DEPTH)?;
    let repairs = mender.repairs;
    is_valid(entry, &arguments).then_some(RepairedArguments { arguments, repairs })
}

/// Whether arguments are valid by a tool's schema.
pub(super) fn is_valid(entry: &ToolEntry, arguments: &RawValue) -> bool {
    entry.validator.check(&entry.input_schema, arguments).is_ok()
}

struct ValueRepairer<'a> {
    shape: &'a SchemaView,
    repairs: Vec<String>,
}

impl ValueRepairer<'_> {
    /// Repairs a value; `None` if nothing changed.
    fn value(&mut self, schema: &Value, value: &RawValue, at: &str, depth: usize) -> Option<Raw> {
        let depth = depth.checked_sub(1)?;
        let kinds = self.shape.types(schema);
        let wants = |kind: &str| kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind));
        match JsonType::of(value) {
            JsonType::Object => self.object(schema, value, at, depth),
            JsonType::Array => self.list(schema, value, at, depth),
            JsonType::Text if kinds.is_some() && !wants("string") => {
                let (made, kind) = unquoted(value, wants)?;
                self.repairs.push(format!("read the text in `{at}` as {}", kind.as_str()));
                Some(self.value(schema, &made, at, depth).unwrap_or(made))
            }
            JsonType::Number if wants("string") && !wants("number") && !wants("integer") => {
                let made = quoted(value)?;
                self.repairs.push(format!("wrote the number in `{at}` as text"));
                Some(made)
            }
            JsonType::Null | JsonType::Boolean | JsonType::Number | JsonType::Text => None,
        }
    }

    fn object(&mut self, schema: &Value, value: &RawValue, at: &str, depth: usize) -> Option<Raw> {
        let shape = self.shape;
        let schema = shape.object(schema)?;
        let properties = schema.get("properties").and_then(Value::as_object)?;
        let required = required(schema);
        let given = RawObject::parse(value)?;
        let mut made = given.clone();
        let mut changed = false;
        for (name, value) in given.iter() {
            let Some(property) = properties.get(name) else { continue };
            let at = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            if JsonType::of(value) == JsonType::Null && self.is_absent(name, property, &required) {
                self.repairs.push(format!("left out `{at}`, which was null"));
                made.remove(name);
                changed = true;
            } else if let Some(value) = self.value(property, value, &at, depth) {
                made.set(name.to_owned(), Cow::Owned(value));
                changed = true;
            }
        }
        changed.then(|| made.to_raw())
    }

    /// Whether a null stands for an absent value: it is optional and not nullable.
    fn is_absent(&self, name: &str, property: &Value, required: &[&str]) -> bool {
        let kinds = self.shape.types(property);
        !required.contains(&name) && kinds.is_some_and(|kinds| !kinds.contains(&"null"))
    }

    fn list(&mut self, schema: &Value, value: &RawValue, at: &str, depth: usize) -> Option<Raw> {
        let shape = self.shape;
        let of_items = shape.list(schema)?.get("items")?;
        let given = items(value)?;
        let mut changed = false;
        let mut made: Vec<Cow<'_, RawValue>> = Vec::with_capacity(given.len());
        for (number, item) in given.into_iter().enumerate() {
            let new = self.value(of_items, item, &format!("{at}[{number}]"), depth);
            changed |= new.is_some();
            made.push(new.map_or(Cow::Borrowed(item), Cow::Owned));
        }
        changed.then(|| raw(&made))
    }
}

/// The value that a text encodes exactly, if its type is expected.
fn unquoted(value: &RawValue, wants: impl Fn(&str) -> bool) -> Option<(Raw, JsonType)> {
    let text = text(value)?;
    if wants("boolean") && ["true", "false"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some((raw(&text.eq_ignore_ascii_case("true")), JsonType::Boolean));
    }
    if wants("object")
        && let LenientObject::Object(made) | LenientObject::Text(made) = LenientObject::of(value)
    {
        return Some((made, JsonType::Object));
    }
    // White space around a number or a list may be intended; around an object it is not.
    let begins = text.bytes().next()?;
    let made: Raw = serde_json::from_str(&text).ok()?;
    let number = wants("number") || wants("integer");
    match JsonType::of(&made) {
        JsonType::Number if number && (begins == b'-' || begins.is_ascii_digit()) => {
            (made.get() == text).then_some((made, JsonType::Number))
        }
        JsonType::Array if wants("array") => Some((made, JsonType::Array)),
        _ => None,
    }
}

/// An integer as text.
fn quoted(value: &RawValue) -> Option<Raw> {
    let digits = value.get().strip_prefix('-').unwrap_or(value.get());
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| raw(value.get()))
}
