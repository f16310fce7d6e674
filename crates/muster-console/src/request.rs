//! A request for a page, and the check of its origin against cross-site request forgery (CSRF).

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};

/// The path of the console.
pub(crate) const ROOT: &str = "/console";

/// A request, decoded.
#[derive(Debug)]
pub(crate) struct PageRequest {
    pub(crate) method: Method,
    /// The segments of the path below the console.
    pub(crate) path: Vec<String>,
    query: Vec<(String, String)>,
    form: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
}

impl PageRequest {
    pub(crate) fn new(request: &Request<Bytes>) -> Self {
        let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default();
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let query = request.uri().query().unwrap_or_default();
        Self {
            method: request.method().clone(),
            path: segments.map(decoded).collect(),
            query: pairs(query.as_bytes()),
            form: pairs(request.body()),
            headers: request.headers().clone(),
        }
    }

    /// Returns a query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        value(&self.query, name)
    }

    /// Returns all values of a query parameter.
    pub(crate) fn queries<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a field of the form.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        value(&self.form, name)
    }

    /// The host and port by which the client reaches the gateway.
    pub(crate) fn host(&self) -> &str {
        self.header(header::HOST.as_str()).unwrap_or("localhost")
    }

    /// The scheme by which the client reaches the gateway, which itself speaks plain HTTP: TLS ends at a proxy.
    ///
    /// The origin of a form is that of the page, whatever the proxy passes on.
    pub(crate) fn scheme(&self) -> &'static str {
        let origin = self.header("origin").and_then(|origin| origin.split_once("://"));
        // A chain of proxies lists the scheme of each, the client's first.
        let forwarded = self.header("x-forwarded-proto").and_then(|list| list.split(',').next());
        match origin.map(|(scheme, _)| scheme).or(forwarded) {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
            Some(_) | None => "http",
        }
    }

    /// Whether the client wants the page as JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self.query("format") {
            Some(format) => format == "json",
            None => self.header("accept").is_some_and(|kinds| {
                kinds.contains("application/json") && !kinds.contains("text/html")
            }),
        }
    }

    /// The link to the same page as JSON.
    pub(crate) fn json_link(&self) -> String {
        let mut query = form_urlencoded::Serializer::new("?".to_owned());
        let kept = self.query.iter().filter(|(name, _)| name != "format" && name != "did");
        query.extend_pairs(kept).append_pair("format", "json");
        query.finish()
    }

    /// Whether a page of another origin made the browser send the request.
    ///
    /// The port is part of the origin, because other ports of this machine may belong to other users. Navigation to a
    /// page is allowed: it changes nothing, and only the user sees the page.
    pub(crate) fn is_foreign(&self) -> bool {
        if let Some(origin) = self.header("origin") {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            return !authority.is_some_and(|found| found.eq_ignore_ascii_case(self.host()));
        }
        match (self.header("sec-fetch-site"), self.header("sec-fetch-mode")) {
            (None | Some("same-origin" | "none"), _) => false,
            (Some(_), mode) => self.method != Method::GET || mode != Some("navigate"),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

fn pairs(text: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(text).into_owned().collect()
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Decodes a path segment. Unlike in a query, `+` is not a space.
fn decoded(segment: &str) -> String {
    let pair = format!("x={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(pair.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// The path of a page, from its segments below the console.
pub(crate) fn link(segments: &[&str]) -> String {
    let mut path = ROOT.to_owned();
    for segment in segments {
        path.push('/');
        let encoded = form_urlencoded::byte_serialize(segment.as_bytes()).collect::<String>();
        path.push_str(&encoded.replace('+', "%20"));
    }
    path
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;

    use super::{PageRequest, link};

    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> PageRequest {
        let mut request =
            Request::builder().method(method).uri(uri).header("host", "localhost:8090");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        PageRequest::new(&request.body(Bytes::new()).unwrap())
    }

    #[test]
    fn names_survive_in_paths() {
        for name in ["a b+c&d=e", "x/y", "é", "..", "%2F"] {
            let found = request("GET", &link(&["tools", name]), &[]);
            assert_eq!(found.path, ["tools", name]);
        }
        assert!(request("GET", "/console", &[]).path.is_empty());
    }

    #[test]
    fn requests_that_other_pages_make_are_foreign() {
        let site = |site: &'static str| ("sec-fetch-site", site);
        let navigate = ("sec-fetch-mode", "navigate");
        let origin = |origin: &'static str| ("origin", origin);
        for (method, headers, foreign) in [
            ("GET", vec![], false),
            ("POST", vec![], false),
            ("POST", vec![origin("http://localhost:8090")], false),
            ("POST", vec![origin("http://localhost:8091"), site("same-site")], true),
            ("POST", vec![origin("https://evil.example"), site("cross-site"), navigate], true),
            ("POST", vec![origin("null")], true),
            ("GET", vec![origin("http://localhost:3000")], true),
            ("GET", vec![site("none"), navigate], false),
            ("GET", vec![site("same-origin")], false),
            ("GET", vec![site("cross-site"), navigate], false),
            ("GET", vec![site("cross-site"), ("sec-fetch-mode", "no-cors")], true),
            ("GET", vec![site("same-site"), ("sec-fetch-mode", "cors")], true),
            ("POST", vec![site("same-site"), navigate], true),
        ] {
            let found = request(method, "/console", &headers);
            assert_eq!(found.is_foreign(), foreign, "{method} {headers:?}");
        }
    }

    #[test]
    fn the_scheme_is_that_of_the_page() {
        for (headers, expected) in [
            (vec![], "http"),
            (vec![("origin", "https://localhost:8090")], "https"),
            (vec![("origin", "http://localhost:8090"), ("x-forwarded-proto", "https")], "http"),
            (vec![("origin", "null"), ("x-forwarded-proto", "https")], "https"),
            (vec![("x-forwarded-proto", "HTTPS, http")], "https"),
            (vec![("x-forwarded-proto", "http, https")], "http"),
        ] {
            assert_eq!(request("POST", "/console", &headers).scheme(), expected, "{headers:?}");
        }
    }

    #[test]
    fn json_is_for_those_who_ask_for_it() {
        for (uri, accept, expected) in [
            ("/console", "*/*", false),
            ("/console", "text/html,application/json;q=0.9", false),
            ("/console", "application/json", true),
            ("/console?format=json", "text/html", true),
            ("/console?format=html", "application/json", false),
        ] {
            assert_eq!(
                request("GET", uri, &[("accept", accept)]).wants_json(),
                expected,
                "{uri} {accept}"
            );
        }
    }
}
