//! Repairs: changes to files that fix a problem.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use muster_engine::store::ConfigStore;
use serde::Serialize;

/// A change to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Repair {
    /// Replaces the text of a file.
    Text {
        /// The file.
        path: PathBuf,
        /// Its current text. Neither text is serialized, because both may hold secrets.
        #[serde(skip)]
        before: String,
        /// Its new text.
        #[serde(skip)]
        after: String,
    },
    /// Changes permissions.
    Mode {
        /// The file or directory.
        path: PathBuf,
        /// The new permissions.
        mode: u32,
    },
}

impl Repair {
    /// The lines that change, or the equivalent command.
    pub fn describe(&self) -> String {
        match self {
            Self::Mode { path, mode } => format!("chmod {mode:o} {}", path.display()),
            Self::Text { path, before, after } => {
                format!("{}\n{}", path.display(), changed_lines(before, after))
            }
        }
    }

    /// Applies the change. Fails if the text was edited meanwhile.
    pub fn apply(&self) -> Result<(), String> {
        match self {
            Self::Text { path, before, after } => {
                ConfigStore::replace_text(path, before, after).map_err(|err| err.to_string())
            }
            Self::Mode { path, mode } => {
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).map_err(|err| {
                    format!("cannot change the permissions of {}: {err}", path.display())
                })
            }
        }
    }
}

/// The lines between the common prefix and the common suffix of two texts.
fn changed_lines(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let start = before.iter().zip(&after).take_while(same).count();
    let shorter = before.len().min(after.len()) - start;
    let end = before.iter().rev().zip(after.iter().rev()).take_while(same).count().min(shorter);
    let middle = |lines: &[&str], sign: char| {
        let lines = lines.iter().skip(start).take(lines.len() - start - end);
        lines.map(|line| format!("  {sign} {line}")).collect::<Vec<_>>()
    };
    [middle(&before, '-'), middle(&after, '+')].concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::changed_lines;

    #[test]
    fn only_the_changed_lines_are_shown() {
        assert_eq!(changed_lines("a\nb\nc\n", "a\nx\ny\nc\n"), "  - b\n  + x\n  + y");
        assert_eq!(changed_lines("a\na\n", "a\n"), "  - a");
        assert_eq!(changed_lines("", "a"), "  + a");
    }
}
