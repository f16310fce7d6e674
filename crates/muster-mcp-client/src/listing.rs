//! What a server offers, all pages of it.

use std::time::Duration;

use muster_core::json::{Raw, RawObject, raw};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::warn;

use super::{
    failure::Failure,
    peer::{Peer, Want},
};

/// A list with more pages than this has no end.
const PAGES: usize = 1000;

/// A list that servers may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) method: &'static str,
    /// What a server must be able to do for it.
    pub(super) capability: &'static str,
    /// Where the items are.
    pub(super) key: &'static str,
    /// What every item must have.
    pub(super) item: &'static str,
}

pub(super) const TOOLS: List =
    List { method: "tools/list", capability: "tools", key: "tools", item: "name" };
pub(super) const RESOURCES: List =
    List { method: "resources/list", capability: "resources", key: "resources", item: "uri" };
pub(super) const TEMPLATES: List = List {
    method: "resources/templates/list",
    capability: "resources",
    key: "resourceTemplates",
    item: "uriTemplate",
};
pub(super) const PROMPTS: List =
    List { method: "prompts/list", capability: "prompts", key: "prompts", item: "name" };

/// All items of a list, each as the server wrote it. A server that refuses to list something has
/// none of it, and an item that is none is left out: neither hides the rest.
pub(super) async fn all(peer: &Peer, list: List, limit: Duration) -> Result<Vec<Raw>, Failure> {
    let mut items = Vec::new();
    if !peer.about.can(list.capability) {
        return Ok(items);
    }
    let mut cursor: Option<Raw> = None;
    for _ in 0..PAGES {
        let page = peer
            .request(Want::own(list.method), |writing| writing.maybe("cursor", cursor.as_deref()));
        let page = match timeout(limit, page).await {
            Ok(Ok(page)) => page,
            Ok(Err(Failure::Refused { error, .. })) => {
                let reason = error.message;
                warn!(server = &*peer.inbox.name, "it refused `{}`: {reason}", list.method);
                return Ok(items);
            }
            Ok(Err(failure)) => return Err(failure),
            Err(_) => {
                let seconds = limit.as_secs();
                let what = format!("no answer to `{}` within {seconds} s", list.method);
                return Err(Failure::Lost(what));
            }
        };
        let page = RawObject::parse(&page).unwrap_or_default();
        take(peer, list, page.get(list.key), &mut items);
        // The empty text is a place like any other.
        let next = page.get("nextCursor").filter(|next| next.get() != "null");
        match next {
            Some(next) if cursor.as_deref().is_none_or(|last| last.get() != next.get()) => {
                cursor = Some(next.to_owned());
            }
            Some(_) | None => return Ok(items),
        }
    }
    warn!(server = &*peer.inbox.name, "`{}` has no end", list.method);
    Ok(items)
}

fn take(peer: &Peer, list: List, page: Option<&RawValue>, items: &mut Vec<Raw>) {
    let page: Option<Vec<&RawValue>> = page.and_then(|page| serde_json::from_str(page.get()).ok());
    for item in page.unwrap_or_default() {
        let named = RawObject::parse(item).and_then(|object| object.get_text(list.item));
        if named.is_some() {
            items.push(item.to_owned());
        } else {
            let (list, item) = (list.method, list.item);
            warn!(server = &*peer.inbox.name, "`{list}` has an item without `{item}`");
        }
    }
}

/// What a modern server is to give word of: the lists that it says may change.
pub(super) fn changes(peer: &Peer) -> Option<Raw> {
    let kinds = [
        ("tools.listChanged", "toolsListChanged"),
        ("resources.listChanged", "resourcesListChanged"),
        ("prompts.listChanged", "promptsListChanged"),
    ];
    let mut filter = RawObject::new();
    for (_, key) in kinds.into_iter().filter(|(capability, _)| peer.about.can(capability)) {
        filter.set_value(key, &true);
    }
    (!filter.is_empty()).then(|| filter.to_raw())
}

/// What a modern server is to give word of: one resource.
pub(super) fn changes_of(uri: &str) -> Raw {
    let mut filter = RawObject::new();
    filter.set("resourceSubscriptions", std::borrow::Cow::Owned(raw(&[uri])));
    filter.to_raw()
}
