//! Content negotiation: the media types that a client sends and accepts.

use http::{HeaderMap, header};

use super::responses::SESSION;

const JSON: &str = "application/json";
const BOTH: &str = "application/json, text/event-stream";

/// The media types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

/// The media types that the client accepts; all of them if it sends no `Accept` header.
pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    // The fast path: nearly every client sends this value.
    if headers.get(header::ACCEPT).is_some_and(|value| value == BOTH) {
        return Accepts { json: true, events: true };
    }
    let mut accepts = Accepts { json: false, events: false };
    let mut is_given = false;
    for value in headers.get_all(header::ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',') {
            is_given = true;
            match essence(range) {
                range if range.eq_ignore_ascii_case("application/json") => accepts.json = true,
                range if range.eq_ignore_ascii_case("text/event-stream") => accepts.events = true,
                "application/*" => accepts.json = true,
                "text/*" => accepts.events = true,
                "*/*" => accepts = Accepts { json: true, events: true },
                _ => (),
            }
        }
    }
    if is_given { accepts } else { Accepts { json: true, events: true } }
}

/// Whether a `GET` does not come from an MCP client, but from a program that checks whether the gateway is up: it names
/// neither a session nor a protocol version nor event streams.
pub(super) fn is_plain_get(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let mut ranges = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    !headers.contains_key(&SESSION)
        && !headers.contains_key("mcp-protocol-version")
        && !ranges.any(|range| essence(range).eq_ignore_ascii_case("text/event-stream"))
}

/// Whether the body may be JSON. Browsers send other types across origins without a preflight request.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return true };
    if value == JSON {
        return true;
    }
    let kind = essence(value.to_str().unwrap_or_default());
    kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json")
}

/// A media type without its parameters.
fn essence(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::{Accepts, accepts, is_json};

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn accepted_media_types() {
        let check = |value: &str, json, events| {
            assert_eq!(
                accepts(&headers(header::ACCEPT, value)),
                Accepts { json, events },
                "{value}"
            );
        };
        check("application/json, text/event-stream", true, true);
        check("application/json", true, false);
        check("text/event-stream;q=0.5", false, true);
        check("*/*", true, true);
        check("text/html", false, false);
        assert_eq!(accepts(&HeaderMap::new()), Accepts { json: true, events: true });
    }

    #[test]
    fn media_types_of_json() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            assert_eq!(is_json(&headers(header::CONTENT_TYPE, value)), expected, "{value}");
        }
        assert!(is_json(&HeaderMap::new()));
    }
}
