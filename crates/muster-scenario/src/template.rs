//! Templates in scenarios: the responses of mock servers, and results of earlier steps.
//!
//! `{{ path }}`, `{{ .path }}`, `{{path}}` and `{{.path}}` are replaced; anything else between braces is left
//! unchanged.

use muster_template::simple::{self, SubstitutionError};
use serde_json::{Map, Value};

use crate::go_format;

/// Renders every text inside `value`; keys are left unchanged.
pub fn render(value: &Value, variables: &Map<String, Value>) -> Result<Value, SubstitutionError> {
    simple::replace_all(value, &|text| render_text(text, variables))
}

/// Renders one text.
pub fn render_text(
    text: &str,
    variables: &Map<String, Value>,
) -> Result<String, SubstitutionError> {
    simple::replace(text, |path| Ok(lookup(path, variables).map(go_format::in_template)))
}

/// Replaces variables in the texts of `value`, each text only if all of its braces begin with a known
/// variable. Other texts may be templates of the gateway, such as those of a workflow.
pub fn substitute(
    value: &Value,
    variables: &Map<String, Value>,
) -> Result<Value, SubstitutionError> {
    map_texts(value, &|text| match all_known(text, variables) {
        true => render_text(text, variables).map(Value::String),
        false => Ok(Value::String(text.to_owned())),
    })
}

/// Replaces variables in an expectation, as [`substitute`] does, except that numbers print as received and a
/// text that is a single variable becomes its value.
pub fn expectation(
    value: &Value,
    variables: &Map<String, Value>,
) -> Result<Value, SubstitutionError> {
    map_texts(value, &|text| {
        if !text.contains("{{") || !all_known(text, variables) {
            return Ok(Value::String(text.to_owned()));
        }
        if let Some(path) = simple::single_path(text) {
            let missing = || SubstitutionError::Missing(vec![path.to_owned()]);
            return lookup(path, variables).cloned().ok_or_else(missing);
        }
        let display = |path: &str| Ok(lookup(path, variables).map(go_format::display));
        simple::replace(text, display).map(Value::String)
    })
}

fn map_texts(
    value: &Value,
    map: &impl Fn(&str) -> Result<Value, SubstitutionError>,
) -> Result<Value, SubstitutionError> {
    match value {
        Value::String(text) => map(text),
        Value::Array(items) => items.iter().map(|item| map_texts(item, map)).collect(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| map_texts(value, map).map(|value| (key.clone(), value)));
            Ok(Value::Object(members.collect::<Result<_, _>>()?))
        }
        other => Ok(other.clone()),
    }
}

/// Whether every `{{ … }}` begins with the name of a variable.
fn all_known(text: &str, variables: &Map<String, Value>) -> bool {
    // Of `{{{ x }}` the innermost braces count.
    let mut heads: Vec<&str> = text.split("}}").collect();
    heads.pop();
    heads.iter().filter_map(|head| head.rsplit_once("{{")).all(|(_, inside)| {
        let inside = inside.trim();
        let path = inside.strip_prefix('.').unwrap_or(inside);
        path.split('.').next().is_some_and(|root| variables.contains_key(root))
    })
}

/// Walks maps along a dotted path. The name of a variable may contain dots itself.
fn lookup<'a>(path: &str, variables: &'a Map<String, Value>) -> Option<&'a Value> {
    if let Some(value) = variables.get(path) {
        return Some(value);
    }
    let mut names = path.split('.');
    let first = variables.get(names.next()?)?;
    names.try_fold(first, |value, name| value.as_object()?.get(name))
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
    fn four_forms_are_replaced() {
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
    fn all_missing_variables_are_named() {
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
    fn expectations_keep_the_type_of_a_value() {
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
