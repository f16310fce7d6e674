//! Answers that are kept no longer than the process that gave them.

use std::{env, fs, path::Path, process};

use super::Outputs;

const START: &str = "muster-outputs-";

/// Answers in the temporary folder, which are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Passing {
    outputs: Outputs,
}

impl Passing {
    /// Removes what processes have left that could not clean up after themselves.
    pub fn new() -> Self {
        let entries = fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(START)?.parse().ok());
            if owner.is_some_and(is_gone) {
                remove(&entry.path());
            }
        }
        Self::default()
    }

    /// Where to keep them.
    pub fn outputs(&self) -> Outputs {
        self.outputs.clone()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        remove(&self.outputs.folder);
    }
}

impl Default for Outputs {
    /// In the temporary folder, apart from what other processes keep.
    fn default() -> Self {
        Self::at(env::temp_dir().join(format!("{START}{}", process::id())))
    }
}

fn is_gone(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
}

/// What belongs to somebody else stays.
fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && folder.exists()
    {
        tracing::debug!("cannot remove {}: {error}", folder.display());
    }
}
