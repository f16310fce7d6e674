//! The pages that a browser may be sent to after a login at a server.

use muster_net::Url;
use thiserror::Error;

use crate::oauth::with_query;

/// The parameter that tells the page which server the user has logged in to.
const SERVER: &str = "server";

/// An entry of the allow-list that is not a valid page URL and could never match.
#[derive(Debug, Error)]
#[error(
    "`{0}` is not the URL of a page: it must begin with `https://` or `http://`, without a user or `..`"
)]
pub struct InvalidRedirect(String);

/// The allow-list of pages. An entry allows its page and all paths below it.
#[derive(Debug, Clone, Default)]
pub struct PostLoginRedirects(Vec<Url>);

impl PostLoginRedirects {
    /// Parses an allow-list of URLs.
    pub fn new(allowed: &[String]) -> Result<Self, InvalidRedirect> {
        let pages = allowed.iter().map(|url| page(url).ok_or_else(|| InvalidRedirect(url.clone())));
        pages.collect::<Result<_, _>>().map(Self)
    }

    /// Whether no page is allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a browser may be sent to a URL.
    pub(super) fn allows(&self, url: &str) -> bool {
        let Some(url) = page(url) else { return false };
        self.0.iter().any(|allowed| {
            let (base, path) = (allowed.path().trim_end_matches('/'), url.path());
            let rest = path.strip_prefix(base);
            url.is_same_origin(allowed)
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Parses a URL that every browser interprets as we do; `None` for any other.
fn page(url: &str) -> Option<Url> {
    let parsed = Url::parse(url).ok().filter(Url::is_canonical)?;
    let is_plain = url.starts_with("https://") || url.starts_with("http://");
    let climbs = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    let is_flat = !parsed.path().split('/').any(climbs);
    (is_plain && is_flat).then_some(parsed)
}

/// The URL of a page, with the server in its query.
pub(super) fn with_server(url: &str, server: &str) -> String {
    let (page, fragment) =
        url.split_once('#').map_or((url, None), |(page, rest)| (page, Some(rest)));
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let others = query.split('&').filter(|pair| {
        // Compare decoded names: the page would read `%73erver` as `server`.
        let mut decoded = form_urlencoded::parse(pair.as_bytes());
        decoded.next().is_some_and(|(name, _)| name != SERVER)
    });
    let others: Vec<&str> = others.collect();
    let mut url = path.to_owned();
    if !others.is_empty() {
        url = format!("{url}?{}", others.join("&"));
    }
    let url = with_query(&url, &[(SERVER, server)]);
    fragment.map_or(url.clone(), |fragment| format!("{url}#{fragment}"))
}

#[cfg(test)]
mod tests {
    use super::{PostLoginRedirects, with_server};

    #[test]
    fn pages_at_and_below_an_allowed_url() {
        let list = ["https://ui.example/app", "http://localhost:3000"].map(str::to_owned);
        let list = PostLoginRedirects::new(&list).unwrap();
        for url in [
            "https://ui.example/app",
            "https://ui.example/app/",
            "https://ui.example/app/done?x=1#top",
            "https://UI.example:443/app/a",
            "http://localhost:3000/anything",
            "http://localhost:3000",
        ] {
            assert!(list.allows(url), "{url}");
        }
        for url in [
            "https://ui.example/apple",
            "https://ui.example/",
            "https://ui.example:8443/app",
            "http://ui.example/app",
            "https://evil.example/app",
            "https://ui.example@evil.example/app",
            "https://user@ui.example/app",
            "https://ui.example/app/../admin",
            "https://ui.example/app/%2e%2E/admin",
            "https://ui.example/app/.%2e/admin",
            "https://ui.example/app\\..\\admin",
            "https://ui.example\\@evil.example/app",
            "//ui.example/app",
            "/app",
            "javascript://ui.example/app",
            "HTTPS://ui.example/app",
            "https://ui.example/app\r\nx: y",
            "",
        ] {
            assert!(!list.allows(url), "{url}");
        }
        for url in ["ui.example/app", "https://ui.example/a/../b", "https://me@ui.example", ""] {
            let error = PostLoginRedirects::new(&[url.to_owned()]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{url}` is not the URL of a page")), "{error}");
        }
        assert!(!PostLoginRedirects::default().allows("https://ui.example/app"));
    }

    #[test]
    fn the_server_is_set_in_the_query() {
        let check = |url: &str, expected: &str| assert_eq!(with_server(url, "a b"), expected);
        check("https://ui.example/app", "https://ui.example/app?server=a+b");
        check(
            "https://ui.example/app?x=1&server=evil#t",
            "https://ui.example/app?x=1&server=a+b#t",
        );
        check("https://ui.example/?server=1&server", "https://ui.example/?server=a+b");
        check("https://ui.example/?%73erver=evil&x=%26", "https://ui.example/?x=%26&server=a+b");
    }
}
