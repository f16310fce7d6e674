//! HTML pages, with the headers that protect them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use muster_core::markup::push_escaped;

use crate::text::neutralized;

/// A page with a title and a paragraph of plain text.
///
/// ```
/// let page = muster_auth::page::message(http::StatusCode::OK, "Signed in", "<you> may close it");
/// assert!(page.body().windows(11).any(|part| part == b"&lt;you&gt;"));
/// ```
pub fn message(status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
    html(status, &document(title, &format!("<p>{}</p>", escape(text))))
}

/// Redirects a browser.
pub(crate) fn redirect(status: StatusCode, url: &str) -> Response<Bytes> {
    let mut found = response(status, "text/plain; charset=utf-8", "");
    if let Ok(url) = HeaderValue::from_str(url) {
        found.headers_mut().insert(header::LOCATION, url);
    }
    found
}

/// A complete HTML document with the markup of its body.
pub(crate) fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>muster: {title}</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}}\
         dd{{margin:0 0 .5rem;overflow-wrap:anywhere}}dt{{color:#555}}button{{font:inherit;padding:.4rem 1.2rem}}\
         @media(prefers-color-scheme:dark){{body{{background:#111;color:#eee}}dt{{color:#aaa}}}}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>"
    )
}

/// A response that a browser shows as a page.
pub(crate) fn html(status: StatusCode, document: &str) -> Response<Bytes> {
    let mut response = response(status, "text/html; charset=utf-8", document.to_owned());
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// A response that must not be cached, framed, sniffed or named as a referrer.
pub fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Escapes text for a page. Characters that hide or reorder text are made visible, so that a client
/// cannot disguise its name or its redirect URI.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_escaped(&mut out, neutralized(c));
    }
    out
}
