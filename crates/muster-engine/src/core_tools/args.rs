//! Arguments of the gateway's own tools, read in one of two ways.
//!
//! *Loose*: each is picked by itself; what is unknown or of another type is as if it were not there.
//! *Strict*: all are held against a shape, and what does not fit is said in the words that users of
//! the original know.

use muster_workflow::service::class::Span;
use serde_json::{Map, Value, value::RawValue};

/// The arguments of one call.
#[derive(Debug, Default)]
pub(super) struct Args(Map<String, Value>);

impl Args {
    pub(super) fn new(raw: &RawValue) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_default())
    }

    /// Text that is there and is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A truth value; what is none is false.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A whole number above zero.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let number = self.0.get(name)?;
        let whole = number.as_u64().or_else(|| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "numbers without a fraction are often sent with a point"
            )]
            number.as_f64().filter(|float| *float >= 1.0).map(|float| float as u64)
        });
        whole.and_then(|whole| usize::try_from(whole).ok()).filter(|whole| *whole > 0)
    }

    /// Whatever was sent, null included.
    pub(super) fn any(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// An object, as it was sent.
    pub(super) fn object(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| value.is_object())
    }

    /// The arguments with every name spelled as in `fields`, if all of them fit. The case of names
    /// does not matter.
    pub(super) fn strict(self, request: &str, fields: &[Field]) -> Result<Value, String> {
        let unknown: Vec<&str> =
            self.0.keys().map(String::as_str).filter(|name| find(fields, name).is_none()).collect();
        if !unknown.is_empty() {
            let allowed: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            let (unknown, allowed) = (unknown.join(" "), allowed.join(" "));
            return Err(format!("unknown args: [{unknown}]. Allowed args: [{allowed}]"));
        }
        object(self.0, request, fields).map_err(unfit)
    }
}

/// What is wrong with arguments that have the right names.
pub(super) fn unfit(problem: impl std::fmt::Display) -> String {
    format!("failed to parse request: json: {problem}")
}

/// A name and what it holds.
pub(super) type Field = (&'static str, Shape);

/// What an argument may hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Text,
    Flag,
    Whole,
    Texts,
    TextMap,
    Object(&'static str, &'static [Field]),
    /// Anything at all.
    Any,
    /// Anything, by name.
    AnyMap,
    /// Objects by name.
    MapOf(&'static str, &'static [Field]),
    /// A list of objects: the name of the list, and what they hold.
    List(&'static str, &'static [Field]),
    /// Nanoseconds.
    Span,
}

impl Shape {
    /// What the original calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Flag => "bool",
            Self::Whole => "int",
            Self::Texts => "[]string",
            Self::TextMap => "map[string]string",
            Self::Object(name, _) | Self::MapOf(name, _) | Self::List(name, _) => name,
            Self::Any => "interface {}",
            Self::AnyMap => "map[string]interface {}",
            Self::Span => "time.Duration",
        }
    }
}

fn find(fields: &[Field], name: &str) -> Option<Field> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

fn object(given: Map<String, Value>, owner: &str, fields: &[Field]) -> Result<Value, String> {
    let mut taken = Map::new();
    for (name, value) in given {
        let Some((known, shape)) = find(fields, &name) else {
            return Err(format!("unknown field \"{name}\""));
        };
        // What is null is not given.
        if value.is_null() {
            continue;
        }
        taken.insert(known.to_owned(), fit(value, &format!("{owner}.{known}"), shape)?);
    }
    Ok(Value::Object(taken))
}

fn fit(value: Value, place: &str, shape: Shape) -> Result<Value, String> {
    match (shape, value) {
        (Shape::Text, value @ Value::String(_))
        | (Shape::Flag, value @ Value::Bool(_))
        | (Shape::AnyMap, value @ Value::Object(_))
        | (Shape::Any, value) => Ok(value),
        (Shape::Whole | Shape::Span, Value::Number(number)) => match whole(&number) {
            Some(whole) => Ok(Value::from(whole)),
            None => Err(format!(
                "cannot unmarshal number {number} into Go struct field {place} of type {}",
                shape.name()
            )),
        },
        (Shape::Span, Value::String(text)) => {
            let example = Span::parse(&text).map(|span| (text, span.as_nanoseconds()));
            let (text, example) = example.unwrap_or_else(|_| ("30s".to_owned(), 30_000_000_000));
            Err(format!(
                "cannot unmarshal string into Go struct field {place} of type time.Duration (write nanoseconds: {example} for {text})"
            ))
        }
        (Shape::MapOf(name, fields), Value::Object(pairs)) => {
            let fitted: Result<Map<String, Value>, String> = pairs
                .into_iter()
                .map(|(key, value)| Ok((key, fit(value, place, Shape::Object(name, fields))?)))
                .collect();
            fitted.map(Value::Object)
        }
        (Shape::Texts, Value::Array(items)) => {
            items.into_iter().map(|item| fit(item, place, Shape::Text)).collect()
        }
        (Shape::TextMap, Value::Object(pairs)) => {
            let pairs = pairs.into_iter();
            let fitted: Result<Map<String, Value>, String> =
                pairs.map(|(name, value)| Ok((name, fit(value, place, Shape::Text)?))).collect();
            fitted.map(Value::Object)
        }
        (Shape::Object(_, fields), Value::Object(pairs)) => object(pairs, place, fields),
        (Shape::List(name, fields), Value::Array(items)) => {
            let shape = Shape::Object(name.trim_start_matches("[]"), fields);
            items.into_iter().map(|item| fit(item, place, shape)).collect()
        }
        (shape, value) => Err(format!(
            "cannot unmarshal {} into Go struct field {place} of type {}",
            kind(&value),
            shape.name()
        )),
    }
}

/// A whole number, also when it was sent with a point.
fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        Some(float as i64)
    })
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Args, Field, Shape};

    const FIELDS: &[Field] = &[
        ("name", Shape::Text),
        ("timeout", Shape::Whole),
        ("args", Shape::Texts),
        ("env", Shape::TextMap),
        ("auth", Shape::Object("api.Auth", &[("forwardToken", Shape::Flag)])),
    ];

    #[track_caller]
    fn check(args: serde_json::Value, expect: &str) {
        let serde_json::Value::Object(map) = args else { panic!("not an object") };
        let said = match Args(map).strict("Request", FIELDS) {
            Ok(value) => value.to_string(),
            Err(error) => error,
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn what_fits_is_spelled_as_known() {
        check(
            json!({"NAME": "a", "timeout": 2.0, "args": ["x"], "auth": {"forwardtoken": true}, "env": null}),
            r#"{"name":"a","timeout":2,"args":["x"],"auth":{"forwardToken":true}}"#,
        );
        check(json!({}), "{}");
    }

    #[test]
    fn what_does_not_fit_is_said_as_known() {
        check(
            json!({"colour": "red", "size": 1, "name": "a"}),
            "unknown args: [colour size]. Allowed args: [name timeout args env auth]",
        );
        let start = "failed to parse request: json:";
        check(
            json!({"timeout": "30"}),
            &format!(
                "{start} cannot unmarshal string into Go struct field Request.timeout of type int"
            ),
        );
        check(
            json!({"timeout": 1.5}),
            &format!(
                "{start} cannot unmarshal number 1.5 into Go struct field Request.timeout of type int"
            ),
        );
        check(
            json!({"args": "x"}),
            &format!(
                "{start} cannot unmarshal string into Go struct field Request.args of type []string"
            ),
        );
        check(
            json!({"args": [1]}),
            &format!(
                "{start} cannot unmarshal number into Go struct field Request.args of type string"
            ),
        );
        check(
            json!({"auth": "x"}),
            &format!(
                "{start} cannot unmarshal string into Go struct field Request.auth of type api.Auth"
            ),
        );
        check(json!({"auth": {"x": 1}}), &format!("{start} unknown field \"x\""));
    }
}
