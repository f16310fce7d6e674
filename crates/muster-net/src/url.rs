//! Absolute `http` and `https` URLs.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use http::{HeaderValue, Uri};
use thiserror::Error;

const HOST: &str = "the URL has an invalid host";

/// Why a URL cannot be used: it is malformed, or the address policy refuses it.
///
/// The text names the host at most, never the whole URL: a query may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UrlError(Cow<'static, str>);

impl UrlError {
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

/// An absolute `http` or `https` URL, split into the parts that a connection and a request need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    secure: bool,
    host: String,
    ip: Option<IpAddr>,
    port: u16,
    host_header: HeaderValue,
    request_target: Uri,
    canonical: bool,
}

impl Url {
    /// Parses an absolute URL. A fragment is dropped: it is never sent. A user name and password are
    /// dropped as well.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(UrlError::new("the URL contains characters that a URL cannot have"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(UrlError::new("the URL must begin with `http://` or `https://`")),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or_default();
        let (user, host_and_port) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = split_port(host_and_port)?;
        let (host, ip) = parse_host(host)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (Ok(request_target), Ok(host_header)) =
            (path.parse(), HeaderValue::from_str(host_and_port))
        else {
            return Err(UrlError::new("the URL has an invalid path"));
        };
        let canonical =
            user.is_none() && text.is_ascii() && (ip.is_some() || is_canonical_name(&host));
        Ok(Self {
            text: text.to_owned(),
            secure,
            host,
            ip,
            port: port.unwrap_or(if secure { 443 } else { 80 }),
            host_header,
            request_target,
            canonical,
        })
    }

    /// Resolves a URL reference (absolute, `//host/path`, `/path`, `?query` or `path`) against this URL.
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let scheme = if self.secure { "https" } else { "http" };
        let authority = self.host_header.to_str().unwrap_or_default();
        let path = self.request_target.path();
        let text = if reference.contains("://") {
            reference.to_owned()
        } else if reference.starts_with("//") {
            format!("{scheme}:{reference}")
        } else if reference.starts_with('/') {
            format!("{scheme}://{authority}{reference}")
        } else if reference.starts_with('?') {
            format!("{scheme}://{authority}{path}{reference}")
        } else {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{reference}")
        };
        Self::parse(&text)
    }

    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the scheme is `https`.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host in lower case, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The IP address, if the host is one.
    pub const fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The port, explicit or that of the scheme.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `Host` header.
    pub const fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// The path with its query, as it is written in the request line.
    pub const fn request_target(&self) -> &Uri {
        &self.request_target
    }

    /// The scheme, host and port in a normal form: lower case, and without the scheme's own port.
    pub fn origin(&self) -> String {
        let (scheme, default) = if self.secure { ("https", 443) } else { ("http", 80) };
        let host = match self.ip {
            Some(IpAddr::V6(_)) => format!("[{}]", self.host),
            Some(IpAddr::V4(_)) | None => self.host.clone(),
        };
        match self.port {
            port if port == default => format!("{scheme}://{host}"),
            port => format!("{scheme}://{host}:{port}"),
        }
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.request_target.path()
    }

    /// Whether both URLs have the same scheme, host and port.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        (self.secure, &self.host, self.port) == (other.secure, &other.host, other.port)
    }

    /// Whether the host itself says that it is this machine: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        match self.ip {
            Some(ip) => super::AddressClass::of(ip) == super::AddressClass::Loopback,
            None => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// Whether all programs agree on what this URL addresses: ASCII only, no user name, and a host that
    /// is a DNS name, four decimal numbers, or IPv6 in brackets.
    pub const fn is_canonical(&self) -> bool {
        self.canonical
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((inner, after)) => {
                let host = authority.get(..inner.len() + 2).unwrap_or_default();
                (host, after.strip_prefix(':').or((!after.is_empty()).then_some("")))
            }
            None => return Err(UrlError::new(HOST)),
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port > 0 => Ok((host, Some(port))),
        _ => Err(UrlError::new("the URL has an invalid port")),
    }
}

fn parse_host(host: &str) -> Result<(String, Option<IpAddr>), UrlError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) => Ok((inner.to_ascii_lowercase(), Some(ip.into()))),
            Err(_) => Err(UrlError::new(HOST)),
        };
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok((host.to_owned(), Some(ip.into())));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || host.len() > 253 || !host.bytes().all(allowed) {
        return Err(UrlError::new(HOST));
    }
    Ok((host.to_ascii_lowercase(), None))
}

/// Whether a name is a plain DNS name. `2130706433` and `0x7f.1` are not: some resolvers read them as
/// IP addresses, so the last label must begin with a letter.
fn is_canonical_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        inner && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    let top = name.rsplit('.').next().unwrap_or_default();
    top.starts_with(|c: char| c.is_ascii_alphabetic()) && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let parts = match Url::parse(text) {
            Ok(url) => {
                let header = url.host_header().to_str().unwrap();
                let (secure, host, port) = (url.is_secure(), url.host(), url.port());
                format!("{secure} {host} {port} {header} {}", url.request_target())
            }
            Err(err) => err.to_string(),
        };
        assert_eq!(parts, expected, "{text}");
    }

    #[test]
    fn parts_of_a_url() {
        check("http://localhost:8080/mcp", "false localhost 8080 localhost:8080 /mcp");
        check("https://a.example", "true a.example 443 a.example /");
        check("https://A.example?q=1", "true a.example 443 A.example /?q=1");
        check("https://u:p@a.example/x?y=1#z", "true a.example 443 a.example /x?y=1");
        check("http://[::1]:9/m", "false ::1 9 [::1]:9 /m");
        check("http://my_service:80/", "false my_service 80 my_service:80 /");
        check("ftp://a/b", "the URL must begin with `http://` or `https://`");
        check("a/b", "the URL must begin with `http://` or `https://`");
        check("https://", "the URL has an invalid host");
        check("https://h:0/", "the URL has an invalid port");
        check("https://h/ x", "the URL contains characters that a URL cannot have");
    }

    #[test]
    fn origins_are_normalized() {
        let origin = |text: &str| Url::parse(text).unwrap().origin();
        assert_eq!(origin("https://A.b:443/mcp"), "https://a.b");
        assert_eq!(origin("http://[2001:DB8::1]:81/"), "http://[2001:db8::1]:81");
    }

    #[test]
    fn references_are_resolved() {
        let base = Url::parse("http://h:1/a/sse?k=1").unwrap();
        let join = |reference: &str| base.join(reference).unwrap();
        assert_eq!(join("/m?s=1").as_str(), "http://h:1/m?s=1");
        assert_eq!(join("m?s=1").as_str(), "http://h:1/a/m?s=1");
        assert_eq!(join("?s=1").as_str(), "http://h:1/a/sse?s=1");
        assert_eq!(join("//h:1/m").as_str(), "http://h:1/m");
        assert!(base.is_same_origin(&join("http://H:1/m")));
        assert!(!base.is_same_origin(&join("http://other:1/m")));
        assert!(!base.is_same_origin(&join("https://h:1/m")));
    }
}
