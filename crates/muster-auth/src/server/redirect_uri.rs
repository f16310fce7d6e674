//! Redirect URIs: where authorization codes may be sent.

use std::net::IpAddr;

use muster_net::AddressClass;

/// Private-use schemes without a dot that well-known MCP clients use. RFC 8252 requires reverse domain names,
/// which contain a dot and are always allowed. Any other scheme has to be configured.
const KNOWN_SCHEMES: &[&str] = &[
    "claude",
    "cursor",
    "goose",
    "jetbrains",
    "kiro",
    "lmstudio",
    "raycast",
    "trae",
    "vscode",
    "vscode-insiders",
    "vscodium",
    "warp",
    "windsurf",
    "zed",
];

/// Schemes that a browser executes or reads instead of opening an application. They cannot be configured.
const DANGEROUS_SCHEMES: &[&str] =
    &["javascript", "data", "file", "vbscript", "about", "blob", "ftp", "ws", "wss"];

/// A parsed redirect URI.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedirectUri<'a> {
    pub(super) scheme: String,
    host: &'a str,
    port: Option<&'a str>,
    /// The path and query.
    rest: &'a str,
}

impl<'a> RedirectUri<'a> {
    /// Parses a redirect URI; `None` if it is malformed.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let graphic = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if !graphic || text.len() > 2000 || text.contains('#') {
            return None;
        }
        let (scheme, after) = text.split_once(':')?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(allowed) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let Some(after) = after.strip_prefix("//") else {
            return Some(Self { scheme, host: "", port: None, rest: after });
        };
        let end = after.find(['/', '?']).unwrap_or(after.len());
        let (authority, rest) = after.split_at_checked(end)?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']')?;
                match after.strip_prefix(':') {
                    None if !after.is_empty() => return None,
                    port => (host, port),
                }
            }
            None => authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p))),
        };
        let web = matches!(scheme.as_str(), "http" | "https");
        let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.len() <= 5;
        if web && port.is_some_and(|port| !digits(port)) {
            return None;
        }
        if authority.contains('@') || authority.contains('%') || (web && host.is_empty()) {
            return None;
        }
        Some(Self { scheme, host, port, rest })
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether it is on the user's own machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.ip().is_some_and(|ip| AddressClass::of(ip) == AddressClass::Loopback)
    }

    /// Whether a browser opens the URI itself instead of passing it to an application.
    pub(super) fn is_web(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// Returns why codes must not be sent to this URI; `None` if they may. `extra_schemes` are the configured
    /// private-use schemes.
    pub(super) fn problem(
        &self,
        allow_loopback: bool,
        extra_schemes: &[String],
    ) -> Option<&'static str> {
        if !self.is_web() {
            let scheme = self.scheme.as_str();
            let is_allowed = scheme.contains('.')
                || KNOWN_SCHEMES.contains(&scheme)
                || extra_schemes.iter().any(|extra| extra.eq_ignore_ascii_case(scheme));
            let is_allowed = is_allowed && !DANGEROUS_SCHEMES.contains(&scheme);
            return (!is_allowed).then_some("its scheme is not allowed");
        }
        if self.is_loopback() {
            return (!allow_loopback).then_some("URIs on the user's own machine are not allowed");
        }
        if self.scheme == "http" {
            return Some("it must begin with https://");
        }
        let is_private = self.ip().is_some_and(|ip| AddressClass::of(ip) != AddressClass::Public);
        is_private.then_some("it leads into a private network")
    }

    /// Whether the URI matches a registered one. The port of a loopback URI is ignored, because applications listen
    /// on any free port (RFC 8252, 7.3).
    pub(super) fn matches(&self, registered: &str) -> bool {
        let Some(registered) = RedirectUri::parse(registered) else { return false };
        if self.scheme == "http" && self.is_loopback() {
            return registered.scheme == "http"
                && registered.host.eq_ignore_ascii_case(self.host)
                && registered.rest == self.rest;
        }
        *self == registered
    }
}

#[cfg(test)]
mod tests {
    use super::RedirectUri;

    #[test]
    fn allowed_redirect_uris() {
        for (uri, expected) in [
            ("https://app.example/cb", "fine"),
            ("https://app.example/cb?x=1", "fine"),
            ("http://localhost:3000/cb", "fine"),
            ("http://127.0.0.1/cb", "fine"),
            ("http://[::1]:9/cb", "fine"),
            ("cursor://anysphere.cursor-retrieval/oauth", "fine"),
            ("com.example.app:/cb", "fine"),
            ("vscode://anthropic.claude/cb", "fine"),
            ("MYAPP://cb", "fine"),
            ("otherapp://cb", "scheme"),
            ("view-source:https://app.example/", "scheme"),
            ("filesystem:https://app.example/", "scheme"),
            ("ms-settings:", "scheme"),
            ("http://app.example/cb", "https://"),
            ("https://10.0.0.1/cb", "private"),
            ("https://169.254.169.254/cb", "private"),
            ("https://[fd00::1]/cb", "private"),
            ("javascript:alert(1)", "scheme"),
            ("data:text/html,x", "scheme"),
            ("file:///etc/passwd", "scheme"),
            ("vbscript:x", "scheme"),
            ("about:blank", "scheme"),
            ("https://app.example/cb#x", "none"),
            ("https://user@app.example/cb", "none"),
            ("https://app.example\\@evil/cb", "none"),
            ("https:///cb", "none"),
            ("http://[::1]evil.example/cb", "none"),
            ("http://[::1].evil.example/cb", "none"),
            ("http://localhost:x/cb", "none"),
            ("http://127.0.0.1:80.evil.example/cb", "none"),
            ("/cb", "none"),
            ("", "none"),
            ("https://app.example/ cb", "none"),
        ] {
            let found = match RedirectUri::parse(uri) {
                None => "none",
                Some(uri) => uri
                    .problem(true, &["myapp".to_owned(), "javascript".to_owned()])
                    .unwrap_or("fine"),
            };
            assert!(found.contains(expected), "{uri}: {found}");
        }
        let local = RedirectUri::parse("http://localhost/cb").unwrap();
        assert!(local.problem(false, &[]).is_some());
    }

    #[test]
    fn requested_uris_must_match_a_registered_one() {
        for (requested, registered, expected) in [
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb/", "https://a.example/cb", false),
            ("https://a.example:8443/cb", "https://a.example/cb", false),
            ("https://a.example/cb?x", "https://a.example/cb", false),
            ("https://b.example/cb", "https://a.example/cb", false),
            ("http://localhost:1/cb", "http://localhost:2/cb", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1/cb", true),
            ("http://127.0.0.1:1/cb", "http://localhost/cb", false),
            ("http://127.0.0.1:1/evil", "http://127.0.0.1/cb", false),
            ("https://localhost:1/cb", "http://localhost:1/cb", false),
            ("app://x/cb", "app://x/cb", true),
            ("app://y/cb", "app://x/cb", false),
        ] {
            let uri = RedirectUri::parse(requested).unwrap();
            assert_eq!(uri.matches(registered), expected, "{requested} {registered}");
        }
    }
}
