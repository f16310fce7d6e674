//! Outputs that are removed with the process, in a private temporary directory.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_core::lock::Lock;
use muster_exec::private_dir::PrivateDir;

use super::Outputs;

/// A private directory, created when it is first written to.
#[derive(Debug, Clone, Default)]
pub(super) struct LazyDir(Arc<Lock<Option<PrivateDir>>>);

impl LazyDir {
    pub(super) fn create(&self) -> io::Result<PathBuf> {
        let mut held = self.0.lock();
        let dir = match &*held {
            Some(dir) => dir,
            None => held.insert(PrivateDir::create()?),
        };
        Ok(dir.path().to_owned())
    }

    pub(super) fn path(&self) -> Option<PathBuf> {
        self.0.lock().as_ref().map(PrivateDir::path).map(Path::to_owned)
    }
}

/// Owns the outputs of a process. The directory is removed when this is dropped, even if clones of the
/// outputs are still in use.
#[derive(Debug, Default)]
pub struct TemporaryOutputs(LazyDir);

impl TemporaryOutputs {
    /// The outputs to hand to a surface.
    pub fn outputs(&self) -> Outputs {
        Outputs::in_directory(super::Directory::Temporary(self.0.clone()))
    }
}

impl Drop for TemporaryOutputs {
    fn drop(&mut self) {
        drop(self.0.0.lock().take());
    }
}
