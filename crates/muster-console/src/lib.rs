//! The console: web pages for operators, at `/console` of the gateway.
//!
//! The console is one more surface: pages show the replies of core tools and call tools as their user, through the same
//! call path as an agent. `muster-auth` authenticates the user.
//!
//! **Invariant:** this crate has no way of its own to call a tool or to admit a caller. A request that changes something
//! must come from a form of the console: same origin, with the session's CSRF token.

mod chart;
mod gateway;
mod html;
mod page;
mod pages;
mod request;
mod schema_form;
mod tool_result;
mod widgets;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use muster_auth::{
    access::browser_sessions::{BrowserCaller, BrowserSessions},
    random,
};
use muster_core::{
    backend::{BoxFuture, ToolCaller},
    call::Caller,
    credentials::{MAX_FORM, Peer, WebPages},
    json::raw,
    request::RequestHandler,
};
use serde::Serialize;
use serde_json::value::RawValue;

use self::{
    gateway::Gateway,
    html::el,
    page::{Page, Visitor, response, see_other},
    request::{PageRequest, ROOT, link},
};

/// The maximum length of an operator's form in bytes. Long forms are pasted configurations and the steps of workflows.
const MAX_OPERATOR_FORM: usize = 1024 * 1024;

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");

/// The pages of the console.
#[derive(Debug)]
pub struct Console {
    sessions: Arc<BrowserSessions>,
    ports: ConsolePorts,
    curl_line: CurlLine,
}

/// The gateway behind the console.
#[derive(Debug)]
pub struct ConsolePorts {
    /// The call path of pages that only read. It is separate, so that pages that refresh themselves do not fill the
    /// history.
    pub reads: Arc<dyn ToolCaller>,
    /// The call path of changes.
    pub changes: Arc<dyn ToolCaller>,
    /// The surface with meta-tools, as agents see it.
    pub surface: Arc<dyn RequestHandler>,
    /// The checks of the setup.
    pub checks: Arc<dyn SetupChecks>,
}

/// The checks of `muster doctor` that examine settings, tokens and definitions.
pub trait SetupChecks: fmt::Debug + Send + Sync {
    /// What they found, at most a few seconds ago.
    fn findings(&self) -> BoxFuture<'_, Arc<[SetupFinding]>>;
}

/// A finding of a check of the setup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupFinding {
    /// Whether something does not work, and not only may be a problem.
    pub is_bad: bool,
    /// The server, or the file relative to the configuration directory.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// How to fix it; empty if there is no known fix.
    pub fix: String,
}

/// Formats a call as a `curl` command, from the URL of the endpoint, the tool of the surface and its arguments.
pub type CurlLine = fn(&str, &str, &RawValue) -> String;

/// The context of a request: everything that a page is made from.
#[derive(Clone, Copy)]
pub(crate) struct PageContext<'a> {
    pub(crate) gateway: Gateway<'a>,
    pub(crate) request: &'a PageRequest,
    pub(crate) form_token: Option<&'a str>,
    pub(crate) curl_line: CurlLine,
    pub(crate) checks: &'a dyn SetupChecks,
}

impl fmt::Debug for PageContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageContext").field("request", self.request).finish_non_exhaustive()
    }
}

/// The reply to a request of an operator.
pub(crate) enum PageReply {
    Page(Box<Page>),
    /// A change was made. Redirects to the page at this path.
    Done(String),
}

impl From<Page> for PageReply {
    fn from(page: Page) -> Self {
        Self::Page(Box::new(page))
    }
}

impl Console {
    /// The console of a gateway.
    pub const fn new(
        sessions: Arc<BrowserSessions>,
        ports: ConsolePorts,
        curl_line: CurlLine,
    ) -> Self {
        Self { sessions, ports, curl_line }
    }

    async fn answer(&self, request: &PageRequest, peer: &Peer) -> Response<Bytes> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match (&request.method, path.as_slice()) {
            (&Method::GET, ["console.css"]) => return asset("text/css; charset=utf-8", STYLE),
            (&Method::GET, ["console.js"]) => {
                return asset("text/javascript; charset=utf-8", SCRIPT);
            }
            _ if request.is_foreign() => {
                let text = "another web page made your browser send this request";
                return Page::message(StatusCode::FORBIDDEN, "Refused", text).into_html(None);
            }
            (&Method::POST, ["login"]) => return self.begin(request, peer).await,
            (&Method::GET, ["login"]) => return self.log_in(request, peer).await,
            (&Method::GET | &Method::POST, _) => (),
            _ => {
                let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
                refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
                return refused;
            }
        }
        let BrowserCaller { caller, form_token } =
            match self.sessions.admit(&request.headers, peer).await {
                Ok(admitted) => admitted,
                Err(refusal) => return refused(request, &refusal),
            };
        let form_token = form_token.as_ref().map(|token| token.reveal().as_str());
        if request.method == Method::POST {
            let sent = request.field("form_token").unwrap_or_default();
            if !form_token.is_none_or(|token| random::same(token, sent)) {
                let text =
                    "the form is from another session: go back, load the page again and repeat";
                return Page::message(StatusCode::FORBIDDEN, "Refused", text).into_html(None);
            }
            if path == ["logout"] {
                let cookie = match self.sessions.end(&request.headers, peer).await {
                    Ok(cookie) => cookie,
                    Err(refusal) => return refused(request, &refusal),
                };
                let text = "open the console again with `muster console`";
                return with_cookie(
                    Page::message(StatusCode::OK, "Logged out", text).into_html(None),
                    &cookie,
                );
            }
        }
        let ports = &self.ports;
        let tools = if request.method == Method::POST { &ports.changes } else { &ports.reads };
        let gateway = Gateway { tools: &**tools, surface: &*ports.surface, caller: &caller };
        match pages::page(
            PageContext {
                gateway,
                request,
                form_token,
                curl_line: self.curl_line,
                checks: &*ports.checks,
            },
            &path,
        )
        .await
        {
            PageReply::Done(path) => see_other(&path),
            PageReply::Page(page) if request.wants_json() => page.into_json(),
            PageReply::Page(page) => {
                let (name, json) = (name(&caller), request.json_link());
                page.into_html(Some(Visitor { name, form_token, json: &json }))
            }
        }
    }

    /// Replies to an operator's command with the path that logs a browser in.
    async fn begin(&self, request: &PageRequest, peer: &Peer) -> Response<Bytes> {
        #[derive(Serialize)]
        struct Begun {
            path: String,
        }
        match self.sessions.begin(&request.headers, peer).await {
            Ok(code) => {
                let path = format!("{}?code={}", link(&["login"]), code.reveal());
                let text: Box<str> = raw(&Begun { path }).into();
                response(StatusCode::OK, "application/json", String::from(text))
            }
            Err(refusal) => refusal,
        }
    }

    async fn log_in(&self, request: &PageRequest, peer: &Peer) -> Response<Bytes> {
        let code = request.query("code").unwrap_or_default();
        match self.sessions.redeem(code, &request.headers, peer).await {
            Ok(Some(cookie)) => with_cookie(see_other(ROOT), &cookie),
            Err(refusal) => refused(request, &refusal),
            Ok(None) => {
                let text = "this link was used or is too old; `muster console` makes another";
                Page::message(StatusCode::FORBIDDEN, "Not logged in", text).into_html(None)
            }
        }
    }
}

impl WebPages for Console {
    fn serves(&self, path: &str) -> bool {
        path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn max_body<'a>(
        &'a self,
        head: &'a http::request::Parts,
        peer: &'a Peer,
    ) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            let length = head.headers.get(header::CONTENT_LENGTH);
            let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
            // Do not authenticate for short forms, which are most: `respond` does so anyway.
            if length.is_none_or(|length| length <= MAX_FORM) {
                return MAX_FORM;
            }
            match self.sessions.admit(&head.headers, peer).await {
                Ok(_) => MAX_OPERATOR_FORM,
                Err(_) => MAX_FORM,
            }
        })
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move { self.answer(&PageRequest::new(&request), peer).await })
    }
}

/// The display name of a user.
fn name(caller: &Caller) -> &str {
    let principal = caller.principal.as_deref();
    let email = principal.and_then(|principal| principal.email.as_deref());
    email.or(principal.map(|principal| &*principal.subject)).unwrap_or("Operator on this machine")
}

/// The response to a caller that is not an operator.
fn refused(request: &PageRequest, refusal: &Response<Bytes>) -> Response<Bytes> {
    let kind = refusal.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let reason = match kind {
        Some(kind) if kind.starts_with("text/plain") => String::from_utf8_lossy(refusal.body()),
        _ => "log in as an operator: this opens the console with your login".into(),
    };
    let page = match refusal.status() {
        status @ StatusCode::SERVICE_UNAVAILABLE => Page::message(status, "Not available", &reason),
        status => {
            let page = Page::message(status, "For operators", &reason);
            page.put(el("pre").put("muster console"))
        }
    };
    let mut response = if request.wants_json() { page.into_json() } else { page.into_html(None) };
    if let Some(challenge) = refusal.headers().get(header::WWW_AUTHENTICATE) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    response
}

fn with_cookie(mut response: Response<Bytes>, cookie: &str) -> Response<Bytes> {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn asset(content_type: &'static str, text: &'static str) -> Response<Bytes> {
    let mut response = response(StatusCode::OK, content_type, text);
    let kept = HeaderValue::from_static("private, max-age=60");
    response.headers_mut().insert(header::CACHE_CONTROL, kept);
    response
}
