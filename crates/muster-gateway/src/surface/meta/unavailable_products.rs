//! Products that a search does not find because the server that may have them is unavailable.
//!
//! A server that was never connected has a name, but no tools to search. Without this, an agent that asks for Jira while
//! the server `jira` waits for a login would read that nothing here is Jira.

use muster_core::catalog::ranked::RankedTools;
use muster_search::{document::Document, index::Index, verdict::SearchVerdict};

use crate::dispatch::GatewaySnapshot;

/// The number of servers that are named.
const MOST: usize = 3;
/// The source of the names in their index.
const SOURCE: &str = "unavailable";

/// Removes the products that the names of unavailable servers mention from the absent ones, and returns these servers.
/// While one is unavailable, it is not known whether there is such a tool.
pub(super) fn take(state: &GatewaySnapshot, ranked: &mut RankedTools<'_>) -> Vec<String> {
    let products = ranked.absent_products.as_slice();
    if products.is_empty() {
        return Vec::new();
    }
    let servers: Vec<&str> = state.absent.values().map(|absent| absent.server.as_str()).collect();
    let documents: Vec<Document<'_>> =
        servers.iter().map(|server| Document { server, ..Document::default() }).collect();
    let index = Index::default().with(SOURCE, &documents);
    // Each within a sentence: at the start of one, a name that is an English word is only a word.
    let query: String = products.iter().map(|product| format!("in {product}. ")).collect();
    let (mut found, mut unknown) = (Vec::new(), products.to_vec());
    for (at, server) in servers.iter().enumerate() {
        let absent = index.search(&query, &|place| place.position == at, 0).absent_products;
        if absent.len() < products.len() {
            unknown.retain(|product| absent.contains(product));
            found.push((*server).to_owned());
        }
    }
    found.truncate(MOST);
    if !found.is_empty() && matches!(ranked.verdict, SearchVerdict::NoSuchTool { .. }) {
        ranked.verdict = SearchVerdict::Unsure;
    }
    ranked.absent_products = unknown;
    found
}
