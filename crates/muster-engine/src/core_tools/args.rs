//! Arguments of core tools, read in one of two ways.
//!
//! *Loose*: each is read by itself; unknown ones and those of another type are ignored. *Strict*: all are
//! checked against the field table of a file format, with the error messages of the original implementation.

use muster_core::fields::{Field, FieldTable, FieldType};
use muster_workflow::service::class::GoDuration;
use serde_json::{Map, Value, value::RawValue};

/// The arguments of one call.
#[derive(Debug, Default)]
pub(super) struct Args(Map<String, Value>);

impl Args {
    pub(super) fn new(raw: &RawValue) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_default())
    }

    /// Text that is given and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A boolean; `false` if it is missing or of another type.
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

    /// Any value, `null` included.
    pub(super) fn any(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// An object.
    pub(super) fn object(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| value.is_object())
    }

    /// The arguments under their names in files, if all of them fit the fields of `tables`. The case of
    /// names does not matter.
    pub(super) fn strict(
        self,
        request: &str,
        tables: &[&'static FieldTable],
    ) -> Result<Value, String> {
        let unknown: Vec<&str> =
            self.0.keys().map(String::as_str).filter(|name| find(tables, name).is_none()).collect();
        if !unknown.is_empty() {
            let allowed: Vec<&str> = tables.iter().flat_map(|table| table.names()).collect();
            let (unknown, allowed) = (unknown.join(" "), allowed.join(" "));
            return Err(format!("unknown args: [{unknown}]. Allowed args: [{allowed}]"));
        }
        object(self.0, request, tables).map_err(unfit)
    }
}

/// The error for arguments with valid names and invalid values.
pub(super) fn unfit(problem: impl std::fmt::Display) -> String {
    format!("failed to parse request: json: {problem}")
}

/// The Go name of a type, which error messages use.
fn go_name(holds: &FieldType) -> String {
    match holds {
        FieldType::Boolean => "bool".to_owned(),
        FieldType::Integer { .. } => "int".to_owned(),
        FieldType::Number => "float64".to_owned(),
        FieldType::Duration => "time.Duration".to_owned(),
        FieldType::Any => "interface {}".to_owned(),
        FieldType::List(of) => format!("[]{}", go_name(of)),
        FieldType::Map(of) => format!("map[string]{}", go_name(of)),
        FieldType::Object(table) => format!("api.{}", table.model),
        FieldType::Either(types) => types.first().map(go_name).unwrap_or_default(),
        FieldType::String
        | FieldType::Secret
        | FieldType::Scalar
        | FieldType::Enum(_)
        | FieldType::EnumByCheck(_) => "string".to_owned(),
    }
}

/// The field of a name, and that name in the spelling of the table.
fn find(tables: &[&'static FieldTable], name: &str) -> Option<(&'static str, &'static Field)> {
    tables.iter().flat_map(|table| table.all()).find_map(|field| {
        let names = [Some(field.name), field.call_name];
        let known = names.into_iter().flatten().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((known, field))
    })
}

fn object(
    given: Map<String, Value>,
    owner: &str,
    tables: &[&'static FieldTable],
) -> Result<Value, String> {
    let mut taken = Map::new();
    for (name, value) in given {
        let Some((known, field)) = find(tables, &name) else {
            return Err(format!("unknown field \"{name}\""));
        };
        // Null means the same as leaving the argument out.
        if value.is_null() {
            continue;
        }
        let fitted = fit(value, &format!("{owner}.{known}"), &field.holds)?;
        taken.insert(field.name.to_owned(), fitted);
    }
    Ok(Value::Object(taken))
}

fn fit(value: Value, path: &str, holds: &'static FieldType) -> Result<Value, String> {
    match (holds, value) {
        (
            FieldType::String
            | FieldType::Secret
            | FieldType::Scalar
            | FieldType::Enum(_)
            | FieldType::EnumByCheck(_),
            value @ Value::String(_),
        )
        | (FieldType::Boolean, value @ Value::Bool(_))
        | (FieldType::Number, value @ Value::Number(_))
        | (FieldType::Any, value) => Ok(value),
        (FieldType::Integer { .. } | FieldType::Duration, Value::Number(number)) => {
            match (whole(&number), holds) {
                (Some(whole), FieldType::Integer { min, max }) => {
                    Ok(Value::from(whole.clamp(*min, *max)))
                }
                (Some(whole), _) => Ok(Value::from(whole)),
                (None, _) => Err(format!(
                    "cannot unmarshal number {number} into Go struct field {path} of type {}",
                    go_name(holds)
                )),
            }
        }
        (FieldType::Duration, Value::String(text)) => {
            let example = GoDuration::parse(&text).map(|span| (text, span.as_nanoseconds()));
            let (text, example) = example.unwrap_or_else(|_| ("30s".to_owned(), 30_000_000_000));
            Err(format!(
                "cannot unmarshal string into Go struct field {path} of type time.Duration (write nanoseconds: {example} for {text})"
            ))
        }
        (FieldType::Map(of), Value::Object(pairs)) => {
            let pairs = pairs.into_iter().map(|(name, value)| Ok((name, fit(value, path, of)?)));
            pairs.collect::<Result<Map<String, Value>, String>>().map(Value::Object)
        }
        (FieldType::List(of), Value::Array(items)) => {
            items.into_iter().map(|item| fit(item, path, of)).collect()
        }
        (FieldType::Object(table), Value::Object(pairs)) => object(pairs, path, &[table]),
        // Calls accept only the first form.
        (FieldType::Either([first, ..]), value) => fit(value, path, first),
        (holds, value) => Err(format!(
            "cannot unmarshal {} into Go struct field {path} of type {}",
            kind(&value),
            go_name(holds)
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

    use muster_core::fields::{FALSE, Field, FieldTable, FieldType, NONE};

    use super::Args;

    static FIELDS: FieldTable = FieldTable::new(
        "Request",
        "request",
        &[
            Field::optional("name", FieldType::String, NONE, ""),
            Field::optional("timeout", FieldType::Integer { min: 0, max: i64::MAX }, NONE, ""),
            Field::optional("args", FieldType::List(&FieldType::String), NONE, ""),
            Field::optional("env", FieldType::Map(&FieldType::String), NONE, ""),
            Field::optional("auth", FieldType::Object(&AUTH), NONE, ""),
        ],
    );
    static AUTH: FieldTable = FieldTable::new(
        "Auth",
        "auth",
        &[Field::optional("forwardToken", FieldType::Boolean, FALSE, "").in_calls("forward_token")],
    );

    #[track_caller]
    fn check(args: serde_json::Value, expect: &str) {
        let serde_json::Value::Object(map) = args else { panic!("not an object") };
        let said = match Args(map).strict("Request", &[&FIELDS]) {
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
