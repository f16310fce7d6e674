//! Evaluates conditions on results.

use muster_template::Template;
use serde_json::{Number, Value as Json};

use super::{JsonObject, ResultExpectation, StepCondition};

/// Evaluates a condition whose expected values are rendered. Of two expectations only those with paths
/// count, and `expect` if none has paths. `render` computes a path that is a template.
pub(super) fn holds(
    condition: &StepCondition,
    result: &Json,
    failed: bool,
    render: &dyn Fn(&str) -> Option<Json>,
) -> bool {
    let (nothing, none) = (ResultExpectation::default(), ResultExpectation::default());
    let expect = condition.expect.as_ref().unwrap_or(&nothing);
    let expect_not = condition.expect_not.as_ref().unwrap_or(&none);
    let every_path = |paths: &JsonObject| {
        paths.iter().all(|(path, wanted)| match Template::is_template(path) {
            true => render(path).is_some_and(|found| loosely_equal(&found, wanted)),
            false => value_at(result, path).is_some_and(|found| loosely_equal(found, wanted)),
        })
    };
    let not = !expect_not.json_path.is_empty();
    let is = !expect.json_path.is_empty() || !not;
    let as_expected = !is || (failed != expect.success && every_path(&expect.json_path));
    as_expected && !(not && every_path(&expect_not.json_path))
}

/// The value at a path such as `pods.0.name` or `pods[0].name`. Keys with dots are found too.
pub(super) fn value_at<'j>(value: &'j Json, path: &str) -> Option<&'j Json> {
    if let Some(found) = value.as_object().and_then(|object| object.get(path)) {
        return Some(found);
    }
    let path = path.replace('[', ".").replace(']', "");
    let parts = path.split('.').filter(|part| !part.is_empty());
    parts.into_iter().try_fold(value, |value, part| match value {
        Json::Object(object) => object.get(part),
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    })
}

/// Whether two values are equal, or print the same: `5` and `"5"`.
fn loosely_equal(found: &Json, wanted: &Json) -> bool {
    found == wanted || go_text(found) == go_text(wanted)
}

/// A value as Go prints it.
fn go_text(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::String(text) => text.clone(),
        Json::Number(number) => number_text(number),
        Json::Bool(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < 1e21 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{holds, value_at};
    use crate::definition::read;

    #[track_caller]
    #[expect(clippy::fn_params_excessive_bools, reason = "a table")]
    fn check(condition: Json, result: Json, failed: bool, expect: bool) {
        let steps = json!({"steps": [{"id": "a", "tool": "t", "condition": condition}]});
        let spec = read(&steps).unwrap().spec;
        let condition = spec.steps[0].condition.as_ref().unwrap();
        let render = |path: &str| (path == "{{ .result.a }}").then(|| result["a"].clone());
        assert_eq!(holds(condition, &result, failed, &render), expect, "{condition:?}");
    }

    #[test]
    fn expectations() {
        let expect = |json: Json| json!({"tool": "x", "expect": json});
        check(expect(json!({"success": true})), json!({}), false, true);
        check(expect(json!({"success": true})), json!({}), true, false);
        check(expect(json!({"success": false})), json!({}), true, true);
        check(
            expect(json!({"success": true, "json_path": {"a.b": 5}})),
            json!({"a": {"b": "5"}}),
            false,
            true,
        );
        check(
            expect(json!({"success": true, "json_path": {"a": true}})),
            json!({"a": "true"}),
            false,
            true,
        );
        check(
            expect(json!({"success": true, "json_path": {"a": 5}})),
            json!({"a": 5.0}),
            false,
            true,
        );
        check(
            expect(json!({"success": true, "json_path": {"a": 5}})),
            json!({"b": 5}),
            false,
            false,
        );
        check(expect(json!({"success": true, "json_path": {"a": 5}})), json!("text"), false, false);
        let template = |path: &str| expect(json!({"success": true, "json_path": {path: 5}}));
        check(template("{{ .result.a }}"), json!({"a": "5"}), false, true);
        check(template("{{ .result.a }}"), json!({"a": 6}), false, false);
        check(template("{{ .result.b }}"), json!({"a": 5}), false, false);
        // Paths without `success: true` ask for a failure.
        check(expect(json!({"json_path": {"a": 5}})), json!({"a": 5}), false, false);
        check(expect(json!({"json_path": {"a": 5}})), json!({"a": 5}), true, true);
    }

    #[test]
    fn negative_conditions() {
        let not = |json: Json| json!({"tool": "x", "expect_not": json});
        check(not(json!({"json_path": {"a": 5}})), json!({"a": 5}), false, false);
        check(not(json!({"json_path": {"a": 5}})), json!({"a": 6}), true, true);
        check(not(json!({"json_path": {"a": 5}})), json!("text"), false, true);
        // Without paths the result is ignored, and a failure is expected.
        check(not(json!({"success": true})), json!({}), true, true);
        check(not(json!({"success": true})), json!({}), false, false);
        let both = json!({"tool": "x", "expect": {"success": true, "json_path": {"n": "s"}},
            "expectNot": {"jsonPath": {"h": "good"}}});
        check(both.clone(), json!({"n": "s", "h": "bad"}), false, true);
        check(both.clone(), json!({"n": "s", "h": "good"}), false, false);
        check(both, json!({"n": "t", "h": "bad"}), false, false);
    }

    #[test]
    fn paths() {
        let value = json!({"a": [{"b": 1}, {"b": {"c": null}}], "x.y": 2, "x": {"y": 3}});
        assert_eq!(value_at(&value, "a[1].b.c"), Some(&Json::Null));
        assert_eq!(value_at(&value, "a.0.b"), Some(&json!(1)));
        assert_eq!(value_at(&value, "x.y"), Some(&json!(2)));
        assert_eq!(value_at(&value, "a.2"), None);
        assert_eq!(value_at(&value, "a.b"), None);
    }
}
