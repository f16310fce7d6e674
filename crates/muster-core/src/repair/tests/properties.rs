//! Properties that hold for every call.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{entry, raw, tools};
use crate::repair::{
    advice::advice,
    envelope::read,
    values::{is_valid, repair},
};

const NAMES: [&str; 8] = ["path", "count", "name", "tool", "input", "arguments", "args", "x"];

/// A type with a value that is usually of that type.
fn typed() -> impl Strategy<Value = (Value, Value)> {
    let kinds = prop_oneof![
        Just(json!({"type":"string"})),
        Just(json!({"type":"integer"})),
        Just(json!({"type":["boolean","null"]})),
        Just(json!({"type":"array","items":{"type":"integer"}})),
        Just(json!({"type":"object","properties":{"path":{"type":"integer"}}})),
        Just(json!({})),
    ];
    let values = prop_oneof![
        "[a-z0-9{}\"]{0,4}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i64>().prop_map(|number| Value::from(number.to_string())),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
        proptest::collection::vec(any::<i8>(), 0..3).prop_map(Value::from),
        any::<i8>().prop_map(|number| json!({"path": number})),
        Just(json!({"arguments": {"path": 1}})),
    ];
    (kinds, values)
}

proptest! {
    /// Valid declared arguments are never changed.
    #[test]
    fn what_fits_is_not_repaired(
        fields in proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), typed(), 0..6),
        extra in proptest::option::of("[b-d]{1,3}"),
        closed in any::<bool>(),
    ) {
        let properties: Value = fields.iter().map(|(name, (kind, _))| ((*name).to_owned(), kind.clone())).collect();
        let mut arguments: Value = fields.iter().map(|(name, (_, value))| ((*name).to_owned(), value.clone())).collect();
        if let (Some(extra), Some(object)) = (extra, arguments.as_object_mut()) {
            object.insert(extra, json!({"arguments": {}}));
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if closed && let Some(object) = schema.as_object_mut() {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        let entry = entry("t", &schema.to_string());
        let arguments = raw(&arguments.to_string());
        let fit = is_valid(&entry, &arguments);
        let call = raw(&format!(r#"{{"name":"t","arguments":{arguments}}}"#));
        let lookup = |name: &str| (name == "t").then_some(&entry);
        match read(&call, &lookup) {
            Ok(call) if fit => {
                prop_assert_eq!(call.arguments.get(), arguments.get());
                prop_assert!(call.repairs.is_empty());
            }
            Ok(_) => (),
            Err(_) => prop_assert!(!fit),
        }
        match repair(&entry, &arguments) {
            Some(repaired) => prop_assert!(!fit && is_valid(&entry, &repaired.arguments)),
            None if fit => prop_assert!(advice("t", &entry.input_schema, &arguments).is_none()),
            None => prop_assert!(advice("t", &entry.input_schema, &arguments).is_some()),
        }
    }

    /// A call has no arguments only if none were sent.
    #[test]
    fn nothing_given_is_lost(
        keys in proptest::collection::btree_map(
            proptest::sample::select(vec!["name", "arguments", "args", "params", "path", "zzz", "tool"]),
            prop_oneof![
                Just(json!("files")), Just(json!("strict")), Just(json!("call_tool")),
                Just(json!({"path": "given"})), Just(json!("{\"path\":\"given\"}")),
                Just(json!({"name": "files", "arguments": {"path": "given"}})),
                Just(json!("given")), Just(json!({"other": "given"})),
            ],
            0..5,
        ),
    ) {
        let tools = tools();
        let lookup = |name: &str| tools.iter().find(|entry| entry.name.as_str() == name);
        let call: Value = keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let call = raw(&call.to_string());
        if let Ok(repaired) = read(&call, &lookup) {
            let was_given = call.get().contains("given");
            let named_so = repaired.tool.contains("given");
            prop_assert!(!was_given || named_so || repaired.arguments.get().contains("given"), "{} {}", call, repaired.arguments);
        }
    }
}
