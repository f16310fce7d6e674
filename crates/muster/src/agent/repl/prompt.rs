//! What stands before the line that is typed.

use muster_client::env_vars;

/// The longest name of a context that is shown in full.
const LONGEST: usize = 28;

/// Which letters a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    Unicode,
    Ascii,
}

impl Letters {
    pub(super) fn of_terminal() -> Self {
        match env_vars::get("TERM").as_deref() {
            None | Some("dumb") => Self::Ascii,
            Some(_) => Self::Unicode,
        }
    }
}

/// How things stand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// The gateway is away.
    pub(super) disconnected: bool,
    /// A server wants a login.
    pub(super) login_required: bool,
}

pub(super) fn text(letters: Letters, context: Option<&str>, state: State) -> String {
    let (mark, chevron) = match letters {
        Letters::Unicode => ("𝗺", "»"),
        Letters::Ascii => ("m", ">"),
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
    use super::{Letters, State, text};

    #[test]
    fn it_tells_where_one_is_and_what_is_wrong() {
        let well = State::default();
        assert_eq!(text(Letters::Unicode, None, well), "𝗺 » ");
        assert_eq!(text(Letters::Ascii, Some("lab"), well), "m lab > ");
        let bad = State { disconnected: true, login_required: true };
        assert_eq!(
            text(Letters::Ascii, Some("lab"), bad),
            "m lab [DISCONNECTED] [AUTH REQUIRED] > "
        );
        let long = "a-very-long-name-of-a-context-in-the-east";
        assert_eq!(text(Letters::Ascii, Some(long), well), "m a-very-long-nam...n-the-east > ");
    }
}
