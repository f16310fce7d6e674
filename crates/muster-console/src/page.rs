//! A page: its content, its JSON form, and the command that prints the same.

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
    Workflows,
    Services,
    Calls,
    Events,
    Policies,
    People,
    Settings,
}

/// An entry of the navigation: its section, name and path, and its icon as SVG path data on a 16 by 16 grid.
struct Entry(Section, &'static str, &'static str, &'static str);

/// The entries in groups: the overview, resources, activity and access.
const NAVIGATION: [&[Entry]; 4] = [
    &[Entry(Section::Overview, "Overview", "", "M2.5 13V9M6.2 13V3M9.8 13V6.5M13.5 13v-3")],
    &[
        Entry(
            Section::Servers,
            "Servers",
            "servers",
            "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1",
        ),
        Entry(Section::Tools, "Tools", "tools", "M2.5 4l4 4-4 4M8.5 12.5h5"),
        Entry(
            Section::Workflows,
            "Workflows",
            "workflows",
            "M5.5 3.5h-3v3h3zM13.5 9.5h-3v3h3zM5.5 5h3.2c1 0 1.8.8 1.8 1.8v2.7",
        ),
        Entry(Section::Services, "Services", "services", "M8 2.5v5M4.6 4.3a5 5 0 1 0 6.8 0"),
    ],
    &[
        Entry(
            Section::Calls,
            "Calls",
            "calls",
            "M3 5.5h9.5M10 3l2.5 2.5L10 8M13 10.5H3.5M6 8L3.5 10.5 6 13",
        ),
        Entry(Section::Events, "Events", "events", "M8 2.5v11M8 4.5h4.5M8 8H4.5M8 11.5h3"),
    ],
    &[
        Entry(
            Section::Policies,
            "Policies",
            "policies",
            "M8 2.3l5 1.9v3.6c0 3-2.1 5-5 6-2.9-1-5-3-5-6V4.2zM5.9 8l1.5 1.5 2.8-2.9",
        ),
        Entry(
            Section::People,
            "People and tokens",
            "people",
            "M6 7.7a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6zM1.9 13c.3-2.2 2-3.5 4.1-3.5s3.8 1.3 4.1 3.5M10.8 3.4a2.3 2.3 0 0 1 0 4.1M12 9.9c1.2.5 2 1.5 2.2 3.1",
        ),
        Entry(
            Section::Settings,
            "Settings",
            "settings",
            "M2.5 4.5h6M12 4.5h1.5M10.2 2.9v3.2M2.5 11.5H4M7.5 11.5h6M5.8 9.9v3.2",
        ),
    ],
];

/// The content security policy of every page: nothing inline, nothing from other origins.
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
    /// The page as JSON.
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

    /// A page with a message, outside all sections.
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

    /// Converts the page to HTML for a browser. `visitor` is the user, if one is logged in.
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
            .put(el("main").attr("id", "main").put(visitor.map(|_| stale())).put(body))
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

    /// Converts the page to JSON for a program.
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
    /// The CSRF token of forms.
    pub(crate) form_token: Option<&'a str>,
    /// The link to the same page as JSON.
    pub(crate) json: &'a str,
}

/// The heading of a page.
pub(crate) fn heading(title: &str) -> Element {
    el("div").class("heading").put(el("h1").put(title))
}

/// The link to the parent page.
pub(crate) fn crumb(name: &str, path: &str) -> Element {
    el("div").class("crumb").put(el("a").attr("href", link(&[path])).put(name))
}

/// A form that changes something. It contains the CSRF token.
pub(crate) fn form(action: &str, form_token: Option<&str>) -> Element {
    let token = el("input").attr("type", "hidden").attr("name", "form_token");
    let token = token.attr("value", form_token.unwrap_or_default());
    el("form").attr("method", "post").attr("action", action).put(token)
}

/// A decorative icon on a 16 by 16 grid. Its meaning is always given as text next to it.
fn icon(path: &'static str) -> Element {
    el("svg")
        .class("icon")
        .attr("viewBox", "0 0 16 16")
        .attr("aria-hidden", "true")
        .put(el("path").attr("d", path))
}

fn side(section: Option<Section>, visitor: Option<Visitor<'_>>) -> Element {
    let brand = el("a").class("brand").attr("href", ROOT);
    let brand = brand.put(icon("M3 12.5V4l5 5 5-5v8.5")).put("muster");
    let side = el("header").class("side").put(brand);
    let Some(visitor) = visitor else { return side };
    let entry = |Entry(known, name, path, drawn): &Entry| {
        let path = if path.is_empty() { ROOT.to_owned() } else { link(&[path]) };
        let entry = el("a").attr("href", path);
        let is_here = section == Some(*known);
        let entry = if is_here { entry.attr("aria-current", "page") } else { entry };
        el("li").put(entry.put(icon(drawn)).put(*name))
    };
    let groups =
        NAVIGATION.iter().map(|group| el("ul").put(group.iter().map(entry).collect::<Vec<_>>()));
    let leave = form(&link(&["logout"]), visitor.form_token);
    let leave = leave.put(el("button").class("plain").put("Log out"));
    let who = el("div").class("who").put(el("span").put(visitor.name)).put(leave);
    let nav = el("nav").attr("id", "menu").attr("aria-label", "Console");
    // On a narrow screen, the style sheet shows the navigation only while it is the target of this link.
    let menu = el("a").class("button menu").attr("href", "#menu").put("Menu");
    side.put(menu).put(nav.put(groups.collect::<Vec<_>>())).put(who)
}

/// The notice that the script shows while it cannot refresh the page.
fn stale() -> Element {
    let text = "This page is not up to date: the gateway does not answer, or your login has ended.";
    let notice = el("div").class("notice warn").attr("id", "stale").attr("role", "status");
    notice.flag("hidden", true).put(el("p").put(text))
}

/// The footer of a page: the command that prints the same, and the link to the JSON form.
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

/// A response that must not be framed, sniffed, embedded by other sites or cached.
pub(crate) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = muster_auth::page::response(status, content_type, body);
    for (name, value) in [
        // Forms need the referrer: without it, browsers send `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
