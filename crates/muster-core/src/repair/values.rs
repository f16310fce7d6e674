//! Values of the wrong type that can only be meant one way: `"5"` where a number is wanted.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use super::{
    opened::{Kind, Opened, items, text},
    shape::{Shape, required},
};
use crate::{
    catalog::ToolEntry,
    json::{Raw, RawObject, raw},
};

/// How deep in the arguments values are looked at.
const DEEPEST: usize = 16;

/// Arguments with their values put right.
#[derive(Debug)]
pub struct RepairedArguments {
    /// The arguments, which now fit the schema.
    pub arguments: Raw,
    /// What was done.
    pub repairs: Vec<String>,
}

/// Puts right what can be. `None` where there is nothing to do, or where it would not be enough.
pub fn repair(entry: &ToolEntry, arguments: &RawValue) -> Option<RepairedArguments> {
    if fits(entry, arguments) {
        return None;
    }
    let shape = Shape::of(&entry.input_schema);
    let mut mender = ValueRepairer { shape: &shape, repairs: Vec::new() };
    let arguments = mender.object(shape.root(), arguments, "", DEEPEST)?;
    let repairs = mender.repairs;
    fits(entry, &arguments).then_some(RepairedArguments { arguments, repairs })
}

/// Whether arguments fit a tool's schema.
pub(super) fn fits(entry: &ToolEntry, arguments: &RawValue) -> bool {
    entry.validator.check(&entry.input_schema, arguments).is_ok()
}

struct ValueRepairer<'a> {
    shape: &'a Shape,
    repairs: Vec<String>,
}

impl ValueRepairer<'_> {
    /// The value with what could be put right; `None` if that is nothing.
    fn value(&mut self, schema: &Value, value: &RawValue, at: &str, depth: usize) -> Option<Raw> {
        let depth = depth.checked_sub(1)?;
        let kinds = self.shape.types(schema);
        let wants = |kind: &str| kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind));
        match Kind::of(value) {
            Kind::Object => self.object(schema, value, at, depth),
            Kind::Array => self.list(schema, value, at, depth),
            Kind::Text if kinds.is_some() && !wants("string") => {
                let (made, kind) = unquoted(value, wants)?;
                self.repairs.push(format!("read the text in `{at}` as {}", kind.as_str()));
                Some(self.value(schema, &made, at, depth).unwrap_or(made))
            }
            Kind::Number if wants("string") && !wants("number") && !wants("integer") => {
                let made = quoted(value)?;
                self.repairs.push(format!("wrote the number in `{at}` as text"));
                Some(made)
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::Text => None,
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
            if Kind::of(value) == Kind::Null && self.is_left_out(name, property, &required) {
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

    /// Whether a null says that there is no value: one is not needed, and null would not be one.
    fn is_left_out(&self, name: &str, property: &Value, required: &[&str]) -> bool {
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

/// What text stands for, if it is written exactly as a value of a kind that is wanted.
fn unquoted(value: &RawValue, wants: impl Fn(&str) -> bool) -> Option<(Raw, Kind)> {
    let text = text(value)?;
    if wants("boolean") && ["true", "false"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some((raw(&text.eq_ignore_ascii_case("true")), Kind::Boolean));
    }
    if wants("object")
        && let Opened::Object(made) | Opened::Text(made) = Opened::of(value)
    {
        return Some((made, Kind::Object));
    }
    // Blanks around a number or a list may be meant as text; an object with them is still an object.
    let begins = text.bytes().next()?;
    let made: Raw = serde_json::from_str(&text).ok()?;
    let number = wants("number") || wants("integer");
    match Kind::of(&made) {
        Kind::Number if number && (begins == b'-' || begins.is_ascii_digit()) => {
            (made.get() == text).then_some((made, Kind::Number))
        }
        Kind::Array if wants("array") => Some((made, Kind::Array)),
        _ => None,
    }
}

/// A whole number as the text that it is written as.
fn quoted(value: &RawValue) -> Option<Raw> {
    let digits = value.get().strip_prefix('-').unwrap_or(value.get());
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| raw(value.get()))
}
