//! Interactive UIs of tools (MCP Apps): resources with the scheme `ui` that tools refer to in their `_meta`.

use std::sync::Arc;

use muster_core::{
    catalog::{CatalogSource, ToolEntry},
    client::ClientHandle,
    json::RawObject,
    name::BackendName,
};
use serde_json::value::RawValue;

use crate::dispatch::GatewaySnapshot;

/// The scheme of UI resources.
const SCHEME: &str = "ui://";
/// The extension that a client declares if it can show UIs.
const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// Whether a client declared that it can show UIs.
pub(super) fn is_shown_by(client: &dyn ClientHandle) -> bool {
    let capabilities = client.capabilities();
    let extensions = RawObject::parse(&capabilities)
        .and_then(|capabilities| capabilities.get("extensions").map(ToOwned::to_owned));
    let extensions = extensions.as_deref().and_then(RawObject::parse);
    extensions.is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

/// The URI of a tool's UI.
pub(super) fn resource_uri(entry: &ToolEntry) -> Option<String> {
    let definition = entry.definition.as_deref()?;
    // Few tools have one: most definitions are only searched, not parsed.
    memchr::memmem::find(definition.get().as_bytes(), SCHEME.as_bytes())?;
    let definition = RawObject::parse(definition)?;
    let meta = RawObject::parse(definition.get("_meta")?)?;
    let ui: Option<&RawValue> = meta.get("ui");
    let uri = ui.and_then(RawObject::parse).and_then(|ui| ui.get_text("resourceUri"));
    // The key of earlier drafts.
    uri.or_else(|| meta.get_text("ui/resourceUri")).filter(|uri| uri.starts_with(SCHEME))
}

/// Whether the UI belongs to a server that is currently disconnected.
pub(super) fn is_of_disconnected_server(state: &GatewaySnapshot, uri: &str) -> bool {
    let refers = |tool: &Arc<ToolEntry>| resource_uri(tool).as_deref() == Some(uri);
    let last = state.absent.values().filter_map(|absent| absent.last.as_deref());
    uri.starts_with(SCHEME) && last.flat_map(CatalogSource::own_tools).any(refers)
}

/// The backends of the tools that refer to a UI.
pub(super) fn declaring_backends<'a>(
    state: &'a GatewaySnapshot,
    uri: &str,
) -> impl Iterator<Item = &'a BackendName> {
    let is_ui = uri.starts_with(SCHEME);
    let shown = state.catalog.sorted().filter(move |entry| is_ui && state.policy.shows(entry));
    let with_ui = shown.filter(move |entry| resource_uri(entry).as_deref() == Some(uri));
    with_ui.map(|entry| &entry.backend)
}
