//! The user's directories for configuration, data and state.

use std::path::{Path, PathBuf};

use muster_engine::state_folder::StateFolder;
use thiserror::Error;

use crate::env_vars;

/// `HOME` is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no home directory: HOME is not set")]
pub struct NoHome;

/// The home directory.
pub fn home() -> Result<PathBuf, NoHome> {
    env_vars::get("HOME").map(PathBuf::from).ok_or(NoHome)
}

/// The directory of muster's own configuration: `~/.config/muster`.
pub fn config() -> Result<PathBuf, NoHome> {
    Ok(home()?.join(".config/muster"))
}

/// The directory of muster's own state: `muster` below `XDG_STATE_HOME`, else below `~/.local/state`.
pub fn state() -> Result<PathBuf, NoHome> {
    let state = match env_vars::get("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => home()?.join(".local/state"),
    };
    Ok(state.join("muster"))
}

/// The state folder of the gateway of a configuration directory: `chosen`, else `MUSTER_STATE_PATH`, else one below
/// [`state`].
pub fn state_folder(config: &Path, chosen: Option<&Path>) -> Result<StateFolder, NoHome> {
    let chosen = chosen.map(Path::to_owned).or_else(chosen_state);
    match chosen {
        Some(path) => Ok(StateFolder::at(path)),
        None => Ok(StateFolder::of(&state()?, config)),
    }
}

/// The state folder that the environment names.
pub fn chosen_state() -> Option<PathBuf> {
    env_vars::get("MUSTER_STATE_PATH").map(PathBuf::from)
}

/// The directory of muster's own data: `muster` below `XDG_DATA_HOME`, else below `~/.local/share`.
pub fn data() -> Result<PathBuf, NoHome> {
    let data = match env_vars::get("XDG_DATA_HOME") {
        Some(data) => PathBuf::from(data),
        None => home()?.join(".local/share"),
    };
    Ok(data.join("muster"))
}
