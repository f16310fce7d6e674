//! Where codes may be sent.

use std::net::IpAddr;

use muster_net::AddressClass;

/// Schemes that run or read something instead of going somewhere.
const DANGEROUS: &[&str] =
    &["javascript", "data", "file", "vbscript", "about", "blob", "ftp", "ws", "wss"];

/// A redirect address, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedirectUri<'a> {
    pub(super) scheme: String,
    host: &'a str,
    port: Option<&'a str>,
    /// Everything behind the authority.
    rest: &'a str,
}

impl<'a> RedirectUri<'a> {
    /// Takes it apart; none if it cannot be one.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let graphic = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        if !graphic || text.len() > 2000 || text.contains('#') {
            return None;
        }
        let (scheme, after) = text.split_once(':')?;
        let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(letters) {
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

    fn number(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether it leads to the user's own machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self
                .number()
                .is_some_and(|number| AddressClass::of(number) == AddressClass::Loopback)
    }

    /// Whether a browser shows it, rather than some program.
    pub(super) fn is_web(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// Why codes are not sent there, if they are not.
    pub(super) fn problem(&self, localhost: bool) -> Option<&'static str> {
        if DANGEROUS.contains(&self.scheme.as_str()) {
            return Some("its scheme is not allowed");
        }
        if !self.is_web() {
            return None;
        }
        if self.is_loopback() {
            return (!localhost).then_some("addresses of the user's own machine are not allowed");
        }
        if self.scheme == "http" {
            return Some("it must begin with https://");
        }
        let inside =
            self.number().is_some_and(|number| AddressClass::of(number) != AddressClass::Public);
        inside.then_some("it leads into a private network")
    }

    /// Whether it is one that was registered. On the user's own machine the port does not matter:
    /// programs take one that is free.
    pub(super) fn is(&self, registered: &str) -> bool {
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
    fn where_codes_may_go() {
        for (uri, expected) in [
            ("https://app.example/cb", "fine"),
            ("https://app.example/cb?x=1", "fine"),
            ("http://localhost:3000/cb", "fine"),
            ("http://127.0.0.1/cb", "fine"),
            ("http://[::1]:9/cb", "fine"),
            ("cursor://anysphere.cursor-retrieval/oauth", "fine"),
            ("com.example.app:/cb", "fine"),
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
                Some(uri) => uri.problem(true).unwrap_or("fine"),
            };
            assert!(found.contains(expected), "{uri}: {found}");
        }
        let local = RedirectUri::parse("http://localhost/cb").unwrap();
        assert!(local.problem(false).is_some());
    }

    #[test]
    fn only_what_was_registered() {
        for (asked, registered, same) in [
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
            let asked_uri = RedirectUri::parse(asked).unwrap();
            assert_eq!(asked_uri.is(registered), same, "{asked} {registered}");
        }
    }
}
