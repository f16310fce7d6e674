//! Who is admitted to the gateway: the settings, and what the environment says over them.

use std::sync::Arc;

use muster_auth::{access::AccessControl, server::AuthServer};
use muster_client::env_vars;
use muster_config::settings::{self, AccessMode};
use muster_core::call::Caller;

use crate::error::CommandError;

const VARIABLE: &str = "MUSTER_ACCESS";

/// The access mode: of the environment, else of the configuration.
pub(super) fn mode(said: &settings::Access) -> Result<AccessMode, CommandError> {
    let Some(name) = env_vars::get(VARIABLE) else { return Ok(said.mode) };
    AccessMode::named(&name).ok_or_else(|| {
        CommandError::new(format!("{VARIABLE} is `{name}`, which is not an access mode"))
            .hint("set it to `private` or `open`, or unset it")
    })
}

/// What admits requests over HTTP.
pub(super) fn guard(mode: AccessMode, logins: Option<&AuthServer>) -> Arc<AccessControl> {
    Arc::new(AccessControl::new(mode, logins.cloned()))
}

/// The caller on standard input: an agent that the user started.
pub(super) fn pipe(mode: AccessMode) -> Caller {
    Caller { role: AccessControl::default_role(mode), ..Caller::local() }
}
