//! The note for a search among the tools of a server that is not here.

use std::collections::BTreeSet;

use muster_core::{
    catalog::{CatalogSnapshot, CatalogSource},
    suggest,
};

use super::super::page::echo;
use crate::dispatch::GatewaySnapshot;

/// The number of servers that are named.
const MOST: usize = 6;

/// Says that there is no such server, and names similar ones or the first that there are; `None` if there is one.
pub(super) fn said(
    state: &GatewaySnapshot,
    listed: &CatalogSnapshot,
    server: &str,
) -> Option<String> {
    // A server that is down, or has no tools, is here.
    let is_here = |source: &&CatalogSource| {
        let entries = source.entries();
        entries.is_empty() || entries.iter().any(|entry| state.policy.shows(entry))
    };
    let up = listed.sources().filter(is_here).map(|source| &*source.info.title);
    let down = state.absent.values().map(|absent| absent.server.as_str());
    let servers: BTreeSet<&str> = up.chain(down).collect();
    let wanted = server.to_lowercase();
    if servers.is_empty() || servers.iter().any(|name| name.to_lowercase() == wanted) {
        return None;
    }
    let server = echo(server);
    let near = suggest::similar(server, servers.iter().copied());
    Some(match near.as_slice() {
        [] => {
            let few: Vec<&str> = servers.iter().copied().take(MOST).collect();
            let more = if servers.len() > MOST { ", …" } else { "" };
            format!("there is no server `{server}`; there are `{}`{more}", few.join("`, `"))
        }
        near => format!("there is no server `{server}`; did you mean `{}`?", near.join("` or `")),
    })
}
