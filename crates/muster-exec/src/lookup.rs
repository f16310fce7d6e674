//! Looking up programs.

use std::path::Path;

use rustix::fs::{Access, access};

/// Whether an executable exists: at its own path if it has a slash, else in a directory of `path`.
pub fn exists(program: &str, path: Option<&str>) -> bool {
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    path.unwrap_or_default().split(':').any(|dir| is_executable(&Path::new(dir).join(program)))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
