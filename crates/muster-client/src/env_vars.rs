//! Every environment variable we read by name. The reference page is made from this table.

use std::env;

/// A variable: its name and what it does.
pub const ALL: [(&str, &str); 13] = [
    ("CLIMAX_LOG_FILE", "Append log lines to this file, at the level of `--log-level`"),
    ("NO_COLOR", "Print without colour, even on a terminal, when set and not empty"),
    (
        "HOME",
        "Where a leading `~` of a config's `command` points; holds `.config/muster` and `.local/share`",
    ),
    ("XDG_DATA_HOME", "Where `climax skill --path` keeps the skill file; default `~/.local/share`"),
    (
        "MUSTER_ENDPOINT",
        "The gateway that `muster list` and its like ask, unless `--endpoint` says otherwise",
    ),
    ("MUSTER_CONTEXT", "The context that names the gateway, unless `--context` says otherwise"),
    ("MUSTER_AUTH_MODE", "`auto`, `prompt` or `none`: what happens when a gateway wants a login"),
    ("MUSTER_OAUTH_CALLBACK_PORT", "Where `muster auth login` waits for the browser; default 3000"),
    ("TERM", "Whether the prompt of the REPL has letters beyond ASCII: not when empty or `dumb`"),
    ("TMPDIR", "Where the REPL keeps its history; default `/tmp`"),
    ("MUSTER_RELEASES_URL", "The document that `muster self-update` reads the newest release from"),
    ("MUSTER_COMPLETE", "Set by completion scripts to the name of their shell"),
    ("PATH", "Where programs are looked for, unless a config's `env` sets its own"),
];

/// The value of a variable, if it is set, not empty, and text.
pub fn get(name: &str) -> Option<String> {
    debug_assert!(ALL.iter().any(|(known, _)| *known == name), "{name} is not documented");
    #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Everything that is set and is text, for `$NAME` in configs and for children.
pub fn all() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
