//! Switching bundled CLIs on and off in `config.yaml`.

use std::{io, path::Path};

use muster_config::{
    LoadError,
    settings::{self, Clis, with_clis},
};
use muster_engine::store::{ConfigStore, WriteError};
use thiserror::Error;

/// Why `config.yaml` was not changed.
#[derive(Debug, Error)]
pub enum ConfigEditError {
    /// It cannot be read.
    #[error("cannot read config.yaml: {0}")]
    Unreadable(#[from] io::Error),
    /// It is invalid.
    #[error("config.yaml is invalid: {0}")]
    Invalid(#[from] LoadError),
    /// It cannot be edited without changing the rest of it.
    #[error("config.yaml is written in a way that only its author can edit")]
    Layout,
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Changes which bundled CLIs the gateway of a configuration directory offers. Returns whether the settings
/// changed. Comments and all other keys of the file are preserved.
pub fn edit(root: &Path, change: impl FnOnce(&mut Clis)) -> Result<bool, ConfigEditError> {
    let store = ConfigStore::new(root);
    let before = store.settings_text()?;
    let text = before.as_deref().unwrap_or_default();
    let was = settings::parse(text)?.value.clis;
    let mut clis = was.clone();
    change(&mut clis);
    if clis == was {
        return Ok(false);
    }
    let after = with_clis(text, &clis).ok_or(ConfigEditError::Layout)?;
    store.replace_settings_text(before.as_deref(), &after)?;
    Ok(true)
}
