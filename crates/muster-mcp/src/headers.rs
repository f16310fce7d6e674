//! The headers in which a modern HTTP request repeats parts of its body.
//!
//! Load balancers and firewalls route by these headers, so a request whose headers differ from its body is
//! rejected.

use std::borrow::Cow;

use thiserror::Error;

/// The header that repeats the protocol version.
pub const VERSION: &str = "MCP-Protocol-Version";
/// The header that repeats the method.
pub const METHOD: &str = "Mcp-Method";
/// The header that repeats the tool or prompt name, or the resource URI.
pub const NAME: &str = "Mcp-Name";

const ENCODED_START: &[u8] = b"=?base64?";
const ENCODED_END: &[u8] = b"?=";

/// The parameter of `method` that [`NAME`] repeats.
pub fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// The headers that repeat the body, or stand for parts of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a> {
    /// The version; absent if it is not text.
    pub version: Option<&'a str>,
    /// The method.
    pub method: Option<&'a [u8]>,
    /// The name or URI, as sent.
    pub name: Option<&'a [u8]>,
    /// The trace context, for requests that have none in their body.
    pub traceparent: Option<&'a str>,
}

/// A header that differs from the body.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Header mismatch: {header} {problem}")]
pub struct Mismatch {
    header: &'static str,
    problem: &'static str,
}

impl Mismatch {
    /// The header is missing.
    pub const fn missing(header: &'static str) -> Self {
        Self { header, problem: "is missing" }
    }

    /// The header has another value.
    pub const fn differs(header: &'static str) -> Self {
        Self { header, problem: "does not match the body" }
    }
}

impl Headers<'_> {
    /// Checks the header that repeats the method.
    pub fn check_method(&self, method: &str) -> Result<(), Mismatch> {
        check(METHOD, self.method, method)
    }

    /// Checks the header that repeats the name.
    pub fn check_name(&self, name: &str) -> Result<(), Mismatch> {
        check(NAME, self.name, name)
    }
}

fn check(header: &'static str, given: Option<&[u8]>, wanted: &str) -> Result<(), Mismatch> {
    let given = given.ok_or(Mismatch::missing(header))?;
    let given = decode(given).ok_or(Mismatch { header, problem: "is not valid base64" })?;
    if *given == *wanted.as_bytes() { Ok(()) } else { Err(Mismatch::differs(header)) }
}

/// Decodes a header value: text that a header cannot carry is base64 between marks.
pub(crate) fn decode(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let encoded = value.strip_prefix(ENCODED_START).and_then(|rest| rest.strip_suffix(ENCODED_END));
    match encoded {
        None => Some(Cow::Borrowed(value)),
        Some(encoded) => base64(encoded).map(Cow::Owned),
    }
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] if text.len().is_multiple_of(4) => digits,
        digits if digits.len().is_multiple_of(4) => digits,
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | sextet(*digit)?;
        }
        let [_, first, second, third] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        match group.len() {
            4 => bytes.extend([first, second, third]),
            3 => bytes.extend([first, second]),
            2 => bytes.push(first),
            _ => return None,
        }
    }
    Some(bytes)
}

fn sextet(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[track_caller]
    fn name(given: Option<&str>, wanted: &str, problem: &str) {
        let headers = Headers { name: given.map(str::as_bytes), ..Headers::default() };
        let found = headers.check_name(wanted).err().map(|err| err.to_string());
        let expected =
            (!problem.is_empty()).then(|| format!("Header mismatch: Mcp-Name {problem}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_is_repeated_as_text_or_in_base64() {
        name(Some("tool"), "tool", "");
        name(Some("Tool"), "tool", "does not match the body");
        name(None, "tool", "is missing");
        name(Some("=?base64?dG9vbA==?="), "tool", "");
        name(Some("=?base64?w7w=?="), "ü", "");
        name(Some("=?base64?w7zDvMO8?="), "üüü", "");
        name(Some("=?base64??="), "", "");
        name(Some("=?base64?dG9vbA?="), "tool", "is not valid base64");
        name(Some("=?base64?dG9v*A==?="), "tool", "is not valid base64");
        name(Some("=?base64?w7w=?="), "u", "does not match the body");
        name(Some("=?base64?"), "=?base64?", "");
    }
}
