//! People and tokens: who is logged in, and the tokens of clients that cannot log in.

use http::StatusCode;
use muster_api::{
    access::{BrowserInfo, CreatedToken, LoginInfo, SessionList, StaticTokenInfo},
    policy::PolicyInfo,
};
use muster_core::{call::Role, json::RawObject};
use serde::Serialize;
use serde_json::json;

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, form, heading},
    request::link,
    widgets::{cell, empty, labelled, live, notice, notice_of, number, prose, table, text, time},
};

/// The lifetimes that the form offers. No expiry is last, because a token that expires is the better choice.
const LIFETIMES: [(&str, &str); 5] =
    [("30d", "30 days"), ("12h", "12 hours"), ("52w", "a year"), ("7d", "a week"), ("", "never")];

/// The maximum number of rows of a table. The JSON form has all.
const MAX_ROWS: usize = 100;

/// The page as JSON.
#[derive(Serialize)]
struct PeopleView<'a> {
    sessions: &'a SessionList,
    tokens: &'a [StaticTokenInfo],
    /// The token that was just created.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<&'a CreatedToken>,
}

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    Ok(shown(cx, None, None).await?.into())
}

async fn shown(
    cx: PageContext<'_>,
    created: Option<&CreatedToken>,
    problem: Option<&str>,
) -> Result<Page, CoreError> {
    let sessions: SessionList = cx.gateway.reply("core_session_list", &json!({})).await?;
    let tokens: Vec<StaticTokenInfo> = cx.gateway.reply("core_token_list", &json!({})).await?;
    let policy: PolicyInfo = cx.gateway.reply("core_policy_get", &json!({})).await?;
    let view = PeopleView { sessions: &sessions, tokens: &tokens, created };
    let page = Page::new(Section::People, "People and tokens", &view);
    let page = page.command("muster session list; muster token list");
    let page = page
        .put(heading("People and tokens"))
        .put(notice_of(cx.request))
        .put(created.map(created_token_notice))
        .put(problem.map(|problem| notice("bad", problem)))
        .put(el("h2").put("People"))
        .put(
            live("people")
                .put(logins(cx, &sessions.logins))
                .put(more(sessions.logins.len(), "muster session list")),
        )
        .put(
            live("browsers")
                .put(browsers(cx, &sessions.browsers))
                .put(more(sessions.browsers.len(), "muster session list")),
        )
        .put(el("h2").put("Tokens"))
        .put(
            el("p")
                .class("lead")
                .put("For clients that cannot log in: jobs, scrapers, editors on other machines."),
        );
    let listed =
        live("tokens").put(token_table(cx, &tokens)).put(more(tokens.len(), "muster token list"));
    Ok(page.put(listed).put(draft(cx, &policy)))
}

/// A note with the number of omitted rows and the command that prints all of them.
fn more(rows: usize, command: &str) -> Option<Element> {
    let more = rows.checked_sub(MAX_ROWS).filter(|more| *more > 0)?;
    Some(el("p").class("muted").put(prose(&format!("and {more} more: `{command}`"))))
}

/// The notice with a token that was just created. It is never shown again.
fn created_token_notice(created: &CreatedToken) -> Element {
    let title =
        format!("The token `{}` was created. Copy it now: it cannot be shown again.", created.name);
    let pre = el("pre").attr("tabindex", "0").attr("aria-label", "Token");
    let copy = el("button").attr("type", "button").attr("data-copy", &created.token);
    let copy = copy.flag("hidden", true);
    el("div")
        .class("notice ok once")
        .attr("role", "status")
        .put(el("p").put(el("strong").put(prose(&title))))
        .put((pre.put(&created.token), copy.put("Copy")))
}

fn logins(cx: PageContext<'_>, logins: &[LoginInfo]) -> Element {
    if logins.is_empty() {
        return empty(
            "Nobody has logged in since the gateway started. Without `aggregator.oauth.server`, callers on this machine \
             need no login.",
        );
    }
    let rows = logins.iter().take(MAX_ROWS).map(|login| {
        let asked = form_urlencoded::Serializer::new(String::new())
            .append_pair("user", &login.user)
            .append_pair("groups", &login.groups.join(", "))
            .finish();
        let may = el("a")
            .attr("href", format!("{}?{asked}", link(&["policies"])))
            .put("what may they do?");
        let name =
            (!login.name.is_empty()).then(|| el("div").class("small muted").put(&login.name));
        vec![
            cell((el("b").put(&login.user), name)),
            cell(login.role.map(Role::as_str)),
            cell(login.groups.join(", ")),
            cell(time(&login.last_seen)),
            cell(login.requests.to_string()),
            cell(el("div").class("row").put((may, end(cx, &login.id)))),
        ]
    });
    let columns = [
        text("User"),
        text("Role"),
        text("Groups"),
        text("Last request"),
        number("Requests"),
        text("Actions"),
    ];
    table(&columns, rows.collect())
}

fn browsers(cx: PageContext<'_>, browsers: &[BrowserInfo]) -> Option<Html> {
    if browsers.is_empty() {
        return None;
    }
    let rows = browsers.iter().take(MAX_ROWS).map(|browser| {
        let place = if browser.local { "this machine" } else { "any machine" };
        vec![
            cell(time(&browser.began)),
            cell(time(&browser.ends)),
            cell(place),
            cell(end(cx, &browser.id)),
        ]
    });
    let columns = [text("Logged in"), text("Until"), text("Valid from"), text("Actions")];
    let listed = table(&columns, rows.collect());
    Some(Html::default().put(el("h3").put("Browsers at this console")).put(listed))
}

fn end(cx: PageContext<'_>, id: &str) -> Element {
    let form = form(&link(&["people", "sessions", id, "end"]), cx.form_token);
    form.put(el("button").class("small").put("Log out"))
}

fn token_table(cx: PageContext<'_>, tokens: &[StaticTokenInfo]) -> Element {
    if tokens.is_empty() {
        return empty("There are no tokens.");
    }
    let rows = tokens.iter().take(MAX_ROWS).map(|token| {
        let expires: Html = match (&token.expires, token.expired) {
            (None, _) => cell("never"),
            (Some(_), true) => cell(el("span").class("chip bad").put("expired")),
            (Some(at), false) => cell(time(at)),
        };
        let used = token.last_used.as_ref();
        let used = used.map_or_else(|| el("span").class("muted").put("never"), |at| time(at));
        let revoke = form(&link(&["people", "tokens", &token.name, "revoke"]), cx.form_token);
        let revoke = revoke.put(el("button").class("small danger").put("Revoke"));
        vec![
            cell(el("b").put(&token.name)),
            cell(token.role.map(Role::as_str)),
            cell(token.toolset.as_deref().unwrap_or_default()),
            cell(time(&token.created)),
            cell(expires),
            cell(used),
            cell(revoke),
        ]
    });
    let columns = [
        text("Name"),
        text("Role"),
        text("Toolset"),
        text("Created"),
        text("Expires"),
        text("Last used"),
        text("Actions"),
    ];
    table(&columns, rows.collect())
}

/// The form of a new token.
fn draft(cx: PageContext<'_>, policy: &PolicyInfo) -> Element {
    let name = el("input")
        .attr("type", "text")
        .attr("id", "name")
        .attr("name", "name")
        .attr("autocomplete", "off")
        .attr("placeholder", "ci")
        .flag("required", true)
        .attr("value", cx.request.field("name").unwrap_or_default());
    let options = |name: &'static str, choices: Vec<(String, String)>| {
        let chosen = cx.request.field(name);
        let choices = choices.into_iter().map(|(value, label)| {
            el("option")
                .attr("value", &value)
                .flag("selected", chosen == Some(value.as_str()))
                .put(label)
        });
        el("select").attr("id", name).attr("name", name).put(choices.collect::<Vec<_>>())
    };
    let lifetimes =
        LIFETIMES.iter().map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
    let all = std::iter::once((String::new(), "every tool that the policy allows".to_owned()));
    let sets = policy.toolsets.iter().map(|set| (set.name.clone(), set.name.clone()));
    let operator = el("input").attr("type", "checkbox").attr("name", "operator").attr("value", "1");
    let operator = el("label").class("check").put(operator).put(
        " Its callers are operators: they may change the gateway, and so run programs as its user",
    );
    let fields = el("div")
        .class("grid")
        .put(labelled("name", "Name", name))
        .put(labelled("expires", "Expires after", options("expires", lifetimes.collect())))
        .put(labelled("toolset", "Limited to", options("toolset", all.chain(sets).collect())));
    let form = form(&link(&["people", "tokens"]), cx.form_token).class("card");
    form.put(el("h3").put("Create a token")).put((
        fields,
        operator,
        el("button").class("primary").put("Create the token"),
    ))
}

pub(super) async fn create(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let mut wanted = RawObject::new();
    for name in ["name", "expires", "toolset"] {
        let value = cx.request.field(name).map(str::trim).filter(|text| !text.is_empty());
        if let Some(value) = value {
            wanted.set_value(name, value);
        }
    }
    if cx.request.field("operator").is_some() {
        wanted.set_value("operator", &true);
    }
    let created: Result<CreatedToken, _> = cx.gateway.reply("core_token_create", &wanted).await;
    Ok(match created {
        Ok(created) => {
            let page = shown(cx, Some(&created), None).await;
            page.unwrap_or_else(|error| created_token_page(&created, &error)).into()
        }
        Err(error) => {
            let page = shown(cx, None, Some(&error.text)).await?;
            Page { status: StatusCode::UNPROCESSABLE_ENTITY, ..page }.into()
        }
    })
}

/// The page with a token that was just created and the error that prevents showing the lists. The token must be shown
/// anyway, because it cannot be shown again.
fn created_token_page(created: &CreatedToken, error: &CoreError) -> Page {
    Page::new(Section::People, "People and tokens", &json!({"created": created}))
        .command("muster session list; muster token list")
        .put(heading("People and tokens"))
        .put(created_token_notice(created))
        .put(notice("bad", &error.text))
}

pub(super) async fn revoke(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    cx.gateway.core("core_token_revoke", &json!({"name": name})).await?;
    Ok(PageReply::Done(format!("{}?did=revoked", link(&["people"]))))
}

pub(super) async fn end_session(cx: PageContext<'_>, id: &str) -> Result<PageReply, CoreError> {
    cx.gateway.core("core_session_end", &json!({"id": id})).await?;
    Ok(PageReply::Done(format!("{}?did=logged-out", link(&["people"]))))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use muster_api::access::CreatedToken;

    use super::{MAX_ROWS, created_token_page, more};
    use crate::{gateway::CoreError, html::Html};

    #[test]
    fn a_created_token_is_shown_whatever_else_fails() {
        let created = CreatedToken { name: "ci".to_owned(), token: "mst_1".to_owned() };
        let text = "the storage cannot be reached".to_owned();
        let error = CoreError { status: StatusCode::CONFLICT, text };
        let page = created_token_page(&created, &error);
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(page.data.get(), r#"{"created":{"name":"ci","token":"mst_1"}}"#);
        let body = page.body.into_string();
        assert!(body.contains("mst_1") && body.contains("the storage cannot be reached"), "{body}");
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        assert!(more(MAX_ROWS, "muster token list").is_none());
        let shown = Html::from(more(MAX_ROWS + 7, "muster token list").unwrap()).into_string();
        assert!(shown.contains("and 7 more: <code>muster token list</code>"), "{shown}");
    }
}
