//! Where documents about resources and issuers are, and which addresses belong together. Pure.

use http::Uri;

/// An address in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Scheme, host and port.
    pub(super) origin: String,
    /// Empty, or with a slash before and none behind.
    pub(super) path: String,
}

impl Place {
    pub(super) fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.split(['#', '?']).next()?.parse().ok()?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        let origin = match uri.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        Some(Self { origin, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// The host, without port and brackets.
    pub(super) fn host(&self) -> &str {
        let host = self.origin.split("://").nth(1).unwrap_or_default();
        match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => host.split(':').next().unwrap_or(host),
        }
    }

    /// Whether both are one origin. A port of this machine is the same by each of its names.
    fn is_at(&self, other: &Self) -> bool {
        let rest = |place: &Self| place.origin.replacen(place.host(), "", 1).replace("[]", "");
        self.origin == other.origin
            || self.is_here() && other.is_here() && rest(self) == rest(other)
    }

    /// Whether the address is on this machine.
    pub(super) fn is_here(&self) -> bool {
        let host = self.origin.split("://").nth(1).unwrap_or_default();
        let here = ["localhost", "127.0.0.1", "[::1]"];
        here.iter().any(|name| {
            host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }
}

/// Where the description of a protected resource may be, best first.
pub(super) fn resource_documents(named: Option<&str>, server: &Place) -> Vec<String> {
    let Place { origin, path } = server;
    let well_known = "/.well-known/oauth-protected-resource";
    let mut places: Vec<String> = named.map(str::to_owned).into_iter().collect();
    if !path.is_empty() {
        places.push(format!("{origin}{well_known}{path}"));
    }
    places.push(format!("{origin}{well_known}"));
    without_repeats(places)
}

/// Where the description of an issuer may be, best first.
pub(super) fn issuer_documents(issuer: &Place) -> Vec<String> {
    let Place { origin, path } = issuer;
    let oauth = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    without_repeats(vec![
        format!("{origin}{oauth}{path}"),
        format!("{origin}{openid}{path}"),
        format!("{origin}{path}{openid}"),
        format!("{origin}{path}{oauth}"),
    ])
}

fn without_repeats(places: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(places.len());
    for place in places {
        if !kept.contains(&place) {
            kept.push(place);
        }
    }
    kept
}

/// Whether what describes itself as `resource` may speak for the server at an address: it is the server,
/// or what the server is a part of. A token for anything else would be good for somebody else.
pub fn speaks_for(resource: &str, server: &str) -> bool {
    let (Some(resource), Some(server)) = (Place::parse(resource), Place::parse(server)) else {
        return false;
    };
    let part_of = |path: &str| {
        server.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    resource.is_at(&server) && part_of(&resource.path)
}

/// Whether two names are those of one issuer. They are compared as they are; only a slash that stands
/// for an empty path may be missing.
pub(super) fn same_issuer(left: &str, right: &str) -> bool {
    let bare = |name: &str| {
        let place = Place::parse(name)?;
        place.path.is_empty().then_some(place.origin)
    };
    left == right
        || (left.trim_end_matches('/') == right.trim_end_matches('/')
            && bare(left).is_some()
            && bare(left) == bare(right))
}

/// Scopes of both, each once, in the order they were first named.
pub(super) fn union(left: &str, right: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for scope in left.split_whitespace().chain(right.split_whitespace()) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

/// Whether all scopes of `wanted` are among `given`.
pub(super) fn covers(given: &str, wanted: &str) -> bool {
    let given: Vec<&str> = given.split_whitespace().collect();
    wanted.split_whitespace().all(|scope| given.contains(&scope))
}

#[cfg(test)]
mod tests {
    use super::{
        Place, covers, issuer_documents, resource_documents, same_issuer, speaks_for, union,
    };

    fn place(url: &str) -> Place {
        Place::parse(url).unwrap()
    }

    #[test]
    fn where_resources_are_described() {
        let check = |named: Option<&str>, url: &str, expect: &[&str]| {
            assert_eq!(resource_documents(named, &place(url)), expect, "{url}");
        };
        let root = "https://a.b/.well-known/oauth-protected-resource";
        check(None, "https://a.b", &[root]);
        check(None, "https://a.b/", &[root]);
        check(None, "https://A.b:443/mcp/", &[&format!("{root}/mcp"), root]);
        check(
            Some("https://x/y"),
            "https://a.b/m/n",
            &["https://x/y", &format!("{root}/m/n"), root],
        );
        check(Some(root), "https://a.b?x=1", &[root]);
    }

    #[test]
    fn where_issuers_are_described() {
        let bare = issuer_documents(&place("https://i:8443/"));
        assert_eq!(
            bare,
            [
                "https://i:8443/.well-known/oauth-authorization-server",
                "https://i:8443/.well-known/openid-configuration",
            ]
        );
        let tenant = issuer_documents(&place("https://i/t/1"));
        assert_eq!(
            tenant,
            [
                "https://i/.well-known/oauth-authorization-server/t/1",
                "https://i/.well-known/openid-configuration/t/1",
                "https://i/t/1/.well-known/openid-configuration",
                "https://i/t/1/.well-known/oauth-authorization-server",
            ]
        );
    }

    #[test]
    fn who_speaks_for_whom() {
        let server = "https://a/mcp/one";
        for resource in ["https://a", "https://a/", "https://a/mcp", "https://a/mcp/one/"] {
            assert!(speaks_for(resource, server), "{resource}");
        }
        for resource in
            ["https://b", "http://a", "https://a:1", "https://a/mc", "https://a/mcp/two", "x", ""]
        {
            assert!(!speaks_for(resource, server), "{resource}");
        }
        let names = ["http://localhost:1/mcp", "http://127.0.0.1:1/mcp", "http://[::1]:1/mcp"];
        for (one, other) in names.iter().flat_map(|one| names.map(|other| (one, other))) {
            assert!(speaks_for(one, other), "{one} {other}");
        }
        for other in
            ["http://localhost:2/mcp", "https://localhost:1/mcp", "http://localhost.b:1/mcp"]
        {
            assert!(!speaks_for(other, "http://127.0.0.1:1/mcp"), "{other}");
        }
    }

    #[test]
    fn issuers_are_compared_as_they_are() {
        assert!(same_issuer("https://a", "https://a/"));
        assert!(same_issuer("https://a/t", "https://a/t"));
        for (left, right) in [
            ("https://a/t", "https://a/t/"),
            ("https://a", "https://A"),
            ("https://a", "http://a"),
            ("https://a", "https://a:443"),
            ("https://a", "https://a.b"),
        ] {
            assert!(!same_issuer(left, right), "{left} {right}");
        }
    }

    #[test]
    fn hosts() {
        for (url, host) in [
            ("https://Muster.example/x", "muster.example"),
            ("http://localhost:8090", "localhost"),
            ("https://[2001:db8::1]:8443/", "2001:db8::1"),
        ] {
            assert_eq!(place(url).host(), host, "{url}");
        }
    }

    #[test]
    fn this_machine() {
        for (url, here) in [
            ("http://localhost:1/x", true),
            ("http://127.0.0.1", true),
            ("http://[::1]:9", true),
            ("http://localhost.evil.example", false),
            ("http://127.0.0.1.example", false),
        ] {
            assert_eq!(place(url).is_here(), here, "{url}");
        }
    }

    #[test]
    fn scopes() {
        assert_eq!(union("a b", " b  c a"), "a b c");
        assert_eq!(union("", ""), "");
        assert!(covers("a b", "b"));
        assert!(covers("", ""));
        assert!(!covers("ab", "a"));
    }
}
