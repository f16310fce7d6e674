//! Opening the user's browser, the one program that is started and not supervised.
//!
//! It belongs to the user and not to a tool, so no launcher owns it: it must outlive the command that
//! opened it.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

/// The system's URL opener.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens an `http` or `https` URL in the user's browser; anything else is refused.
pub fn open(url: &str) -> io::Result<()> {
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only `http` and `https` URLs can be opened",
        ));
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a browser that a launcher started would end with the command"
    )]
    Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn only_http_urls_are_opened() {
        for url in ["file:///etc/passwd", "javascript:alert(1)", "-h", "/bin/sh"] {
            assert!(open(url).is_err(), "{url}");
        }
    }
}
