//! Definitions as files in the folders of the configuration directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use muster_config::kinds::DefinitionKind;
use muster_core::backend::BoxFuture;

use super::{
    DefinitionStore, StoredText, WriteError,
    port::TextEdit,
    write::{self, Writing},
};

/// The largest file that is read, in bytes.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The configuration directory as a store of definitions.
#[derive(Debug)]
pub(super) struct FolderStore {
    root: PathBuf,
    writing: Writing,
}

impl FolderStore {
    /// The directory at `root`, whose files are written under this lock.
    pub(super) fn new(root: &Path, writing: Writing) -> Self {
        Self { root: root.to_owned(), writing }
    }
}

impl DefinitionStore for FolderStore {
    fn list(&self, kind: DefinitionKind) -> io::Result<Option<Vec<PathBuf>>> {
        let folder = self.place(kind);
        match listed(&folder) {
            Ok(paths) => Ok(Some(paths)),
            // Listing also fails without free file descriptors, so check that the folder really does not exist.
            Err(_) if matches!(folder.try_exists(), Ok(false)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, path: &Path) -> io::Result<StoredText> {
        text(path).map(|text| StoredText { text, generation: None, secret_changes: 0 })
    }

    fn place(&self, kind: DefinitionKind) -> PathBuf {
        self.root.join(kind.folder())
    }

    fn create<'a>(
        &'a self,
        kind: DefinitionKind,
        name: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        let folder = self.place(kind);
        let path = folder.join(format!("{name}.yaml"));
        Box::pin(self.writing.exclusively(&self.root, move || write::create(&folder, &path, &text)))
    }

    fn change<'a>(
        &'a self,
        path: &'a Path,
        edit: TextEdit,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        let path = path.to_owned();
        Box::pin(self.writing.exclusively(&self.root, move || {
            let now = write::read(&path)?;
            let Some(next) = edit(&now) else { return Err(WriteError::Changed(path)) };
            write::replace(&path, &next, |current| current == now)
        }))
    }

    fn delete<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(), WriteError>> {
        let path = path.to_owned();
        Box::pin(self.writing.exclusively(&self.root, move || write::delete(&path)))
    }

    fn prepare(&self) -> io::Result<()> {
        self.folders().iter().for_each(|folder| write::remove_stale(folder));
        [DefinitionKind::McpServer, DefinitionKind::Workflow, DefinitionKind::ServiceClass]
            .iter()
            .try_for_each(|kind| fs::create_dir_all(self.place(*kind)))
    }

    fn folders(&self) -> Vec<PathBuf> {
        DefinitionKind::ALL.map(|kind| self.place(kind)).to_vec()
    }
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_ours(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The text of a file.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(io::Error::other("it is too large"));
    }
    fs::read_to_string(path)
}

/// Whether a file is a definition. Hidden files are temporary files of editors and of muster itself.
fn is_ours(path: &Path) -> bool {
    let ending = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    ending && !hidden
}
