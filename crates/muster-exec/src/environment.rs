//! The gateway's own environment, read once at start, and the expansion of `~` and `$NAME` from it.

use std::{collections::BTreeMap, path::PathBuf};

use muster_core::python;

/// Variables that describe the user and the machine, and hold no secrets.
const BASIC: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];
/// Prefixes of more such variables.
const BASIC_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Whether a variable describes the user or the machine, so that every program may have it.
pub fn is_basic(name: &str) -> bool {
    BASIC.contains(&name) || BASIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A snapshot of the environment variables and home directories.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// Home directories by user name.
    homes: BTreeMap<String, String>,
    private_paths: Vec<PathBuf>,
}

impl Environment {
    /// An environment of these variables; `passwd` is the text of the user database.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, passwd: &str) -> Self {
        let homes = passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            Some((fields.next()?.to_owned(), fields.nth(4)?.to_owned()))
        });
        Self {
            variables: variables.into_iter().collect(),
            homes: homes.collect(),
            private_paths: Vec::new(),
        }
    }

    /// Adds files and folders that hold secrets of the gateway itself.
    #[must_use]
    pub fn with_private_paths(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.private_paths.extend(paths);
        self
    }

    /// The files and folders that hold secrets of the gateway itself.
    pub(crate) fn private_paths(&self) -> &[PathBuf] {
        &self.private_paths
    }

    /// The home directories of all users.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &str> {
        self.get("HOME").into_iter().chain(self.homes.values().map(String::as_str))
    }

    /// The value of one variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Splits a base command at white space after expanding `~` and `$NAME` in it. There is no quoting:
    /// expanded text is split like the rest.
    pub fn command_words(&self, command: &str) -> Vec<String> {
        python::split(&self.expand(&self.expand_home(command))).map(str::to_owned).collect()
    }

    /// Replaces `$NAME` and `${NAME}`; unset names stay as written.
    pub fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            let (name, written, next) = reference(after);
            match name.and_then(|name| self.get(name)) {
                Some(value) => expanded.push_str(value),
                None => {
                    expanded.push('$');
                    expanded.push_str(written);
                }
            }
            rest = next;
        }
        expanded.push_str(rest);
        expanded
    }

    fn expand_home(&self, text: &str) -> String {
        let Some(after) = text.strip_prefix('~') else { return text.to_owned() };
        let (user, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        let home = if user.is_empty() { self.get("HOME") } else { self.home_of(user) };
        let Some(home) = home else { return text.to_owned() };
        match format!("{}{path}", home.trim_end_matches('/')) {
            root if root.is_empty() => "/".to_owned(),
            expanded => expanded,
        }
    }

    fn home_of(&self, user: &str) -> Option<&str> {
        self.homes.get(user).map(String::as_str)
    }
}

/// Reads the variable reference after a `$`: the name, the reference as written, and the rest.
fn reference(after: &str) -> (Option<&str>, &str, &str) {
    if let Some((name, next)) = after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        let written = after.get(..name.len() + 2).unwrap_or(after);
        return (Some(name), written, next);
    }
    let end = after
        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(after.len());
    let (name, next) = after.split_at(end);
    ((!name.is_empty()).then_some(name), name, next)
}

#[cfg(test)]
mod tests {
    use super::Environment;

    fn environment() -> Environment {
        let variables = [("HOME", "/home/ada/"), ("A", "one two"), ("EMPTY", ""), ("X_1", "y")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Environment::new(variables, "root:x:0:0:root:/root:/bin/sh\nbad line\n")
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(environment().expand(text), expect);
    }

    #[test]
    fn only_set_variables_are_expanded() {
        check("$A", "one two");
        check("${A}b$X_1-$A", "one twoby-one two");
        check("$UNSET ${UNSET} $ $$A ${A", "$UNSET ${UNSET} $ $one two ${A");
        check("[$EMPTY]", "[]");
        check("${}", "${}");
        check("é$Aé", "éone twoé");
    }

    #[test]
    fn commands_are_split_after_expansion() {
        let check = |command: &str, expect: &[&str]| {
            assert_eq!(environment().command_words(command), expect);
        };
        check("git -C  '/x y'", &["git", "-C", "'/x", "y'"]);
        check("~/bin/tool $A", &["/home/ada/bin/tool", "one", "two"]);
        check("~root/x", &["/root/x"]);
        check("~nobody-here/x", &["~nobody-here/x"]);
        check("a ~/b", &["a", "~/b"]);
        check("  ", &[]);
    }
}
