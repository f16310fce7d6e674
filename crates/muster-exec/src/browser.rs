//! The user's browser: the one program that is started and let go.
//!
//! It belongs to the user and not to a tool, so it is not below a launcher: it must outlive the command
//! that opened it.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

/// What opens an address, by system.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a web address in the user's browser. Nothing but `http` and `https` is opened.
pub fn open(url: &str) -> io::Result<()> {
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "only web addresses are opened"));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a browser that a launcher started would end with the command"
    )]
    let child = Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    // It goes on by itself; whoever is then its parent takes its end.
    drop(child);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn only_the_web_is_opened() {
        for url in ["file:///etc/passwd", "javascript:alert(1)", "-h", "/bin/sh"] {
            assert!(open(url).is_err(), "{url}");
        }
    }
}
