//! The pages, one file each.

mod overview;
mod verdicts;

use http::Method;
use muster_core::text::shell_quoted as quoted;

use crate::{PageContext, PageReply, gateway::CoreError};

/// The page at a path.
pub(crate) async fn page(cx: PageContext<'_>, path: &[&str]) -> PageReply {
    let is_change = cx.request.method == Method::POST;
    let page = match (is_change, path) {
        (false, []) => overview::page(cx).await,
        _ => Err(CoreError::no_page()),
    };
    page.unwrap_or_else(|error| error.into_page().into())
}
