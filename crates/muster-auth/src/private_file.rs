//! Files that only their owner can change: created private, replaced atomically, and refused if others could have
//! written them.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

/// The largest file that is read.
const MAX_SIZE: u64 = 1024 * 1024;

/// The access that users other than the owner may have to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePrivacy {
    /// None: the file holds secrets.
    OwnerOnly,
    /// Others may read it.
    OwnerWrites,
}

impl FilePrivacy {
    /// The permission bits that a file must not have.
    const fn forbidden(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o077,
            Self::OwnerWrites => 0o022,
        }
    }
}

/// Creates a directory that only its owner can enter, and its parents. An existing directory must belong to this user.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => (),
        created => created?,
    }
    // Do not follow links: another user may have created this one.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(refused("it is not a directory"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & FilePrivacy::OwnerOnly.forbidden() != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Replaces a file atomically: readers see either the old content or the new. Only its owner can read it, even while
/// it is being written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension(format!("{}.tmp", std::process::id()));
    // A crash may have left a temporary file with other permissions.
    drop(fs::remove_file(&next));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, path)
}

/// Reads a file; `None` if there is none. Fails if the file belongs to a user other than this one or root, or if others
/// have access that `privacy` forbids. Links are refused, except that a file that others may read can be a link that
/// this user or root created, which is how Kubernetes mounts Secrets.
pub fn read(path: &Path, privacy: FilePrivacy) -> io::Result<Option<String>> {
    let target = match privacy {
        FilePrivacy::OwnerOnly => None,
        FilePrivacy::OwnerWrites => link_target(path)?,
    };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = target.as_deref().unwrap_or(path);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(opened) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("it is not a regular file"));
    }
    if !is_trusted(found.uid()) {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & privacy.forbidden() != 0 {
        let mode = found.mode() & 0o777;
        return Err(refused(&format!("other users have access to it (mode {mode:o})")));
    }
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// The target of a link; `None` for anything else. The target is checked like any other file, so it is harmless if the
/// link is replaced meanwhile.
fn link_target(path: &Path) -> io::Result<Option<PathBuf>> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    if !found.is_symlink() {
        return Ok(None);
    }
    if !is_trusted(found.uid()) {
        return Err(refused("it is a link of another user"));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(Some(folder.join(fs::read_link(path)?)))
}

/// Whether files of a user are trusted: only those of this process's user and of root.
fn is_trusted(user: u32) -> bool {
    user == geteuid().as_raw() || user == 0
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::{FilePrivacy, create_dir, read, write};

    #[test]
    fn files_are_private_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("state/muster");
        create_dir(&dir).unwrap();
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        create_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700, "an open directory is closed");

        let file = dir.join("x.json");
        assert_eq!(read(&file, FilePrivacy::OwnerOnly).unwrap(), None);
        write(&file, "one").unwrap();
        write(&file, "two").unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(read(&file, FilePrivacy::OwnerOnly).unwrap().unwrap(), "two");

        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file, FilePrivacy::OwnerOnly).is_err());
        assert!(read(&file, FilePrivacy::OwnerWrites).is_ok());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
        assert!(read(&file, FilePrivacy::OwnerWrites).is_err());

        let link = dir.join("link");
        symlink(&file, &link).unwrap();
        assert!(read(&link, FilePrivacy::OwnerWrites).is_err(), "its target has other permissions");
        assert!(read(&link, FilePrivacy::OwnerOnly).is_err(), "it is a link");
        let linked = folder.path().join("linked");
        symlink(&dir, &linked).unwrap();
        assert!(create_dir(&linked).is_err());
    }

    /// `tokens.json` is a link to `..data/tokens.json`, and `..data` is a link to the folder of the current version.
    #[test]
    fn a_secret_that_kubernetes_mounts_is_read_and_its_next_version_too() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path();
        for version in ["..1", "..2"] {
            fs::create_dir(mount.join(version)).unwrap();
            let file = mount.join(version).join("tokens.json");
            fs::write(&file, version).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
        }
        symlink("..1", mount.join("..data")).unwrap();
        let file = mount.join("tokens.json");
        symlink("..data/tokens.json", &file).unwrap();
        assert_eq!(read(&file, FilePrivacy::OwnerWrites).unwrap().unwrap(), "..1");
        symlink("..2", mount.join("..next")).unwrap();
        fs::rename(mount.join("..next"), mount.join("..data")).unwrap();
        assert_eq!(read(&file, FilePrivacy::OwnerWrites).unwrap().unwrap(), "..2");
        assert!(read(&file, FilePrivacy::OwnerOnly).is_err());

        fs::remove_dir_all(mount.join("..2")).unwrap();
        assert_eq!(read(&file, FilePrivacy::OwnerWrites).unwrap(), None, "the link leads nowhere");
        symlink("tokens.json", mount.join("twice")).unwrap();
        assert!(read(&mount.join("twice"), FilePrivacy::OwnerWrites).is_err(), "a link to a link");
    }
}
