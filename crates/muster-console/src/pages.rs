//! The pages, one file each.

mod calls;
mod events;
mod import;
mod overview;
mod people;
mod policies;
mod servers;
mod services;
mod settings;
mod tools;
mod verdicts;
mod workflow_draft;
mod workflows;

use http::Method;
use muster_core::text::shell_quoted as quoted;

use crate::{PageContext, PageReply, gateway::CoreError};

/// Dispatches a request to the page at its path.
pub(crate) async fn page(cx: PageContext<'_>, path: &[&str]) -> PageReply {
    let page = match cx.request.method == Method::POST {
        true => changed(cx, path).await,
        false => shown(cx, path).await,
    };
    page.unwrap_or_else(|error| error.into_page().into())
}

/// The pages that only read. Forms of new definitions are below `-`, so that their paths cannot hide a definition of
/// the same name.
async fn shown(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        [] => overview::page(cx).await,
        ["servers", rest @ ..] => shown_server(cx, rest).await,
        ["tools"] => tools::list(cx).await,
        ["tools", name] => tools::one(cx, name).await,
        ["calls"] => calls::list(cx).await,
        ["calls", id] => calls::one(cx, id).await,
        ["workflows", rest @ ..] => shown_workflow(cx, rest).await,
        ["runs", id] => workflows::run(cx, id).await,
        ["services"] => services::list(cx).await,
        ["services", name] => services::one(cx, name).await,
        ["events"] => events::page(cx).await,
        ["policies"] => policies::page(cx).await,
        // A form of the page posts to the second path, so a reload may request it.
        ["people"] | ["people", "tokens"] => people::page(cx).await,
        ["settings"] => settings::page(cx).await,
        _ => Err(CoreError::no_page()),
    }
}

async fn shown_server(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        [] => servers::list(cx).await,
        ["-", "new"] => servers::new(cx).await,
        ["-", "import"] => Ok(import::page(cx)),
        // A form posts to the second path, so a reload may request it.
        [name] | [name, "login"] => servers::one(cx, name).await,
        _ => Err(CoreError::no_page()),
    }
}

async fn shown_workflow(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        [] => workflows::list(cx).await,
        ["-", "new"] => workflow_draft::page(cx).await,
        [name] => workflows::one(cx, name).await,
        _ => Err(CoreError::no_page()),
    }
}

/// Carries out the action of a form and returns the resulting page.
async fn changed(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        ["servers", "-", "new"] => servers::create(cx).await,
        ["servers", "-", "import"] => import::import(cx).await,
        ["servers", name, action] => servers::act(cx, name, action).await,
        ["tools", name] => tools::call(cx, name).await,
        ["services", name, action] => services::act(cx, name, action).await,
        ["workflows", "-", "new"] => workflow_draft::create(cx).await,
        ["people", "tokens"] => people::create(cx).await,
        ["people", "tokens", name, "revoke"] => people::revoke(cx, name).await,
        ["people", "sessions", id, "end"] => people::end_session(cx, id).await,
        ["settings", "reload"] => settings::reload(cx).await,
        _ => Err(CoreError::no_page()),
    }
}
