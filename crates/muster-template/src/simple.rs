//! Variable substitution for services, mock servers and scenarios: paths, and no other actions.
//!
//! `{{ path }}`, `{{ .path }}`, `{{path}}` and `{{.path}}` are replaced; anything else between braces
//! is left unchanged.

use serde_json::Value as Json;
use thiserror::Error;

use super::{
    format::display,
    json::from_json,
    state::{EvalError, RenderContext, RenderState},
    text::lossy,
};

/// Why a substitution failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubstitutionError {
    /// Paths without a value, each once, in order of appearance.
    #[error("missing template variables: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A value of an object.
    #[error("error in key '{0}': {1}")]
    Key(String, Box<Self>),
    /// An element of a list.
    #[error("error at index {0}: {1}")]
    Index(usize, Box<Self>),
    /// The result exceeds a limit.
    #[error("{0}")]
    TooMuch(&'static str),
}

/// Replaces every path in `text` with its value in `data`.
///
/// JSON numbers are floats in Go, and print with six decimals here.
///
/// # Errors
///
/// All paths without a value.
pub fn render(text: &str, data: &Json) -> Result<String, SubstitutionError> {
    replace(text, |path| find(data, path).map(shown).transpose())
}

/// Replaces every path in `text` with the text that `value` returns for it.
///
/// # Errors
///
/// The error of `value`, or all paths for which it returns `None`.
pub fn replace(
    text: &str,
    value: impl Fn(&str) -> Result<Option<String>, SubstitutionError>,
) -> Result<String, SubstitutionError> {
    let (mut out, mut missing) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((path, tail)) = path(after) else {
            // The next `{{` may overlap this one.
            out.push('{');
            rest = rest.get(before.len() + 1..).unwrap_or_default();
            continue;
        };
        match value(path)? {
            Some(value) => out.push_str(&value),
            None if missing.iter().any(|known| known == path) => {}
            None => missing.push(path.to_owned()),
        }
        rest = tail;
    }
    out.push_str(rest);
    if missing.is_empty() { Ok(out) } else { Err(SubstitutionError::Missing(missing)) }
}

/// Renders every text in `value`; keys are left unchanged.
///
/// # Errors
///
/// The first text that fails, with the path to it.
pub fn render_all(value: &Json, data: &Json) -> Result<Json, SubstitutionError> {
    replace_all(value, &|text| render(text, data))
}

/// Replaces every text in `value` with the result of `render`; keys are left unchanged.
///
/// # Errors
///
/// The first text that fails, with the path to it.
pub fn replace_all(
    value: &Json,
    render: &impl Fn(&str) -> Result<String, SubstitutionError>,
) -> Result<Json, SubstitutionError> {
    Ok(match value {
        Json::String(text) => Json::String(render(text)?),
        Json::Array(items) => {
            let items = items.iter().enumerate().map(|(i, item)| {
                replace_all(item, render)
                    .map_err(|unfilled| SubstitutionError::Index(i, unfilled.into()))
            });
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, item)| {
                let rendered = replace_all(item, render);
                let rendered = rendered
                    .map_err(|unfilled| SubstitutionError::Key(key.clone(), unfilled.into()));
                Ok((key.clone(), rendered?))
            });
            Json::Object(entries.collect::<Result<_, _>>()?)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    })
}

/// The path in `text`, if the text is a single reference and nothing else.
pub fn single_path(text: &str) -> Option<&str> {
    let (path, tail) = path(text.strip_prefix("{{")?)?;
    tail.is_empty().then_some(path)
}

/// Splits the text after `{{` into the path and the text after its `}}`.
fn path(after: &str) -> Option<(&str, &str)> {
    let (inside, tail) = after.split_once("}}")?;
    let spaced = inside.strip_prefix(' ').and_then(|inside| inside.strip_suffix(' '));
    let path = spaced.unwrap_or(inside);
    let path = path.strip_prefix('.').unwrap_or(path);
    let first = path.chars().next()?;
    let begins = first.is_ascii_alphabetic() || first == '_';
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (begins && path.chars().all(allowed)).then_some((path, tail))
}

fn find<'d>(data: &'d Json, path: &str) -> Option<&'d Json> {
    path.split('.').try_fold(data, |value, key| value.as_object()?.get(key))
}

fn shown(value: &Json) -> Result<String, SubstitutionError> {
    match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(n) => Ok(format!("{:.6}", n.as_f64().unwrap_or(f64::NAN))),
        value => {
            let state = RenderState::new(RenderContext::default());
            let value = from_json(&state, value, 0);
            match value.and_then(|value| display(&state, &value)) {
                Ok(bytes) => Ok(lossy(&bytes).into_owned()),
                Err(EvalError::LimitExceeded(problem)) => Err(SubstitutionError::TooMuch(problem)),
                Err(EvalError::Message(_)) => Err(SubstitutionError::TooMuch("it cannot be shown")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{render, render_all};

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let data = json!({
            "a": "x", "n": 5, "f": 1.5, "yes": true, "none": null,
            "list": [1, "b"], "map": {"k-1": {"v": "deep"}, "n": 2},
        });
        let rendered = render(text, &data).unwrap_or_else(|unfilled| unfilled.to_string());
        assert_eq!(rendered, expect, "{text}");
    }

    #[test]
    fn paths_are_replaced_and_nothing_else() {
        check("{{ a }}{{ .a }}{{a}}{{.a}}", "xxxx");
        check("{{ n }} {{ f }} {{ yes }}", "5.000000 1.500000 true");
        check("{{ map.k-1.v }} {{ map }} {{ list }}", "deep map[k-1:map[v:deep] n:2] [1 b]");
        check(
            "{{ a | upper }} {{  a }} {{ a}} {{{ a }}} {{",
            "{{ a | upper }} {{  a }} {{ a}} {x} {{",
        );
        check("{{ none }}", "<nil>");
    }

    #[test]
    fn everything_that_is_missing_is_told_once() {
        check("{{ b }} {{ map.x }} {{ b }}", "missing template variables: b, map.x");
        check("{{ list.0 }}", "missing template variables: list.0");
    }

    #[test]
    fn values_are_walked() {
        let data = json!({"a": 1});
        let rendered = render_all(&json!({"{{ a }}": ["{{ a }}", 2]}), &data);
        assert_eq!(rendered, Ok(json!({"{{ a }}": ["1.000000", 2]})));
        let failed = render_all(&json!({"k": ["ok", "{{ b }}"]}), &data);
        let text = failed.map_err(|unfilled| unfilled.to_string());
        let expect = "error in key 'k': error at index 1: missing template variables: b";
        assert_eq!(text, Err(expect.to_owned()));
    }
}
