//! Well-known URLs of metadata documents, and the comparison of identifiers. No I/O.

use muster_net::Url;

/// The candidate URLs of the metadata of a protected resource, best first.
pub(super) fn resource_metadata_urls(named: Option<&str>, server: &Url) -> Vec<String> {
    let (origin, path) = split(server);
    let well_known = "/.well-known/oauth-protected-resource";
    let mut urls: Vec<String> = named.map(str::to_owned).into_iter().collect();
    urls.push(format!("{origin}{well_known}{path}"));
    urls.push(format!("{origin}{well_known}"));
    distinct(urls)
}

/// The candidate URLs of the metadata of an issuer, best first.
pub(super) fn issuer_metadata_urls(issuer: &Url) -> Vec<String> {
    let (origin, path) = split(issuer);
    let oauth = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    distinct(vec![
        format!("{origin}{oauth}{path}"),
        format!("{origin}{openid}{path}"),
        format!("{origin}{path}{openid}"),
        format!("{origin}{path}{oauth}"),
    ])
}

/// The origin of a URL, and its path without trailing slashes.
fn split(url: &Url) -> (String, &str) {
    (url.origin(), url.path().trim_end_matches('/'))
}

fn distinct(urls: Vec<String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(urls.len());
    for url in urls {
        if !distinct.contains(&url) {
            distinct.push(url);
        }
    }
    distinct
}

/// Whether a resource identifier covers the server at a URL: it has the same origin, and its path is that of
/// the server or a parent of it. A token for any other resource could be used elsewhere.
///
/// ```
/// use muster_auth::oauth::covers_server;
///
/// assert!(covers_server("https://gateway.example", "https://gateway.example/mcp"));
/// assert!(!covers_server("https://other.example", "https://gateway.example/mcp"));
/// ```
pub fn covers_server(resource: &str, server: &str) -> bool {
    let (Ok(resource), Ok(server)) = (Url::parse(resource), Url::parse(server)) else {
        return false;
    };
    let rest = server.path().strip_prefix(resource.path().trim_end_matches('/'));
    has_same_origin(&resource, &server)
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether two URLs have the same origin. `localhost`, `127.0.0.1` and `::1` count as one host.
fn has_same_origin(left: &Url, right: &Url) -> bool {
    let local = |url: &Url| matches!(url.host(), "localhost" | "127.0.0.1" | "::1");
    let local = local(left) && local(right);
    left.is_same_origin(right)
        || local && (left.is_secure(), left.port()) == (right.is_secure(), right.port())
}

/// Whether two identifiers name the same issuer. They are compared as strings, except that the slash of an
/// empty path is optional.
pub fn same_issuer(left: &str, right: &str) -> bool {
    let has_no_path = |name: &str| Url::parse(name).is_ok_and(|url| matches!(split(&url), (_, "")));
    left == right || left.trim_end_matches('/') == right.trim_end_matches('/') && has_no_path(left)
}

#[cfg(test)]
mod tests {
    use muster_net::Url;

    use super::{covers_server, issuer_metadata_urls, resource_metadata_urls, same_issuer};

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn resource_metadata() {
        let check = |named: Option<&str>, server: &str, expect: &[&str]| {
            assert_eq!(resource_metadata_urls(named, &url(server)), expect, "{server}");
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
    fn issuer_metadata() {
        let bare = issuer_metadata_urls(&url("https://i:8443/"));
        assert_eq!(
            bare,
            [
                "https://i:8443/.well-known/oauth-authorization-server",
                "https://i:8443/.well-known/openid-configuration",
            ]
        );
        let tenant = issuer_metadata_urls(&url("https://i/t/1"));
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
    fn who_covers_server_whom() {
        let server = "https://a/mcp/one";
        for resource in ["https://a", "https://a/", "https://a/mcp", "https://a/mcp/one/"] {
            assert!(covers_server(resource, server), "{resource}");
        }
        for resource in
            ["https://b", "http://a", "https://a:1", "https://a/mc", "https://a/mcp/two", "x", ""]
        {
            assert!(!covers_server(resource, server), "{resource}");
        }
        let names = ["http://localhost:1/mcp", "http://127.0.0.1:1/mcp", "http://[::1]:1/mcp"];
        for (one, other) in names.iter().flat_map(|one| names.map(|other| (one, other))) {
            assert!(covers_server(one, other), "{one} {other}");
        }
        for other in
            ["http://localhost:2/mcp", "https://localhost:1/mcp", "http://localhost.b:1/mcp"]
        {
            assert!(!covers_server(other, "http://127.0.0.1:1/mcp"), "{other}");
        }
    }

    #[test]
    fn issuers_are_compared_as_written() {
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
}
