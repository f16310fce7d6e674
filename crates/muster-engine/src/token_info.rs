//! Static tokens for listings: one form for the core tool and for the command that reads the file.

use jiff::Timestamp;
use muster_api::access::StaticTokenInfo;
use muster_core::caller_directory::TokenDescription;

/// A token as replies show it.
pub fn token_info(token: TokenDescription) -> StaticTokenInfo {
    StaticTokenInfo {
        name: token.name,
        role: Some(token.role),
        toolset: token.toolset,
        created: moment(token.created),
        expires: token.expires.map(moment),
        expired: token.is_expired,
        last_used: token.last_used.map(moment),
    }
}

/// Seconds since 1970 as RFC 3339.
pub(crate) fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|at| Timestamp::from_second(at).ok());
    moment.map(|moment| moment.to_string()).unwrap_or_default()
}
