//! Which protocol era a client speaks, and what we do about it.
//!
//! Two eras share one wire. In the *legacy* era (2024-11-05 to 2025-11-25) a connection begins with
//! `initialize`, which settles the version for all that follows. In the *modern* era (2026-07-28)
//! there is no handshake: every request carries its version and the client's capabilities in
//! `params._meta`, `server/discover` tells what the server can do, and every result says what type it
//! is and how long it may be kept.
//!
//! Each message is judged by itself: one that carries a version in `_meta` is modern, any other is
//! legacy. A client may therefore probe with `server/discover`, fall back to `initialize`, or change
//! its mind, and no state has to be undone.

use muster_core::json::Object;
use serde_json::value::RawValue;

/// The legacy versions, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The modern versions, newest first.
pub const MODERN: [&str; 1] = ["2026-07-28"];

/// The key under which a modern request names its version.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The key under which a modern request says what its client can do.
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The key under which a modern request may name its client.
pub const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// The key under which a modern request asks for log lines.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// The key that tells which subscription a message belongs to.
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The key under which a modern result names the server.
pub const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The era of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// Why a modern request cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub enum EraFault {
    /// The version is not spoken here.
    Unsupported {
        /// The version asked for.
        requested: String,
    },
    /// `_meta` lacks a key that every modern request carries.
    Incomplete {
        /// The key.
        missing: &'static str,
    },
}

impl Era {
    /// Judges a request by its parameters.
    pub fn of(params: Option<&RawValue>) -> Result<Self, EraFault> {
        let Some(params) = params.and_then(Object::parse) else { return Ok(Self::Legacy) };
        let Some(meta) = params.get("_meta").and_then(Object::parse) else {
            return Ok(Self::Legacy);
        };
        let Some(version) = meta.get(VERSION_KEY) else { return Ok(Self::Legacy) };
        let requested: String =
            serde_json::from_str(version.get()).unwrap_or_else(|_| version.get().to_owned());
        if !MODERN.contains(&requested.as_str()) {
            return Err(EraFault::Unsupported { requested });
        }
        match meta.get(CAPABILITIES_KEY).and_then(Object::parse) {
            Some(_) => Ok(Self::Modern),
            None => Err(EraFault::Incomplete { missing: CAPABILITIES_KEY }),
        }
    }
}

/// The version to answer `initialize` with: the client's if it is a legacy one, else our newest.
pub fn negotiate(requested: &str) -> &'static str {
    let [newest, ..] = LEGACY;
    LEGACY.into_iter().find(|version| *version == requested).unwrap_or(newest)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{Era, EraFault, negotiate};

    fn era(params: &str) -> Result<Era, EraFault> {
        let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
        Era::of(Some(&raw))
    }

    #[test]
    fn each_message_is_judged_by_itself() {
        assert_eq!(Era::of(None), Ok(Era::Legacy));
        assert_eq!(era("{}"), Ok(Era::Legacy));
        assert_eq!(era("[]"), Ok(Era::Legacy));
        assert_eq!(era(r#"{"_meta":{"progressToken":1}}"#), Ok(Era::Legacy));
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
        assert_eq!(era(&format!(r#"{{"_meta":{{{version},{capabilities}}}}}"#)), Ok(Era::Modern));
        assert_eq!(
            era(&format!(r#"{{"_meta":{{{version}}}}}"#)),
            Err(EraFault::Incomplete { missing: "io.modelcontextprotocol/clientCapabilities" })
        );
        assert_eq!(
            era(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}"#),
            Err(EraFault::Unsupported { requested: "2027-01-01".to_owned() })
        );
    }

    #[test]
    fn initialize_never_answers_a_modern_version() {
        assert_eq!(negotiate("2024-11-05"), "2024-11-05");
        assert_eq!(negotiate("2025-11-25"), "2025-11-25");
        assert_eq!(negotiate("2026-07-28"), "2025-11-25");
        assert_eq!(negotiate("1.0"), "2025-11-25");
    }
}
