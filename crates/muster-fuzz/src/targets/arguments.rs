//! Arguments under a policy: permitted values are within the limits for every JSON reader.

use std::sync::{Arc, LazyLock};

use muster_core::{
    call::{Call, Caller, Checking},
    catalog::{BackendInfo, CatalogSnapshot, CatalogSource, offer},
    connect::ServerListing,
    json::RawObject,
    name::{BackendName, ToolName},
    policy::Policy,
};
use serde_json::{Value, json, value::RawValue};

use super::{FuzzTarget, raw};

const MAX: f64 = 10.0;
const TOOL: &str = "x_files_read";

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "arguments",
    seeds: &[
        r#"{"path":"src/a","limit":5}"#,
        r#"{"limit":"7","path":["src/b"],"other":{"path":"/etc"}}"#,
        r#"{"PATH":"/etc","limit":1e999}"#,
        r#"{"path":"src/a","p\u0061th":"/etc"}"#,
    ],
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"path\":",
        "\"Path\":",
        "\"limit\":",
        "\"/etc\"",
        "\"src/a\"",
        "1e999",
        "-1e999",
        "11",
        "\"nan\"",
        "\"inf\"",
        "\"1_1\"",
        "null",
        "true",
        "\\u0070",
    ],
    execute,
};

const POLICY: &str = "\
default: enabled
tools:
  x_files_read:
    args: {path: {pattern: 'src/[a-z]+'}, limit: {min: 1, max: 10}}
";

static GATEWAY: LazyLock<Option<(Policy, CatalogSnapshot)>> = LazyLock::new(|| {
    let policy = muster_config::policy::parse(POLICY).ok()?.value;
    let backend = BackendName::new("files");
    let tool = json!({"name": "read", "inputSchema": {"type": "object"}});
    let listing =
        ServerListing { tools: vec![muster_core::json::raw(&tool)], ..ServerListing::default() };
    let offer = offer::offer(&listing, &backend, |_| TOOL.to_owned());
    let info = BackendInfo {
        title: "files".into(),
        description: "".into(),
        category: None,
        tags: Arc::default(),
    };
    Some((policy, CatalogSnapshot::default().with(CatalogSource::new(backend, info, offer))))
});

fn execute(input: &str) -> Result<bool, String> {
    let Some(arguments) = raw(input) else { return Ok(false) };
    let call = Call::new(ToolName::new(TOOL), arguments, Checking::Strict);
    let Some((policy, catalog)) = &*GATEWAY else { return Err("the policy is broken".to_owned()) };
    let Ok(permitted) = policy.permit(catalog, &Caller::local(), call) else { return Ok(false) };
    let forwarded = permitted.raw_arguments();
    if forwarded.get() != input.trim() {
        return Err("what is forwarded is not what was sent".to_owned());
    }
    let Some(members) = RawObject::parse(forwarded) else { return Ok(forwarded.get() == "null") };
    // A reader that takes the first of equal names, or ignores their case, sees the same.
    for (name, value) in members.iter() {
        match name.to_lowercase().as_str() {
            "path" => within(value, &|value| value.as_str().is_some_and(is_source))?,
            "limit" => within(value, &is_small)?,
            _ => (),
        }
    }
    Ok(true)
}

fn within(value: &RawValue, fits: &dyn Fn(&Value) -> bool) -> Result<(), String> {
    let value: Value = serde_json::from_str(value.get()).map_err(|error| error.to_string())?;
    let all_fit = match &value {
        Value::Null => true,
        Value::Array(items) => items.iter().all(|item| item.is_null() || fits(item)),
        value => fits(value),
    };
    if all_fit { Ok(()) } else { Err(format!("{value} is permitted")) }
}

fn is_source(path: &str) -> bool {
    path.strip_prefix("src/")
        .is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Whether a value is a number within the limits, also for readers that convert text.
fn is_small(value: &Value) -> bool {
    let number = match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.is_some_and(|number| (1.0..=MAX).contains(&number))
}
