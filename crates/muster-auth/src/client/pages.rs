//! The pages that browsers and issuers see: where people come back to, and who we say we are.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use muster_core::{backend::BoxFuture, credentials};

use super::{
    Client,
    documents::Ourselves,
    flows::{Ending, Return},
};

/// The pages of a client.
#[derive(Debug)]
pub struct Pages(pub(super) Arc<Client>);

impl credentials::WebPages for Pages {
    fn serves(&self, path: &str) -> bool {
        let options = &self.0.options;
        path == options.callback_path
            || (path == options.document_path && options.is_own_document())
    }

    fn respond(&self, request: Request<Bytes>, _: IpAddr) -> BoxFuture<'_, Response<Bytes>> {
        Box::pin(async move {
            let is_document = request.uri().path() != self.0.options.callback_path;
            if request.method() != Method::GET {
                return not_allowed();
            }
            match is_document {
                true => self.document(),
                false => {
                    let ending =
                        self.0.finish(read(request.uri().query().unwrap_or_default())).await;
                    page(&ending)
                }
            }
        })
    }
}

impl Pages {
    fn document(&self) -> Response<Bytes> {
        let options = &self.0.options;
        let (id, redirect) = (options.document_url(), options.callback_url());
        let ourselves = Ourselves {
            client_id: &id,
            client_name: super::NAME,
            client_uri: super::HOME,
            redirect_uris: [&redirect],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none",
            scope: &options.scopes,
            software_id: "giantswarm-muster",
            software_version: "1.0.0",
        };
        let body = serde_json::to_vec(&ourselves).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        let headers = response.headers_mut();
        let set = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "public, max-age=3600"),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        ];
        for (name, value) in set {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// What a person comes back with. Nothing may be said twice: who reads which one is anybody's guess.
fn read(query: &str) -> Return {
    let mut back = Return::default();
    let mut twice = false;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let place = match &*name {
            "state" => &mut back.state,
            "code" => &mut back.code,
            "error" => &mut back.error,
            "iss" => &mut back.issuer,
            _ => continue,
        };
        twice |= place.replace(value.into_owned()).is_some();
    }
    if twice { Return::default() } else { back }
}

fn page(ending: &Ending) -> Response<Bytes> {
    let (status, title, text) = match ending {
        Ending::In { server, whose, trouble } => {
            // The address may have come from somebody else, who has the login now.
            let whose = whose.as_ref().map(|whose| {
                format!(
                    " It is {whose} who uses this sign-in from now on; if that is not you, take it back at \
                     the provider."
                )
            });
            let end = match trouble {
                None => "You can close this window and go on.".to_owned(),
                Some(trouble) => {
                    format!("It could not be connected yet: {trouble}. Call core_auth_login again.")
                }
            };
            let whose = whose.unwrap_or_default();
            let text = format!("You are signed in to {server}.{whose} {end}");
            (StatusCode::OK, "Signed in", text)
        }
        Ending::Not(title, text) => (StatusCode::BAD_REQUEST, *title, text.clone()),
    };
    let (title, text) = (escaped(title), escaped(&text));
    let body = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:16px system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em}}\
         </style></head><body><h1>{title}</h1><p>{text}</p></body></html>"
    );
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let set = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn not_allowed() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"Method Not Allowed\n"));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escaped, page, read};
    use crate::client::flows::Ending;

    #[test]
    fn what_comes_back_is_read_once() {
        let back = read("code=a%20b&state=s&x=1");
        assert_eq!((back.code.as_deref(), back.state.as_deref()), (Some("a b"), Some("s")));
        assert!(read("code=a&code=b&state=s").state.is_none());
        assert!(read("").state.is_none());
    }

    #[test]
    fn pages_show_nothing_as_markup() {
        let server = "<script>alert(1)</script>".to_owned();
        let whose = Some("<b>Eve</b>".to_owned());
        let page = page(&Ending::In { server, whose, trouble: Some("'\"&".to_owned()) });
        let body = String::from_utf8_lossy(page.body()).into_owned();
        assert!(!body.contains("<script>") && !body.contains("<b>"), "{body}");
        assert!(body.contains("&lt;script&gt;") && body.contains("&#39;&quot;&amp;"), "{body}");
        assert_eq!(escaped("a"), "a");
    }
}
