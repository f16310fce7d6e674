//! The simple template engine of mock servers and of variables between steps.
//!
//! `{{ path }}`, `{{ .path }}`, `{{path}}` and `{{.path}}` stand for a value; anything else between
//! braces stays as it is. The result of text is always text.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::go_format;

/// What a template needs and does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// Paths that lead nowhere, in the order written.
    #[error("missing template variables: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// Something is wrong below a key.
    #[error("error in key '{key}': {source}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong there.
        source: Box<Self>,
    },
    /// Something is wrong in a list.
    #[error("error at index {index}: {source}")]
    Index {
        /// The place, from 0.
        index: usize,
        /// What is wrong there.
        source: Box<Self>,
    },
}

/// Renders every text inside `value`; keys stay as they are.
pub fn render(value: &Value, variables: &Map<String, Value>) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) => render_text(text, variables).map(Value::String),
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(index, item)| {
                render(item, variables)
                    .map_err(|source| TemplateError::Index { index, source: Box::new(source) })
            });
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| match render(value, variables) {
                Ok(value) => Ok((key.clone(), value)),
                Err(source) => {
                    Err(TemplateError::Key { key: key.clone(), source: Box::new(source) })
                }
            });
            Ok(Value::Object(members.collect::<Result<_, _>>()?))
        }
        other => Ok(other.clone()),
    }
}

/// Renders one text.
pub fn render_text(text: &str, variables: &Map<String, Value>) -> Result<String, TemplateError> {
    render_as(text, variables, go_format::in_template)
}

/// Renders one text, with the values in the form that `form` gives them.
fn render_as(
    text: &str,
    variables: &Map<String, Value>,
    form: fn(&Value) -> String,
) -> Result<String, TemplateError> {
    let mut rendered = String::new();
    let mut missing: Vec<String> = Vec::new();
    for piece in pieces(text) {
        let path = match piece {
            Piece::Braces { path: Some(path), .. } => path,
            Piece::Braces { whole, path: None, .. } | Piece::Text(whole) => {
                rendered.push_str(whole);
                continue;
            }
        };
        match lookup(path, variables) {
            Some(value) => rendered.push_str(&form(value)),
            None if missing.iter().any(|known| known == path) => {}
            None => missing.push(path.to_owned()),
        }
    }
    if missing.is_empty() { Ok(rendered) } else { Err(TemplateError::Missing(missing)) }
}

/// Replaces variables in the texts of `value`, each text only if all of its braces begin with a
/// known variable. Other texts may be templates of somebody else, such as those of a workflow.
pub fn substitute(value: &Value, variables: &Map<String, Value>) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) if all_known(text, variables) => {
            render_text(text, variables).map(Value::String)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| substitute(item, variables));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, value)| substitute(value, variables).map(|value| (key.clone(), value)));
            Ok(Value::Object(members.collect::<Result<_, _>>()?))
        }
        other => Ok(other.clone()),
    }
}

/// Replaces variables in something that is expected. Only texts whose braces all begin with a known
/// variable are touched, numbers print as they came, and a text that is one variable becomes its value.
pub fn expectation(value: &Value, variables: &Map<String, Value>) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) if text.contains("{{") && all_known(text, variables) => {
            if let [Piece::Text(""), Piece::Braces { path: Some(path), .. }] = *pieces(text) {
                let missing = || TemplateError::Missing(vec![path.to_owned()]);
                return lookup(path, variables).cloned().ok_or_else(missing);
            }
            render_as(text, variables, go_format::default).map(Value::String)
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| expectation(item, variables));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| {
                expectation(value, variables).map(|value| (key.clone(), value))
            });
            Ok(Value::Object(members.collect::<Result<_, _>>()?))
        }
        other => Ok(other.clone()),
    }
}

fn all_known(text: &str, variables: &Map<String, Value>) -> bool {
    pieces(text).iter().all(|piece| match piece {
        Piece::Text(_) => true,
        Piece::Braces { inside, .. } => {
            let inside = inside.trim();
            let path = inside.strip_prefix('.').unwrap_or(inside);
            path.split('.').next().is_some_and(|root| variables.contains_key(root))
        }
    })
}

/// Walks maps along a dotted path. A variable may have dots in its own name.
fn lookup<'a>(path: &str, variables: &'a Map<String, Value>) -> Option<&'a Value> {
    if let Some(value) = variables.get(path) {
        return Some(value);
    }
    let mut names = path.split('.');
    let first = variables.get(names.next()?)?;
    names.try_fold(first, |value, name| value.as_object()?.get(name))
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// `{{…}}`, with the path inside if it has one of the four forms.
    Braces {
        whole: &'a str,
        inside: &'a str,
        path: Option<&'a str>,
    },
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((head, next)) = rest.split_once("}}") {
        // Of `{{{ x }}` the innermost braces count.
        let Some((before, inside)) = head.rsplit_once("{{") else {
            pieces.push(Piece::Text(rest.strip_suffix(next).unwrap_or(rest)));
            rest = next;
            continue;
        };
        let whole = rest.strip_prefix(before).and_then(|whole| whole.strip_suffix(next));
        pieces.push(Piece::Text(before));
        pieces.push(Piece::Braces { whole: whole.unwrap_or_default(), inside, path: path(inside) });
        rest = next;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

fn path(inside: &str) -> Option<&str> {
    let spaced = inside.strip_prefix(' ').and_then(|inside| inside.strip_suffix(' '));
    let path = spaced.unwrap_or(inside);
    let path = path.strip_prefix('.').unwrap_or(path);
    let begins = path.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on = path.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    (begins && goes_on).then_some(path)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{expectation, render, render_text, substitute};
    use crate::go_format::as_received;

    fn variables() -> Map<String, Value> {
        let value = as_received(json!({
            "name": "web", "count": 5, "on": true, "list": [1, "a"], "step-1": {"id": "e7", "n": {"x": 2}}
        }));
        value.as_object().cloned().unwrap_or_default()
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let got = match render_text(text, &variables()) {
            Ok(text) => text,
            Err(err) => format!("error: {err}"),
        };
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn four_forms_and_nothing_else() {
        check("a {{ name }} b", "a web b");
        check("{{ .name }}{{name}}{{.name}}", "webwebweb");
        check("{{  name  }} {{name }} {{ name}}", "{{  name  }} {{name }} {{ name}}");
        check(
            "{{ name | upper }} {{ eq .a \"b\" }} {{}} {{ 1x }}",
            "{{ name | upper }} {{ eq .a \"b\" }} {{}} {{ 1x }}",
        );
        check("{{{{ name }}", "{{web");
        check("{{{ name }}}", "{web}");
        check("a }} b {{ name }}", "a }} b web");
        check("open {{ name", "open {{ name");
        check("ünï {{ name }} ö", "ünï web ö");
    }

    #[test]
    fn values_print_as_in_go() {
        check("{{ count }}", "5.000000");
        check("{{ on }}", "true");
        check("{{ list }}", "[1 a]");
        check("{{ step-1 }}", "map[id:e7 n:map[x:2]]");
        check("{{ step-1.n.x }}", "2.000000");
    }

    #[test]
    fn everything_that_is_missing_is_named() {
        check("{{ a }} {{ name }} {{ b.c }} {{ a }}", "error: missing template variables: a, b.c");
        check("{{ list.0 }}", "error: missing template variables: list.0");
        let nested = json!({"k": ["{{ name }}", {"z": "{{ gone }}"}]});
        let err = render(&nested, &variables()).unwrap_err();
        assert_eq!(
            err.to_string(),
            "error in key 'k': error at index 1: error in key 'z': missing template variables: gone"
        );
    }

    #[test]
    fn expectations_keep_the_kind_of_a_value() {
        let expected = json!({
            "count": "{{ count }}", "text": "{{ name }}-{{ count }}", "other": "{{ .input.x }}",
            "list": ["{{ list }}", "{{ step-1.id }}"], "plain": 7,
        });
        assert_eq!(
            expectation(&expected, &variables()).unwrap(),
            json!({
                "count": 5.0, "text": "web-5", "other": "{{ .input.x }}",
                "list": [[1.0, "a"], "e7"], "plain": 7,
            })
        );
        let err = expectation(&json!("{{ step-1.gone }}"), &variables()).unwrap_err();
        assert_eq!(err.to_string(), "missing template variables: step-1.gone");
    }

    #[test]
    fn only_known_roots_are_replaced() {
        let args = json!({
            "id": "{{ step-1.id }}",
            "workflow": "{{ .input.x }} {{ step-1.id }}",
            "function": "{{ eq .input.x \"a\" }}",
            "plain": 5,
        });
        assert_eq!(
            substitute(&args, &variables()).unwrap(),
            json!({
                "id": "e7",
                "workflow": "{{ .input.x }} {{ step-1.id }}",
                "function": "{{ eq .input.x \"a\" }}",
                "plain": 5,
            })
        );
        let err = substitute(&json!("{{ step-1.gone }}"), &variables()).unwrap_err();
        assert_eq!(err.to_string(), "missing template variables: step-1.gone");
    }
}
