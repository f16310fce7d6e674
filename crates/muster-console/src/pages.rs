//! The pages, one file each.

mod calls;
mod events;
mod overview;
mod servers;
mod services;
mod settings;
mod tools;
mod verdicts;
mod workflows;

use http::Method;
use muster_core::text::shell_quoted as quoted;

use crate::{PageContext, PageReply, gateway::CoreError};

/// The page at a path.
pub(crate) async fn page(cx: PageContext<'_>, path: &[&str]) -> PageReply {
    let page = match cx.request.method == Method::POST {
        true => changed(cx, path).await,
        false => shown(cx, path).await,
    };
    page.unwrap_or_else(|error| error.into_page().into())
}

/// The pages that only show something.
async fn shown(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        [] => overview::page(cx).await,
        ["servers"] => servers::list(cx).await,
        ["servers", "new"] => servers::new(cx).await,
        ["servers", name] => servers::one(cx, name).await,
        ["tools"] => tools::list(cx).await,
        ["tools", name] => tools::one(cx, name).await,
        ["calls"] => calls::list(cx).await,
        ["calls", id] => calls::one(cx, id).await,
        ["workflows"] => workflows::list(cx).await,
        ["workflows", name] => workflows::one(cx, name).await,
        ["runs", id] => workflows::run(cx, id).await,
        ["services"] => services::list(cx).await,
        ["services", name] => services::one(cx, name).await,
        ["events"] => events::page(cx).await,
        ["settings"] => settings::page(cx).await,
        _ => Err(CoreError::no_page()),
    }
}

/// The pages after an action.
async fn changed(cx: PageContext<'_>, path: &[&str]) -> Result<PageReply, CoreError> {
    match path {
        ["servers", "new"] => servers::create(cx).await,
        ["servers", name, action] => servers::act(cx, name, action).await,
        ["tools", name] => tools::call(cx, name).await,
        ["services", name, action] => services::act(cx, name, action).await,
        ["settings", "reload"] => settings::reload(cx).await,
        _ => Err(CoreError::no_page()),
    }
}
