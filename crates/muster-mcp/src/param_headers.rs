//! The headers in which a modern request repeats parts of its body, so that proxies can route it without
//! parsing the body.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use muster_core::json::{Raw, RawObject};
use serde_json::{Value, value::RawValue};

/// The header that repeats the protocol version.
pub const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that repeats the method.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the tool or prompt name, or the resource URI.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The schema annotation that names the header of an argument.
pub const ANNOTATION: &str = "x-mcp-header";

/// The headers that repeat parts of one request.
#[derive(Debug, Default)]
pub struct RoutingHeaders {
    version: Option<HeaderValue>,
    method: Option<HeaderValue>,
    name: Option<HeaderValue>,
    params: Vec<(HeaderName, HeaderValue)>,
}

impl RoutingHeaders {
    /// The headers of a request: `name` is that of a tool or prompt, or a resource URI.
    pub fn new(
        version: Option<&str>,
        method: &str,
        name: Option<&str>,
        params: Vec<(HeaderName, HeaderValue)>,
    ) -> Self {
        let (version, name) = (version.map(encode), name.map(encode));
        Self { version, method: Some(encode(method)), name, params }
    }

    /// The header of a notification.
    pub fn version(version: &str) -> Self {
        Self { version: Some(encode(version)), ..Self::default() }
    }

    /// Adds them to a request.
    pub fn apply(&self, headers: &mut HeaderMap) {
        let fixed = [(VERSION, &self.version), (METHOD, &self.method), (NAME, &self.name)];
        for (name, value) in fixed {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        for (name, value) in &self.params {
            headers.insert(name, value.clone());
        }
    }
}

/// Encodes text for a header: as it is, or in base64 between marks if a header cannot carry it.
pub fn encode(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_matches(' ') == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let value = match plain {
        true => HeaderValue::from_str(text),
        false => HeaderValue::from_str(&format!("=?base64?{}?=", base64(text.as_bytes()))),
    };
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let part = |place: usize| u32::from(chunk.get(place).copied().unwrap_or_default());
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for place in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * place) & 63) as usize);
            let letter = letter.filter(|_| place <= chunk.len());
            text.push(letter.map_or('=', |letter| char::from(*letter)));
        }
    }
    text
}

/// A tool argument that a header repeats.
#[derive(Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The path to it through the arguments.
    path: Vec<String>,
    /// The header that repeats it.
    pub header: HeaderName,
}

impl ParamHeader {
    /// The value in the arguments; null counts as absent.
    pub fn value(&self, arguments: &RawValue) -> Option<Raw> {
        let mut here = arguments.to_owned();
        for name in &self.path {
            let below = RawObject::parse(&here)?.get(name)?.to_owned();
            here = below;
        }
        (here.get() != "null").then_some(here)
    }
}

/// The arguments of a tool that headers repeat, or why its definition is invalid.
pub fn of_tool(tool: &RawValue) -> Result<Vec<ParamHeader>, String> {
    let schema =
        RawObject::parse(tool).and_then(|tool| tool.get("inputSchema").map(ToOwned::to_owned));
    schema.map_or_else(|| Ok(Vec::new()), |schema| of_schema(&schema))
}

/// The arguments that headers repeat, by the input schema of their tool.
pub fn of_schema(schema: &RawValue) -> Result<Vec<ParamHeader>, String> {
    let mut found = Vec::new();
    if !schema.get().contains(ANNOTATION) {
        return Ok(found);
    }
    let schema: Value = serde_json::from_str(schema.get()).map_err(|err| err.to_string())?;
    walk(&schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found)
}

/// Visits a schema and its subschemas. `path` is `None` where no path of argument names leads to the schema.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    if let Some(annotation) = members.get(ANNOTATION) {
        let header = annotated(annotation, members.get("type"), path.as_deref())?;
        if found.iter().any(|other| other.header == header.header) {
            return Err(format!("two arguments want the header `{}`", header.header));
        }
        found.push(header);
    }
    for (key, below) in members {
        match (key.as_str(), below) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    match path.as_deref_mut() {
                        Some(path) => {
                            path.push(name.clone());
                            walk(property, Some(path), found)?;
                            path.pop();
                        }
                        None => walk(property, None, found)?,
                    }
                }
            }
            (
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(all),
            ) => {
                all.values().try_for_each(|schema| walk(schema, None, found))?;
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(all)) => {
                all.iter().try_for_each(|schema| walk(schema, None, found))?;
            }
            (
                "items"
                | "contains"
                | "additionalProperties"
                | "additionalItems"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contentSchema",
                schema,
            ) => walk(schema, None, found)?,
            _ => (),
        }
    }
    Ok(())
}

fn annotated(
    annotation: &Value,
    kind: Option<&Value>,
    path: Option<&Vec<String>>,
) -> Result<ParamHeader, String> {
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(format!("`{ANNOTATION}` stands where no argument is"));
    };
    let name = annotation.as_str().filter(|name| !name.is_empty());
    let header = name.and_then(|name| format!("mcp-param-{name}").parse().ok());
    let Some(header) = header else {
        return Err(format!("{annotation} cannot be part of the name of a header"));
    };
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(ParamHeader { path: path.clone(), header }),
        Some(_) | None => {
            Err(format!("`{}` is of no type that a header can repeat", path.join(".")))
        }
    }
}

/// The headers for a call with these arguments. An argument that is absent or null has none.
pub fn values(params: &[ParamHeader], arguments: &RawValue) -> Vec<(HeaderName, HeaderValue)> {
    let values = params.iter().filter_map(|param| {
        let value = param.value(arguments)?;
        let text = match value.get() {
            text if text.starts_with('"') => Cow::Owned(serde_json::from_str(text).ok()?),
            // Numbers and booleans as written.
            text => Cow::Borrowed(text),
        };
        Some((param.header.clone(), encode(&text)))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{base64, encode, of_tool, values};

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn text_that_a_header_cannot_carry_is_encoded() {
        let check = |text: &str, expect: &str| assert_eq!(encode(text).to_str().unwrap(), expect);
        check("us-west 1", "us-west 1");
        check("", "");
        check("Zürich", "=?base64?WsO8cmljaA==?=");
        check(" a", "=?base64?IGE=?=");
        check("a\nb", "=?base64?YQpi?=");
        check("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?=");
        assert_eq!(base64(b"abcd"), "YWJjZA==");
        assert_eq!(base64(b"abcde"), "YWJjZGU=");
    }

    #[track_caller]
    fn check(schema: &str, arguments: &str, expect: &[(&str, &str)]) {
        let params = of_tool(&raw(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#))).unwrap();
        let values = values(&params, &raw(arguments));
        let found: Vec<(&str, &str)> =
            values.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn arguments_are_repeated() {
        let schema = r#"{"properties":{
            "r":{"type":"string","x-mcp-header":"Region"},
            "o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "b":{"type":"boolean","x-mcp-header":"B"},
            "x-mcp-header":{"type":"string"}}}"#;
        let region = ("mcp-param-region", "eu");
        check(
            schema,
            r#"{"r":"eu","o":{"n":42},"b":false}"#,
            &[region, ("mcp-param-n", "42"), ("mcp-param-b", "false")],
        );
        check(schema, r#"{"r":"eu","b":null}"#, &[region]);
        check(schema, "{}", &[]);
        check(r#"{"type":"object"}"#, r#"{"a":1}"#, &[]);
    }

    #[test]
    fn invalid_definitions_are_explained() {
        let check = |property: &str, expect: &str| {
            let tool = raw(&format!(r#"{{"inputSchema":{{"properties":{{"p":{property}}}}}}}"#));
            assert_eq!(of_tool(&tool).unwrap_err(), expect);
        };
        check(
            r#"{"type":"string","x-mcp-header":""}"#,
            "\"\" cannot be part of the name of a header",
        );
        check(
            r#"{"type":"string","x-mcp-header":"a b"}"#,
            "\"a b\" cannot be part of the name of a header",
        );
        check(r#"{"type":"string","x-mcp-header":1}"#, "1 cannot be part of the name of a header");
        check(
            r#"{"type":"number","x-mcp-header":"N"}"#,
            "`p` is of no type that a header can repeat",
        );
        check(r#"{"x-mcp-header":"N"}"#, "`p` is of no type that a header can repeat");
        check(
            r#"{"type":"string","x-mcp-header":"N"},"q":{"type":"string","x-mcp-header":"n"}"#,
            "two arguments want the header `mcp-param-n`",
        );
        check(
            r#"{"type":"array","items":{"type":"string","x-mcp-header":"N"}}"#,
            "`x-mcp-header` stands where no argument is",
        );
    }
}
