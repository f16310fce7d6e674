//! Constraints on one argument.

use crate::{
    policy::pattern::{InvalidPattern, Pattern},
    python,
    value::Value,
};

/// A constraint on the value of an argument.
#[derive(Debug, Clone, Default)]
pub struct Constraint {
    /// The pattern that the whole text must match. Values that are not text pass.
    pub pattern: Option<Pattern>,
    /// The minimum. Values that are not numeric pass.
    pub min: Option<f64>,
    /// The maximum. Values that are not numeric pass.
    pub max: Option<f64>,
}

impl Constraint {
    /// One sentence for each violation by `value`.
    pub fn check(&self, name: &str, value: &Value) -> Result<Vec<String>, InvalidPattern> {
        let mut violations = Vec::new();
        if let (Some(pattern), Value::Text(text)) = (&self.pattern, value)
            && !pattern.matches(text)?
        {
            let pattern = pattern.as_str();
            violations.push(format!(
                "Argument '{name}': value '{text}' does not match pattern '{pattern}'"
            ));
        }
        let Some(number) = number(value) else { return Ok(violations) };
        if let Some(min) = self.min.filter(|min| number < *min) {
            violations.push(out_of_bounds(name, value, "is below minimum", min));
        }
        if let Some(max) = self.max.filter(|max| number > *max) {
            violations.push(out_of_bounds(name, value, "exceeds maximum", max));
        }
        Ok(violations)
    }
}

fn out_of_bounds(name: &str, value: &Value, how: &str, bound: f64) -> String {
    let (value, bound) = (python::text(value), python::float_text(bound));
    format!("Argument '{name}': value {value} {how} {bound}")
}

/// The value as Python's `float` converts it. An integer too large for a float is infinite, so that
/// no bound accepts it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Int(digits) => digits.parse().ok(),
        Value::Float(float) => Some(*float),
        Value::Text(text) => python::parse_float(text),
        Value::Null | Value::Timestamp(_) | Value::List(_) | Value::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Constraint;
    use crate::{policy::pattern::Pattern, value::Value};

    #[track_caller]
    fn check(constraint: &Constraint, value: &Value, expect: &[&str]) {
        assert_eq!(constraint.check("x", value).unwrap(), expect);
    }

    fn bounds(min: impl Into<Option<f64>>, max: impl Into<Option<f64>>) -> Constraint {
        Constraint { pattern: None, min: min.into(), max: max.into() }
    }

    fn int(digits: &str) -> Value {
        Value::Int(digits.to_owned())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn bounds_are_inclusive_and_print_as_floats() {
        let one_to_ten = bounds(1.0, 10.0);
        check(&one_to_ten, &int("0"), &["Argument 'x': value 0 is below minimum 1.0"]);
        check(&one_to_ten, &int("-3"), &["Argument 'x': value -3 is below minimum 1.0"]);
        check(&one_to_ten, &int("1"), &[]);
        check(&one_to_ten, &int("10"), &[]);
        check(&one_to_ten, &int("11"), &["Argument 'x': value 11 exceeds maximum 10.0"]);
        check(
            &bounds(0.5, None),
            &Value::Float(0.49),
            &["Argument 'x': value 0.49 is below minimum 0.5"],
        );
        check(
            &bounds(None, 2.75),
            &Value::Float(2.76),
            &["Argument 'x': value 2.76 exceeds maximum 2.75"],
        );
        check(
            &bounds(None, 1e16),
            &Value::Float(1e22),
            &["Argument 'x': value 1e+22 exceeds maximum 1e+16"],
        );
    }

    #[test]
    fn bounds_apply_to_numeric_text() {
        let most_ten = bounds(None, 10.0);
        check(&most_ten, &text("5"), &[]);
        check(&most_ten, &text("50"), &["Argument 'x': value 50 exceeds maximum 10.0"]);
        check(&most_ten, &text(" 99 "), &["Argument 'x': value  99  exceeds maximum 10.0"]);
        check(&most_ten, &text("1e3"), &["Argument 'x': value 1e3 exceeds maximum 10.0"]);
        check(&most_ten, &text("inf"), &["Argument 'x': value inf exceeds maximum 10.0"]);
        check(&most_ten, &text("abc"), &[]);
        check(
            &bounds(2.0, None),
            &Value::Bool(true),
            &["Argument 'x': value True is below minimum 2.0"],
        );
        let huge = "9".repeat(400);
        check(
            &most_ten,
            &int(&huge),
            &[&format!("Argument 'x': value {huge} exceeds maximum 10.0")],
        );
    }

    #[test]
    fn values_that_are_not_numeric_pass() {
        let never = bounds(f64::INFINITY, f64::NEG_INFINITY);
        for value in [
            Value::Null,
            Value::List(vec![]),
            Value::Map(vec![]),
            Value::Float(f64::NAN),
            text("nan"),
        ] {
            check(&never, &value, &[]);
        }
    }

    #[test]
    fn patterns_apply_to_text_only() {
        let digits = Constraint { pattern: Some(Pattern::new("[0-9]+")), ..Constraint::default() };
        check(&digits, &text("123"), &[]);
        check(
            &digits,
            &text("None"),
            &["Argument 'x': value 'None' does not match pattern '[0-9]+'"],
        );
        check(&digits, &int("-1"), &[]);
        check(&digits, &Value::Bool(true), &[]);
    }

    #[test]
    fn violations_are_reported_in_order() {
        let limits = Constraint { pattern: Some(Pattern::new("[a-z]+")), ..bounds(1000.0, 10.0) };
        check(
            &limits,
            &text("500"),
            &[
                "Argument 'x': value '500' does not match pattern '[a-z]+'",
                "Argument 'x': value 500 is below minimum 1000.0",
                "Argument 'x': value 500 exceeds maximum 10.0",
            ],
        );
    }

    #[test]
    fn an_invalid_pattern_fails_on_use() {
        let broken = Constraint { pattern: Some(Pattern::new("(")), ..Constraint::default() };
        assert!(broken.check("x", &text("a")).is_err());
        check(&broken, &int("1"), &[]);
    }
}
