//! A page: what it shows, the same as JSON, and the command that prints it.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use muster_core::json::{Raw, raw};
use serde::Serialize;

use crate::{
    html::{Content, Element, Html, el},
    request::{ROOT, link},
};

/// The parts of the console, in the order of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Servers,
    Tools,
    Calls,
    Workflows,
    Services,
    Events,
    Settings,
}

/// The sections with their names and paths.
const SECTIONS: &[(Section, &str, &str)] = &[
    (Section::Overview, "Overview", ""),
    (Section::Servers, "Servers", "servers"),
    (Section::Tools, "Tools", "tools"),
    (Section::Calls, "Calls", "calls"),
    (Section::Workflows, "Workflows", "workflows"),
    (Section::Services, "Services", "services"),
    (Section::Events, "Events", "events"),
    (Section::Settings, "Settings", "settings"),
];

/// The policy of every page: nothing inline, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The icon of the pages.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
    %3Crect width='16' height='16' rx='4' fill='%230d5c50'/%3E%3Cpath d='M4 11V6l4 4 4-4v5' fill='none' \
    stroke='white' stroke-width='1.6'/%3E%3C/svg%3E";

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) section: Option<Section>,
    pub(crate) title: String,
    /// The page as a value.
    pub(crate) data: Raw,
    /// The command that prints the same.
    pub(crate) command: Option<String>,
    pub(crate) body: Html,
}

impl Page {
    /// A page of a section.
    pub(crate) fn new(section: Section, title: &str, data: &impl Serialize) -> Self {
        Self {
            status: StatusCode::OK,
            section: Some(section),
            title: title.to_owned(),
            data: raw(data),
            command: None,
            body: Html::default(),
        }
    }

    /// A page with a sentence, in no section.
    pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> Self {
        #[derive(Serialize)]
        struct Message<'a> {
            error: &'a str,
        }
        let body = Html::default().put(heading(title)).put(el("p").class("lead").put(text));
        Self {
            status,
            section: None,
            title: title.to_owned(),
            data: raw(&Message { error: text }),
            command: None,
            body,
        }
    }

    /// Sets the command that prints the same.
    #[must_use]
    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Appends content.
    #[must_use]
    pub(crate) fn put(mut self, content: impl Content) -> Self {
        self.body = self.body.put(content);
        self
    }

    /// The page for a browser. `visitor` is the user and the token of forms.
    pub(crate) fn into_html(self, visitor: Option<Visitor<'_>>) -> Response<Bytes> {
        let Self { status, section, title, command, body, .. } = self;
        let head = el("head")
            .put(el("meta").attr("charset", "utf-8"))
            .put(
                el("meta")
                    .attr("name", "viewport")
                    .attr("content", "width=device-width, initial-scale=1"),
            )
            .put(el("title").put(format!("{title} · muster")))
            .put(el("link").attr("rel", "icon").attr("href", ICON))
            .put(el("link").attr("rel", "stylesheet").attr("href", link(&["console.css"])))
            .put(el("script").attr("src", link(&["console.js"])).flag("defer", true));
        let content = el("div")
            .class("content")
            .put(el("main").attr("id", "main").put(body))
            .put(command.zip(visitor).map(|(command, visitor)| same(&command, visitor.json)));
        let body = el("body")
            .put(el("a").class("skip").attr("href", "#main").put("Skip to the content"))
            .put(side(section, visitor))
            .put(content);
        let document = Html::from(el("html").attr("lang", "en").put(head).put(body)).into_string();
        let mut response =
            response(status, "text/html; charset=utf-8", format!("<!doctype html>{document}"));
        let policy = HeaderValue::from_static(POLICY);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        response
    }

    /// The page for a program.
    pub(crate) fn into_json(self) -> Response<Bytes> {
        let text: Box<str> = self.data.into();
        response(self.status, "application/json", String::from(text))
    }
}

/// The user of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor<'a> {
    /// The name of the user.
    pub(crate) name: &'a str,
    /// The token of forms.
    pub(crate) form_token: Option<&'a str>,
    /// The link to the same page as JSON.
    pub(crate) json: &'a str,
}

/// The top of a page.
pub(crate) fn heading(title: &str) -> Element {
    el("div").class("heading").put(el("h1").put(title))
}

/// A form that changes something.
pub(crate) fn form(action: &str, form_token: Option<&str>) -> Element {
    let token = el("input").attr("type", "hidden").attr("name", "form_token");
    let token = token.attr("value", form_token.unwrap_or_default());
    el("form").attr("method", "post").attr("action", action).put(token)
}

fn side(section: Option<Section>, visitor: Option<Visitor<'_>>) -> Element {
    let brand = el("a").class("brand").attr("href", ROOT).put("muster");
    let side = el("header").class("side").put(brand);
    let Some(visitor) = visitor else { return side };
    let links = SECTIONS.iter().map(|(known, name, path)| {
        let path = if path.is_empty() { ROOT.to_owned() } else { link(&[path]) };
        let entry = el("a").attr("href", path);
        let entry =
            if section == Some(*known) { entry.attr("aria-current", "page") } else { entry };
        entry.put(*name)
    });
    let leave = form(&link(&["logout"]), visitor.form_token);
    let leave = leave.put(el("button").class("plain").put("Log out"));
    let who = el("div").class("who").put(el("span").put(visitor.name)).put(leave);
    side.put(el("nav").attr("aria-label", "Console").put(links.collect::<Vec<_>>())).put(who)
}

/// The same page by a command and as JSON.
fn same(command: &str, json: &str) -> Element {
    let copy = el("button").attr("type", "button").attr("data-copy", command).flag("hidden", true);
    let json = el("a").attr("href", json).put("JSON");
    let row = el("div").class("row").put(el("code").put(command)).put(copy.put("Copy")).put(json);
    el("footer").class("same").put(row)
}

/// A redirect to a page after a change.
pub(crate) fn see_other(path: &str) -> Response<Bytes> {
    let mut found = response(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(path) = HeaderValue::from_str(path) {
        found.headers_mut().insert(header::LOCATION, path);
    }
    found
}

/// A response that is neither framed, sniffed, embedded by other sites nor kept.
pub(crate) fn response(
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
        // Forms need it: without a referrer, browsers say `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
