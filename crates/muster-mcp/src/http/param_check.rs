//! Checks the headers that repeat tool arguments.

use http::HeaderMap;
use serde_json::value::RawValue;

use crate::{
    headers::decode,
    param_headers::of_schema,
    wire::{RpcError, code},
};

/// Beyond this, programs disagree about the value of a number.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// Checks that the headers repeat the arguments that `schema` annotates.
pub(super) fn check(
    schema: &RawValue,
    arguments: Option<&RawValue>,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    // Clients ignore invalid annotations.
    for param in of_schema(schema).unwrap_or_default() {
        let wanted = arguments.and_then(|arguments| param.value(arguments));
        let mut given = headers.get_all(&param.header).iter().map(http::HeaderValue::as_bytes);
        let problem = match (wanted, given.next(), given.next()) {
            (None, None, _) => continue,
            (Some(wanted), Some(given), None) if is_equal(given, &wanted) => continue,
            (Some(_), None, _) => "is missing",
            (_, Some(_), Some(_)) => "is there twice",
            (_, Some(_), None) => "does not match the body",
        };
        let message = format!("Header mismatch: {} {problem}", param.header);
        return Err(RpcError::new(code::HEADER_MISMATCH, message));
    }
    Ok(())
}

fn is_equal(given: &[u8], wanted: &RawValue) -> bool {
    let Some(given) = decode(given) else { return false };
    let Ok(given) = std::str::from_utf8(&given) else { return false };
    if wanted.get().starts_with('"') {
        return serde_json::from_str::<String>(wanted.get()).is_ok_and(|wanted| wanted == given);
    }
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.abs() <= MAX_EXACT);
    // A number can be written in several ways.
    let is_same = || number(given).is_some_and(|given| number(wanted.get()) == Some(given));
    wanted.get() == given || is_same()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use muster_core::json::raw;
    use serde_json::{Value, json};

    use super::check;

    #[track_caller]
    fn holds(arguments: &Value, headers: &[(&'static str, &str)], problem: &str) {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {
                "n": {"type": "integer", "x-mcp-header": "N"},
            }},
            "on": {"type": "boolean", "x-mcp-header": "On"},
        }});
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name.unwrap(), value);
        }
        let found = check(&raw(&schema), Some(&raw(arguments)), &all).err();
        assert_eq!(found.map(|error| error.message).unwrap_or_default(), problem);
    }

    #[test]
    fn headers_must_repeat_the_arguments() {
        let (region, n, on) = ("mcp-param-region", "mcp-param-n", "mcp-param-on");
        let differs = |name| format!("Header mismatch: {name} does not match the body");
        holds(&json!({}), &[], "");
        holds(&json!({"region": null}), &[], "");
        holds(&json!({"region": "eu"}), &[(region, "eu")], "");
        holds(&json!({"region": "\u{fc}"}), &[(region, "=?base64?w7w=?=")], "");
        holds(&json!({"region": "eu"}), &[(region, "us")], &differs(region));
        holds(&json!({}), &[(region, "us")], &differs(region));
        holds(&json!({"region": "eu"}), &[], "Header mismatch: mcp-param-region is missing");
        holds(&json!({"deep": {"n": 42}, "on": false}), &[(n, "42"), (on, "false")], "");
        holds(&json!({"deep": {"n": 42.0}}), &[(n, "42")], "");
        holds(&json!({"deep": {"n": 42}}), &[(n, "43")], &differs(n));
        holds(&json!({"on": true}), &[(on, "1")], &differs(on));
        holds(&json!({"region": "1"}), &[(region, "1.0")], &differs(region));
        let huge = 9_007_199_254_740_993_u64;
        holds(&json!({"deep": {"n": huge}}), &[(n, "9007199254740992")], &differs(n));
    }

    #[test]
    fn a_duplicate_header_is_rejected() {
        let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}});
        let mut headers = HeaderMap::new();
        for value in ["x", "y"] {
            headers.append("mcp-param-a", HeaderValue::from_static(value));
        }
        let found = check(&raw(&schema), Some(&raw(&json!({"a": "x"}))), &headers).err().unwrap();
        assert_eq!(found.message, "Header mismatch: mcp-param-a is there twice");
    }
}
