//! Where a program is.

use std::path::Path;

use rustix::fs::{Access, access};

/// Whether a program can be found and run: by its path if it has a slash, else in `path`.
pub fn exists(program: &str, path: Option<&str>) -> bool {
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    path.unwrap_or_default().split(':').any(|dir| is_executable(&Path::new(dir).join(program)))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
