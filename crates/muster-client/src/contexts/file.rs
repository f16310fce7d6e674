//! Reading and writing `contexts.yaml`.

use muster_config::{
    writer,
    yaml::{self, Node, NodeValue},
};
use muster_core::value::Value;

use super::{Context, Contexts};

/// Parses the file. Errors name the line.
pub(super) fn parse(text: &str) -> Result<Contexts, String> {
    let root = yaml::parse(text).map_err(|err| err.to_string())?;
    let mut contexts = Contexts::default();
    for (key, value) in members(&root, "the file")? {
        match key.as_str() {
            "current-context" => {
                contexts.current = Some(scalar_text(value, &key)?).filter(|name| !name.is_empty());
            }
            "contexts" => contexts.all = list(value)?,
            _ => (),
        }
    }
    Ok(contexts)
}

fn list(node: &Node) -> Result<Vec<Context>, String> {
    match &node.value {
        NodeValue::List(items) => items.iter().map(context).collect(),
        NodeValue::Scalar(scalar) if scalar.value == Value::Null => Ok(Vec::new()),
        NodeValue::Scalar(_) | NodeValue::Map(_) => {
            Err(format!("line {}: `contexts` must be a list of contexts", node.line))
        }
    }
}

fn context(node: &Node) -> Result<Context, String> {
    let (mut name, mut endpoint, mut settings) = (None, String::new(), Vec::new());
    for (key, value) in members(node, "a context")? {
        match key.as_str() {
            "name" => name = Some(scalar_text(value, &key)?),
            "endpoint" => endpoint = scalar_text(value, &key)?,
            "settings" => {
                let inner = members(value, "`settings`")?;
                settings = inner.into_iter().map(|(key, value)| (key, value.to_value())).collect();
            }
            _ => (),
        }
    }
    let name = name.ok_or_else(|| format!("line {}: a context has no `name`", node.line))?;
    Ok(Context { name, endpoint, settings })
}

/// The members of a mapping. Null counts as an empty mapping.
fn members<'a>(node: &'a Node, what: &str) -> Result<Vec<(String, &'a Node)>, String> {
    match &node.value {
        NodeValue::Map(pairs) => {
            Ok(pairs.iter().map(|(key, value)| (text(key).unwrap_or_default(), value)).collect())
        }
        NodeValue::Scalar(scalar) if scalar.value == Value::Null => Ok(Vec::new()),
        NodeValue::Scalar(_) | NodeValue::List(_) => {
            Err(format!("line {}: {what} must be a mapping of keys to values", node.line))
        }
    }
}

fn scalar_text(node: &Node, key: &str) -> Result<String, String> {
    text(node).ok_or_else(|| format!("line {}: `{key}` must be text", node.line))
}

/// The scalar as it was written, even if it is a number.
fn text(node: &Node) -> Option<String> {
    match &node.value {
        NodeValue::Scalar(scalar) => match &scalar.value {
            Value::Null => Some(String::new()),
            value => Some(node.written().map_or_else(|| writer::scalar(value), str::to_owned)),
        },
        NodeValue::List(_) | NodeValue::Map(_) => None,
    }
}

/// Serializes the file.
pub(super) fn write(contexts: &Contexts) -> String {
    let text = |text: &str| Value::Text(text.to_owned());
    let all = contexts.all.iter().map(|context| {
        let mut pairs =
            vec![(text("name"), text(&context.name)), (text("endpoint"), text(&context.endpoint))];
        if !context.settings.is_empty() {
            let settings = context.settings.iter().map(|(key, value)| (text(key), value.clone()));
            pairs.push((text("settings"), Value::Map(settings.collect())));
        }
        Value::Map(pairs)
    });
    let all = Value::List(all.collect());
    let current = text(contexts.current.as_deref().unwrap_or_default());
    writer::document(&[(text("current-context"), current), (text("contexts"), all)])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{parse, write};

    const FILE: &str = "\
current-context: lab
contexts:
  - name: lab
    endpoint: http://localhost:8090/mcp
  - name: edge-prod
    endpoint: https://muster.edge.example/mcp
    settings:
      output: json
";

    #[test]
    fn round_trip() {
        let contexts = parse(FILE).unwrap();
        assert_eq!(contexts.current().unwrap().name, "lab");
        assert_eq!(write(&contexts), FILE);
        assert_eq!(parse("").unwrap(), parse("contexts:").unwrap());
        let odd = parse("contexts: [{name: 010, endpoint: x}]").unwrap();
        assert_eq!(odd.all.first().unwrap().name, "010");
    }

    #[test]
    fn errors_name_the_line() {
        let wrong = |text: &str| parse(text).unwrap_err();
        expect!["line 1: `contexts` must be a list of contexts"].assert_eq(&wrong("contexts: x"));
        expect!["line 2: a context has no `name`"].assert_eq(&wrong("contexts:\n- endpoint: x"));
        expect!["line 1: the file must be a mapping of keys to values"].assert_eq(&wrong("- x"));
        assert!(wrong("contexts: [").starts_with("line "));
    }
}
