//! W3C Trace Context: the identification of a span across processes.
//!
//! A client sends the context of its span as `traceparent` in the `_meta` of a request.

use std::fmt;

use serde_json::value::RawValue;

use crate::{
    hex,
    json::{Raw, RawObject},
};

/// The key in `_meta`, and the name of the HTTP header.
pub const TRACEPARENT: &str = "traceparent";

/// A span, as other processes refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace that the span is part of.
    pub trace_id: [u8; 16],
    /// The span.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl SpanContext {
    /// Parses a `traceparent`; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let [version, trace, span, flags] =
            [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let ([version], [flags]) = (bytes::<1>(version)?, bytes::<1>(flags)?);
        // Later versions may add parts.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let context =
            Self { trace_id: bytes(trace)?, span_id: bytes(span)?, sampled: flags & 1 == 1 };
        (context.trace_id != [0; 16] && context.span_id != [0; 8]).then_some(context)
    }

    /// The context in a `_meta` object.
    pub fn of_meta(meta: &RawValue) -> Option<Self> {
        // Most requests have none, and searching is cheaper than parsing.
        if !meta.get().contains(TRACEPARENT) {
            return None;
        }
        Self::parse(&RawObject::parse(meta)?.get_text(TRACEPARENT)?)
    }

    /// Returns the `_meta` object with this context added.
    pub fn into_meta(self, meta: Option<&RawValue>) -> Raw {
        let mut meta = meta.and_then(RawObject::parse).unwrap_or_default();
        meta.set_value(TRACEPARENT, &self.to_string());
        meta.to_raw()
    }
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (hex::encode(&self.trace_id), hex::encode(&self.span_id));
        write!(f, "00-{trace}-{span}-0{}", u8::from(self.sampled))
    }
}

/// Lower-case hexadecimal digits as bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    // The parser of numbers also takes signs and capitals.
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::SpanContext;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_valid_contexts_are_read() {
        let context = SpanContext::parse(VALID).unwrap();
        assert!(context.sampled && context.to_string() == VALID);
        let later = SpanContext::parse(&VALID.replacen("00", "42", 1).replace("-01", "-02-more"));
        assert_eq!(later, Some(SpanContext { sampled: false, ..context }));
        for invalid in [
            "",
            "00-1",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        ] {
            assert_eq!(SpanContext::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn the_rest_of_meta_stays() {
        let meta = format!(r#"{{"n": 1.0,"traceparent":"{VALID}"}}"#);
        let meta = RawValue::from_string(meta).unwrap();
        let context = SpanContext::of_meta(&meta).unwrap();
        let child = SpanContext { span_id: [1; 8], ..context };
        let expected = meta.get().replace("b7ad6b7169203331", "0101010101010101");
        assert_eq!(child.into_meta(Some(&meta)).get(), expected.replace(": ", ":"));
        assert_eq!(SpanContext::of_meta(&child.into_meta(None)), Some(child));
    }
}
