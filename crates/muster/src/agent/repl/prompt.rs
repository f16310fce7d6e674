//! The prompt of the REPL.

use muster_client::env_vars;

/// The maximum length of a context's name that is shown in full, in bytes.
const LONGEST: usize = 28;

/// The characters that the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    pub(super) fn of_terminal() -> Self {
        match env_vars::get("TERM").as_deref() {
            None | Some("dumb") => Self::Ascii,
            Some(_) => Self::Unicode,
        }
    }
}

/// The state that the prompt shows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// Whether the gateway is gone.
    pub(super) disconnected: bool,
    /// Whether a server requires a login.
    pub(super) login_required: bool,
}

pub(super) fn text(charset: Charset, context: Option<&str>, state: State) -> String {
    let (mark, chevron) = match charset {
        Charset::Unicode => ("𝗺", "»"),
        Charset::Ascii => ("m", ">"),
    };
    let mut parts = vec![mark.to_owned()];
    parts.extend(context.map(shortened));
    parts.extend(state.disconnected.then(|| "[DISCONNECTED]".to_owned()));
    parts.extend(state.login_required.then(|| "[AUTH REQUIRED]".to_owned()));
    parts.push(chevron.to_owned());
    format!("{} ", parts.join(" "))
}

fn shortened(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let begin = name.get(..15).unwrap_or(name);
    let end = name.get(name.len() - 10..).unwrap_or_default();
    format!("{begin}...{end}")
}

#[cfg(test)]
mod tests {
    use super::{Charset, State, text};

    #[test]
    fn it_tells_where_one_is_and_what_is_wrong() {
        let well = State::default();
        assert_eq!(text(Charset::Unicode, None, well), "𝗺 » ");
        assert_eq!(text(Charset::Ascii, Some("lab"), well), "m lab > ");
        let bad = State { disconnected: true, login_required: true };
        assert_eq!(
            text(Charset::Ascii, Some("lab"), bad),
            "m lab [DISCONNECTED] [AUTH REQUIRED] > "
        );
        let long = "a-very-long-name-of-a-context-in-the-east";
        assert_eq!(text(Charset::Ascii, Some(long), well), "m a-very-long-nam...n-the-east > ");
    }
}
