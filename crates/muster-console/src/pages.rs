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
    let is_change = cx.request.method == Method::POST;
    let page = match (is_change, path) {
        (false, []) => overview::page(cx).await,
        (false, ["servers"]) => servers::list(cx).await,
        (false, ["servers", "new"]) => servers::new(cx).await,
        (true, ["servers", "new"]) => servers::create(cx).await,
        (false, ["servers", name]) => servers::one(cx, name).await,
        (true, ["servers", name, action]) => servers::act(cx, name, action).await,
        (false, ["tools"]) => tools::list(cx).await,
        (false, ["tools", name]) => tools::one(cx, name).await,
        (true, ["tools", name]) => tools::call(cx, name).await,
        (false, ["calls"]) => calls::list(cx).await,
        (false, ["calls", id]) => calls::one(cx, id).await,
        (false, ["workflows"]) => workflows::list(cx).await,
        (false, ["workflows", name]) => workflows::one(cx, name).await,
        (false, ["runs", id]) => workflows::run(cx, id).await,
        (false, ["services"]) => services::list(cx).await,
        (false, ["services", name]) => services::one(cx, name).await,
        (true, ["services", name, action]) => services::act(cx, name, action).await,
        (false, ["events"]) => events::page(cx).await,
        (false, ["settings"]) => settings::page(cx).await,
        (true, ["settings", "reload"]) => settings::reload(cx).await,
        _ => Err(CoreError::no_page()),
    };
    page.unwrap_or_else(|error| error.into_page().into())
}
