//! The two protocol eras, and how the era of a message is determined.
//!
//! Both eras share one wire. In the *legacy* era (2024-11-05 to 2025-11-25) a connection begins with
//! `initialize`, which negotiates the version for all that follows. In the *modern* era (2026-07-28) there
//! is no handshake: every request carries its version and the client's capabilities in `params._meta`,
//! `server/discover` returns the capabilities of the server, and every result states its type and how long
//! it may be cached.
//!
//! The era is determined for each message alone: one that carries a version in `_meta`, or whose HTTP
//! headers name a version that is not a legacy one, is modern; any other is legacy. A client may therefore
//! probe with `server/discover` and fall back to `initialize`, and no state has to be undone.

use muster_core::json::{Raw, RawObject};
use serde_json::value::RawValue;

use crate::headers::{self, Headers, Mismatch};

/// The legacy versions, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The modern versions, newest first.
pub const MODERN: [&str; 1] = ["2026-07-28"];

/// The `_meta` key of the protocol version of a modern request.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The `_meta` key of the client capabilities of a modern request.
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The `_meta` key of the client name of a modern request.
pub const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// The `_meta` key by which a modern request enables log messages.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The `_meta` key of the subscription that a message belongs to.
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

const OUR_KEYS: [&str; 4] = [VERSION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY];

/// The `_meta` key of the server name of a modern result.
pub const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The era of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// Why a modern request is invalid.
#[derive(Debug, PartialEq, Eq)]
pub enum EraFault {
    /// The version is not supported.
    Unsupported {
        /// The requested version.
        requested: String,
    },
    /// `_meta` lacks a key that every modern request carries.
    Incomplete {
        /// The key.
        missing: &'static str,
    },
    /// A header differs from the body that it repeats.
    Header(Mismatch),
}

impl Era {
    /// The era of a request: by the version in its headers, else by its `_meta`. Methods that only the
    /// modern era has are modern without either.
    pub fn of_request(method: &str, meta: &RawObject<'_>, headers: Option<&Headers<'_>>) -> Self {
        if let Some(version) = headers.and_then(|headers| headers.version)
            && !LEGACY.contains(&version)
        {
            return Self::Modern;
        }
        let only_modern = matches!(method, "server/discover" | "subscriptions/listen");
        if only_modern || meta.get(VERSION_KEY).is_some() { Self::Modern } else { Self::Legacy }
    }
}

/// Checks that a modern request carries all required members, and returns its version.
///
/// Clients rely on the order of these checks. Without headers, the version comes first: it determines what
/// else a request must carry.
pub fn check(
    meta: &RawObject<'_>,
    headers: Option<&Headers<'_>>,
) -> Result<&'static str, EraFault> {
    if let Some(Headers { version: None, .. }) = headers {
        return Err(EraFault::Header(Mismatch::missing(headers::VERSION)));
    }
    let Some(version) = meta.get(VERSION_KEY) else {
        return Err(EraFault::Incomplete { missing: VERSION_KEY });
    };
    let requested: String =
        serde_json::from_str(version.get()).unwrap_or_else(|_| version.get().to_owned());
    let complete = meta.get(CAPABILITIES_KEY).and_then(RawObject::parse).is_some();
    if let Some(headers) = headers {
        if !complete {
            return Err(EraFault::Incomplete { missing: CAPABILITIES_KEY });
        }
        if headers.version != Some(requested.as_str()) {
            return Err(EraFault::Header(Mismatch::differs(headers::VERSION)));
        }
    }
    let Some(version) = MODERN.into_iter().find(|version| *version == requested) else {
        return Err(EraFault::Unsupported { requested });
    };
    if complete { Ok(version) } else { Err(EraFault::Incomplete { missing: CAPABILITIES_KEY }) }
}

/// The legacy version that the headers of a request name.
pub(crate) fn legacy(headers: Option<&Headers<'_>>) -> Option<&'static str> {
    let named = headers?.version?;
    LEGACY.into_iter().find(|version| *version == named)
}

/// The client capabilities of a modern request.
pub fn capabilities(meta: &RawObject<'_>) -> Raw {
    meta.get(CAPABILITIES_KEY).map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned)
}

/// The `_meta` that is forwarded: without the keys that concern only this connection.
pub fn forwarded(meta: &RawValue) -> Option<Raw> {
    let mut members = RawObject::parse(meta)?;
    if members.iter().any(|(key, _)| OUR_KEYS.contains(&key)) {
        for key in OUR_KEYS {
            members.remove(key);
        }
        return (!members.is_empty()).then(|| members.to_raw());
    }
    (!members.is_empty()).then(|| meta.to_owned())
}

/// The version in the result of `initialize`: the client's if it is a legacy one, else our newest.
pub fn negotiate(requested: &str) -> &'static str {
    let [newest, ..] = LEGACY;
    LEGACY.into_iter().find(|version| *version == requested).unwrap_or(newest)
}

#[cfg(test)]
mod tests {
    use muster_core::json::RawObject;
    use serde_json::value::RawValue;

    use super::{Era, EraFault, check, forwarded, negotiate};
    use crate::headers::Headers;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    fn era(meta: &str, version: Option<&str>) -> Result<Era, EraFault> {
        let raw = raw(meta);
        let meta = RawObject::parse(&raw).unwrap();
        let headers = Headers { version, ..Headers::default() };
        let headers = version.map(|_| &headers);
        match Era::of_request("tools/list", &meta, headers) {
            Era::Legacy => Ok(Era::Legacy),
            Era::Modern => check(&meta, headers).map(|_| Era::Modern),
        }
    }

    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

    #[test]
    fn the_era_is_determined_for_each_message() {
        assert_eq!(era("{}", None), Ok(Era::Legacy));
        assert_eq!(era("{}", Some("2025-06-18")), Ok(Era::Legacy));
        assert_eq!(era(r#"{"progressToken":1}"#, None), Ok(Era::Legacy));
        assert_eq!(era(&format!("{{{VERSION},{CAPABILITIES}}}"), None), Ok(Era::Modern));
        assert_eq!(
            era(&format!("{{{VERSION}}}"), None),
            Err(EraFault::Incomplete { missing: "io.modelcontextprotocol/clientCapabilities" })
        );
        assert_eq!(
            era(r#"{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}"#, None),
            Err(EraFault::Unsupported { requested: "2027-01-01".to_owned() })
        );
        assert_eq!(
            era("{}", Some("2026-07-28")),
            Err(EraFault::Incomplete { missing: "io.modelcontextprotocol/protocolVersion" })
        );
    }

    #[test]
    fn keys_of_the_connection_are_not_forwarded() {
        let passed = |meta: &str| forwarded(&raw(meta)).map(|raw| raw.get().to_owned());
        assert_eq!(passed(&format!("{{{VERSION},{CAPABILITIES}}}")), None);
        assert_eq!(passed("{}"), None);
        assert_eq!(
            passed(&format!(r#"{{"traceparent": "00-1",{VERSION},"n":1.0}}"#)).as_deref(),
            Some(r#"{"traceparent":"00-1","n":1.0}"#)
        );
        assert_eq!(
            passed(r#"{ "progressToken" : 7 }"#).as_deref(),
            Some(r#"{ "progressToken" : 7 }"#)
        );
    }

    #[test]
    fn initialize_never_returns_a_modern_version() {
        assert_eq!(negotiate("2024-11-05"), "2024-11-05");
        assert_eq!(negotiate("2025-11-25"), "2025-11-25");
        assert_eq!(negotiate("2026-07-28"), "2025-11-25");
        assert_eq!(negotiate("1.0"), "2025-11-25");
    }
}
