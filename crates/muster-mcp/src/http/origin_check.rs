//! The check of `Host` and `Origin` against DNS rebinding and cross-site requests.
//!
//! A web page can make a browser send requests to servers on its user's machine, but it cannot choose these
//! two headers.

use std::net::IpAddr;

use http::{HeaderMap, header};

use super::cors::AllowedOrigin;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Whether a request is allowed.
pub(super) fn is_allowed(
    headers: &HeaderMap,
    local: Option<IpAddr>,
    hosts: &[String],
    origin: Option<&AllowedOrigin>,
) -> bool {
    let is_known = |host: &str| is_known_host(host, local, hosts);
    let host = match headers.get(header::HOST).map(|value| value.to_str()) {
        Some(Ok(host)) => host_name(host),
        Some(Err(_)) | None => None,
    };
    if !host.is_some_and(is_known) {
        return false;
    }
    match headers.get(header::ORIGIN).map(|value| value.to_str()) {
        _ if origin.is_some() => true,
        None => true,
        Some(Ok(origin)) => {
            origin.split_once("://").and_then(|(_, rest)| host_name(rest)).is_some_and(is_known)
        }
        Some(Err(_)) => false,
    }
}

fn is_known_host(host: &str, local: Option<IpAddr>, hosts: &[String]) -> bool {
    LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
        || local.is_some_and(|local| host.parse() == Ok(local))
        || hosts.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

/// The host without port and brackets; `None` if it is malformed.
fn host_name(authority: &str) -> Option<&str> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_once(':').map_or((authority, ""), |(name, port)| (name, port)),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::is_allowed;

    fn allowed(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        let local = "192.0.2.7".parse().unwrap();
        is_allowed(&headers, Some(local), &["gate.example".to_owned()], None)
    }

    #[test]
    fn only_known_hosts_and_origins_are_allowed() {
        for (host, origin, expected) in [
            ("localhost:8090", None, true),
            ("LOCALHOST", None, true),
            ("127.0.0.1:1", None, true),
            ("[::1]:8090", None, true),
            ("[::1]", None, true),
            ("192.0.2.7:8090", None, true),
            ("192.0.2.8:8090", None, false),
            ("gate.example", None, true),
            ("evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("localhost:80@evil.example", None, false),
            ("", None, false),
            ("localhost", Some("http://localhost:3000"), true),
            ("localhost", Some("http://[::1]:3000"), true),
            ("localhost", Some("https://gate.example"), true),
            ("localhost", Some("http://evil.example"), false),
            ("localhost", Some("null"), false),
        ] {
            assert_eq!(allowed(host, origin), expected, "{host} {origin:?}");
        }
        assert!(!is_allowed(&HeaderMap::new(), None, &[], None));
    }
}
