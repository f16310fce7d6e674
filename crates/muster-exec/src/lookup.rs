//! Looking up programs.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Whether an executable exists: at its own path if it has a slash, else in a directory of `path`.
pub fn exists(program: &str, path: Option<&str>) -> bool {
    find(program, path).is_some()
}

/// The path of an executable, which is searched like [`exists`].
pub fn find(program: &str, path: Option<&str>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let dirs = path.unwrap_or_default().split(':');
    dirs.map(|dir| Path::new(dir).join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
