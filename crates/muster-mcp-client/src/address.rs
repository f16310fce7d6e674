//! Where a server is on the network.

use http::{HeaderValue, Uri};

use super::failure::Failure;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether TLS is spoken there.
    pub(super) secure: bool,
    /// Its name or number, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What it calls itself in requests.
    pub(super) authority: HeaderValue,
    /// The path with its query.
    pub(super) path: Uri,
}

impl Address {
    /// Reads an absolute address.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let broken = |what: &str| Failure::Broken(format!("the address of the server {what}"));
        let url = url.trim();
        // What is behind a `#` is never sent.
        let url = url.split('#').next().unwrap_or(url);
        let uri: Uri = url.parse().map_err(|_| broken("cannot be read"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(broken("must begin with `http://` or `https://`")),
        };
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| broken("has no host"))?;
        let port = uri.port_u16();
        let authority = match port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let authority = HeaderValue::from_str(&authority).map_err(|_| broken("cannot be read"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse().map_err(|_| broken("cannot be read"))?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { secure, host, port, authority, path })
    }

    /// Reads an address that the server gave, which may leave out what is as here. It must lead to
    /// the same server: what is sent there may hold a password.
    pub(super) fn join(&self, reference: &str) -> Result<Self, Failure> {
        let scheme = if self.secure { "https" } else { "http" };
        let authority = self.authority.to_str().unwrap_or_default();
        let absolute = if reference.contains("://") {
            reference.to_owned()
        } else if reference.starts_with("//") {
            format!("{scheme}:{reference}")
        } else if reference.starts_with('/') {
            format!("{scheme}://{authority}{reference}")
        } else if reference.starts_with('?') {
            format!("{scheme}://{authority}{}{reference}", self.path.path())
        } else {
            let folder = self.path.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{reference}")
        };
        let there = Self::parse(&absolute)?;
        if (there.secure, &there.host, there.port) != (self.secure, &self.host, self.port) {
            return Err(Failure::Broken("it wants messages sent to another server".to_owned()));
        }
        Ok(there)
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[track_caller]
    fn check(url: &str, expect: &str) {
        let shape = match Address::parse(url) {
            Ok(at) => {
                let authority = at.authority.to_str().unwrap();
                format!("{} {} {} {authority} {}", at.secure, at.host, at.port, at.path)
            }
            Err(failure) => failure.to_string(),
        };
        assert_eq!(shape, expect);
    }

    #[test]
    fn parts_of_an_address() {
        check("http://localhost:8080/mcp", "false localhost 8080 localhost:8080 /mcp");
        check("https://a.example", "true a.example 443 a.example /");
        check("https://u:p@a.example/x?y=1#z", "true a.example 443 a.example /x?y=1");
        check("http://[::1]:9/m", "false ::1 9 [::1]:9 /m");
        check("ftp://a/b", "the address of the server must begin with `http://` or `https://`");
        check("a/b", "the address of the server cannot be read");
        check("/b", "the address of the server must begin with `http://` or `https://`");
    }

    #[test]
    fn references_stay_at_the_server() {
        let base = Address::parse("http://h:1/a/sse?k=1").unwrap();
        let path = |reference: &str| match base.join(reference) {
            Ok(address) => address.path.to_string(),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(path("/m?s=1"), "/m?s=1");
        assert_eq!(path("m?s=1"), "/a/m?s=1");
        assert_eq!(path("?s=1"), "/a/sse?s=1");
        assert_eq!(path("http://h:1/m"), "/m");
        assert_eq!(path("//h:1/m"), "/m");
        assert_eq!(path("http://other:1/m"), "it wants messages sent to another server");
        assert_eq!(path("https://h:1/m"), "it wants messages sent to another server");
    }
}
