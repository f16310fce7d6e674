//! The values that templates of a class see, and those stored from tool results.

use indexmap::IndexMap;
use muster_template::simple::{self, SubstitutionError};
use serde_json::{Map, Value as Json, json};

use super::{Service, health::value_at};

/// The values that arguments of a tool may refer to. `results` has earlier results by tool.
pub fn template_data(service: &Service, results: &Map<String, Json>) -> Json {
    let mut data = service.args.clone();
    let merged = merged_outputs(results);
    for tool in ["start", "stop", "restart"] {
        let result = results.get(tool).cloned().unwrap_or_else(|| json!({}));
        data.insert(tool.to_owned(), result);
    }
    data.insert("name".to_owned(), json!(service.name));
    data.insert("serviceClassName".to_owned(), json!(service.class));
    data.insert("args".to_owned(), Json::Object(service.args.clone()));
    let own = json!({"id": service.name, "name": service.name, "metadata": merged});
    data.insert("service".to_owned(), own);
    plain(Json::Object(data))
}

/// All results of tools; later ones win.
pub fn merged_outputs(results: &Map<String, Json>) -> Map<String, Json> {
    let mut all = Map::new();
    for tool in ["start", "restart", "stop", "status"] {
        if let Some(Json::Object(result)) = results.get(tool) {
            all.extend(result.clone());
        }
    }
    all
}

/// Renders the templates in arguments.
pub fn render_args(
    args: Option<&Map<String, Json>>,
    data: &Json,
) -> Result<Json, SubstitutionError> {
    let args = args.cloned().unwrap_or_default();
    simple::render_all(&Json::Object(args), data)
}

/// The values stored from a result, by name. Missing ones are skipped.
pub fn extract_outputs(outputs: &IndexMap<String, String>, text: &str) -> Map<String, Json> {
    let Ok(Json::Object(answer)) = serde_json::from_str(text) else { return Map::new() };
    let values = outputs
        .iter()
        .filter_map(|(name, path)| Some((name.clone(), value_at(&answer, path)?.clone())));
    values.collect()
}

/// The outputs of a class for one of its services.
pub fn outputs(
    outputs: &IndexMap<String, String>,
    service: &Service,
    results: &Map<String, Json>,
) -> Result<Map<String, Json>, SubstitutionError> {
    let mut data = template_data(service, results);
    if let Some(data) = data.as_object_mut() {
        data.insert("start".to_owned(), plain(Json::Object(merged_outputs(results))));
    }
    let filled = outputs
        .iter()
        .map(|(name, text)| Ok((name.clone(), Json::String(simple::render(text, &data)?))));
    filled.collect()
}

/// Numbers as text: a port is `8080`, never `8080.000000`.
fn plain(value: Json) -> Json {
    match value {
        Json::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && number.is_f64());
            Json::String(whole.map_or_else(|| number.to_string(), |float| format!("{float:.0}")))
        }
        Json::Array(items) => Json::Array(items.into_iter().map(plain).collect()),
        Json::Object(pairs) => {
            Json::Object(pairs.into_iter().map(|(name, value)| (name, plain(value))).collect())
        }
        Json::Null | Json::Bool(_) | Json::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value as Json, json};

    use super::{extract_outputs, outputs, render_args, template_data};
    use crate::service::Service;

    fn service() -> Service {
        let args =
            json!({"port": 8080, "ratio": 0.5, "whole": 2.0, "name": "own", "tags": [1, "b"]});
        Service {
            name: "shop".to_owned(),
            namespace: "default".to_owned(),
            class: "web".to_owned(),
            args: object(args),
            auto_start: false,
        }
    }

    fn object(value: Json) -> Map<String, Json> {
        let Json::Object(pairs) = value else { panic!("not an object") };
        pairs
    }

    #[test]
    fn templates_see_arguments_and_what_tools_gave() {
        let results = object(json!({"start": {"id": "w-1", "n": 3}, "stop": {"at": "x"}}));
        let check = |text: &str, expect: &str| {
            let args = object(json!({"a": text}));
            let said = match render_args(Some(&args), &template_data(&service(), &results)) {
                Ok(args) => args["a"].as_str().unwrap().to_owned(),
                Err(unfilled) => unfilled.to_string(),
            };
            assert_eq!(said, expect, "{text}");
        };
        check("{{ .port }} {{ args.port }} {{ ratio }} {{ whole }}", "8080 8080 0.5 2");
        check("{{ name }} {{ args.name }} {{ serviceClassName }}", "shop own web");
        check("{{ start.id }} {{ start.n }} {{ stop.at }}", "w-1 3 x");
        check("{{ service.id }} {{ service.name }} {{ service.metadata.id }}", "shop shop w-1");
        check("{{ tags }} {{ .x | up }}", "[1 b] {{ .x | up }}");
        check(
            "{{ no }} {{ start.no }}",
            "error in key 'a': missing template variables: no, start.no",
        );
        assert_eq!(render_args(None, &json!({})).unwrap(), json!({}));
    }

    #[test]
    fn outputs_are_found_by_key_or_path() {
        let paths =
            serde_json::from_value(json!({"a": "x.y", "b": "z", "c": "no", "d": "l"})).unwrap();
        let text = r#"{"x": {"y": 1}, "x.y": "literal", "z": {"y": [1]}}"#;
        assert_eq!(
            Json::Object(extract_outputs(&paths, text)),
            json!({"a": "literal", "b": {"y": [1]}})
        );
        assert!(extract_outputs(&paths, "no json").is_empty());
        assert!(extract_outputs(&paths, "[1]").is_empty());
    }

    #[test]
    fn class_outputs_need_everything_they_name() {
        let results = object(json!({"start": {"id": "w-1"}}));
        let ask = |templates: Json| {
            outputs(&serde_json::from_value(templates).unwrap(), &service(), &results)
        };
        let good = ask(json!({"url": "http://{{ .start.id }}:{{ port }}", "fixed": "x"})).unwrap();
        assert_eq!(Json::Object(good), json!({"url": "http://w-1:8080", "fixed": "x"}));
        assert!(ask(json!({"url": "{{ start.id }}", "bad": "{{ start.no }}"})).is_err());
    }
}
