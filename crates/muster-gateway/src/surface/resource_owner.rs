//! The server that answers for a resource.

use std::collections::BTreeSet;

use muster_core::{name::BackendName, text::shortened};
use thiserror::Error;

use super::ui;
use crate::dispatch::GatewaySnapshot;

/// Why no server answers for a resource.
#[derive(Debug, Error)]
pub(crate) enum ResourceOwnerError {
    /// No server has it.
    #[error("no server has this resource")]
    Unknown,
    /// Tools of several servers refer to a UI of this name.
    #[error("{0}")]
    Ambiguous(String),
}

/// The backend of a resource, and the backend's own name for it.
///
/// The UI of a tool is requested from the server of that tool: another server may list a resource of the same name, and
/// would act in the tool's place.
pub(crate) fn resource_owner<'a>(
    state: &'a GatewaySnapshot,
    uri: &str,
) -> Result<(&'a BackendName, String), ResourceOwnerError> {
    // A family has no connection of its own: one of its servers answers.
    let server = |backend: &'a BackendName| {
        let source = state.catalog.source(backend.as_str());
        source.and_then(|source| source.family_members().first()).unwrap_or(backend)
    };
    let declaring: BTreeSet<&BackendName> =
        ui::declaring_backends(state, uri).map(server).collect();
    let mut declaring = declaring.into_iter();
    match (declaring.next(), declaring.next()) {
        (Some(backend), None) => return Ok((backend, uri.to_owned())),
        (Some(one), Some(other)) => {
            let uri = shortened(uri);
            return Err(ResourceOwnerError::Ambiguous(format!(
                "`{uri}` is ambiguous: tools of `{one}` and `{other}` refer to it"
            )));
        }
        // Its server is not connected, and no other may take its place.
        (None, _) if ui::is_of_disconnected_server(state, uri) => {
            return Err(ResourceOwnerError::Unknown);
        }
        (None, _) => (),
    }
    let catalog = &state.catalog;
    match catalog.resources().find(|listed| *listed.name == *uri) {
        Some(listed) => Ok((&listed.backend, listed.local_name.to_string())),
        None => catalog
            .resource_backend(uri)
            .map(|owner| (owner, uri.to_owned()))
            .ok_or(ResourceOwnerError::Unknown),
    }
}
