//! Lists what an upstream offers, page by page.

use std::{borrow::Cow, time::Duration};

use muster_core::json::{Raw, RawObject, raw};
use muster_mcp::version::SERVER_INFO_KEY;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::warn;

use crate::{
    error::TransportError,
    peer::{OutgoingRequest, Peer},
};

/// A list with more pages is considered endless.
const MAX_PAGES: usize = 1000;

/// A list that servers may offer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) method: &'static str,
    /// The capability that offers it.
    pub(crate) capability: &'static str,
    /// The member that holds the items.
    pub(crate) key: &'static str,
    /// The member that every item must have.
    pub(crate) required: &'static str,
}

pub(crate) const TOOLS: List =
    List { method: "tools/list", capability: "tools", key: "tools", required: "name" };
pub(crate) const RESOURCES: List =
    List { method: "resources/list", capability: "resources", key: "resources", required: "uri" };
pub(crate) const TEMPLATES: List = List {
    method: "resources/templates/list",
    capability: "resources",
    key: "resourceTemplates",
    required: "uriTemplate",
};
pub(crate) const PROMPTS: List =
    List { method: "prompts/list", capability: "prompts", key: "prompts", required: "name" };

/// A whole list.
#[derive(Debug, Default)]
pub(crate) struct ListedItems {
    /// The items, each as written.
    pub(crate) items: Vec<Raw>,
    /// The members of the result besides the items and those of the protocol; the last page wins.
    beside: RawObject<'static>,
}

impl ListedItems {
    /// The members besides the items: an object; `None` if the server sent none.
    pub(crate) fn members(&self) -> Option<Raw> {
        (!self.beside.is_empty()).then(|| self.beside.to_raw())
    }

    fn add_members(&mut self, page: &RawObject<'_>, list: List) {
        const PROTOCOL: [&str; 4] = ["nextCursor", "resultType", "ttlMs", "cacheScope"];
        for (key, value) in page.iter() {
            let value = match key {
                "_meta" => without_server_info(value),
                _ if key == list.key || PROTOCOL.contains(&key) => None,
                _ => Some(value.to_owned()),
            };
            if let Some(value) = value {
                self.beside.set(key.to_owned(), Cow::Owned(value));
            }
        }
    }
}

/// The `_meta` of a result without the server's name, which belongs to the protocol.
fn without_server_info(meta: &RawValue) -> Option<Raw> {
    let Some(mut object) = RawObject::parse(meta) else { return Some(meta.to_owned()) };
    if object.get(SERVER_INFO_KEY).is_none() {
        return Some(meta.to_owned());
    }
    object.remove(SERVER_INFO_KEY);
    (!object.is_empty()).then(|| object.to_raw())
}

/// Returns all items of a list, each as written. A list that the server refuses is empty, and a malformed item is
/// omitted, so that neither hides the rest.
pub(crate) async fn all(
    peer: &Peer,
    list: List,
    page_timeout: Duration,
) -> Result<ListedItems, TransportError> {
    let mut listed = ListedItems::default();
    if !peer.profile.has_capability(list.capability) {
        return Ok(listed);
    }
    let mut cursor: Option<Raw> = None;
    for _ in 0..MAX_PAGES {
        let page = peer.request(OutgoingRequest::own(list.method), |writer| {
            writer.maybe("cursor", cursor.as_deref())
        });
        let page = match timeout(page_timeout, page).await {
            Ok(Ok(page)) => page,
            Ok(Err(TransportError::Refused { error, .. })) => {
                let reason = error.message;
                warn!(server = &*peer.router.name, "it refused `{}`: {reason}", list.method);
                return Ok(listed);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let seconds = page_timeout.as_secs();
                let text = format!("no answer to `{}` within {seconds} s", list.method);
                return Err(TransportError::Lost(text));
            }
        };
        let page = RawObject::parse(&page).unwrap_or_default();
        add_items(peer, list, page.get(list.key), &mut listed.items);
        listed.add_members(&page, list);
        // The empty string is a valid cursor.
        let next = page.get("nextCursor").filter(|next| next.get() != "null");
        match next {
            Some(next) if cursor.as_deref().is_none_or(|last| last.get() != next.get()) => {
                cursor = Some(next.to_owned());
            }
            Some(_) | None => return Ok(listed),
        }
    }
    warn!(server = &*peer.router.name, "`{}` does not end", list.method);
    Ok(listed)
}

fn add_items(peer: &Peer, list: List, page: Option<&RawValue>, items: &mut Vec<Raw>) {
    let page: Option<Vec<&RawValue>> = page.and_then(|page| serde_json::from_str(page.get()).ok());
    for item in page.unwrap_or_default() {
        let named = RawObject::parse(item).and_then(|object| object.get_text(list.required));
        if named.is_some() {
            items.push(item.to_owned());
        } else {
            let (list, member) = (list.method, list.required);
            warn!(server = &*peer.router.name, "`{list}` has an item without `{member}`");
        }
    }
}

/// The subscription filter for the lists that a modern server says may change.
pub(crate) fn change_filter(peer: &Peer) -> Option<Raw> {
    let kinds = [
        ("tools.listChanged", "toolsListChanged"),
        ("resources.listChanged", "resourcesListChanged"),
        ("prompts.listChanged", "promptsListChanged"),
    ];
    let mut filter = RawObject::new();
    for (_, key) in
        kinds.into_iter().filter(|(capability, _)| peer.profile.has_capability(capability))
    {
        filter.set_value(key, &true);
    }
    (!filter.is_empty()).then(|| filter.to_raw())
}

/// The subscription filter for updates of one resource.
pub(crate) fn resource_filter(uri: &str) -> Raw {
    let mut filter = RawObject::new();
    filter.set("resourceSubscriptions", Cow::Owned(raw(&[uri])));
    filter.to_raw()
}
