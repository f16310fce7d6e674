//! What the agent prints: lines with the time before them, and results without.

use anstyle::{AnsiColor, Color, Style};
use serde_json::Value;

use crate::output::Printer;

/// How much is said, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    pub(crate) colour: Colour,
    pub(crate) detail: Detail,
    pub(crate) traffic: Traffic,
}

/// Whether lines are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

/// How much is said about what goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Usual,
    Verbose,
}

/// How requests and answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// In words.
    Words,
    /// As JSON.
    Json,
}

impl Console {
    /// Something happened.
    pub(crate) fn info(self, text: &str) {
        Self::print(&self.stamped(text, None));
    }

    /// Something happened that most people do not mind.
    pub(crate) fn debug(self, text: &str) {
        if self.detail == Detail::Verbose {
            Self::print(&self.stamped(text, Some(AnsiColor::BrightBlack)));
        }
    }

    /// Something went wrong.
    pub(crate) fn error(self, text: &str) {
        Self::print(&self.stamped(text, Some(AnsiColor::Red)));
    }

    /// Something went well.
    pub(crate) fn success(self, text: &str) {
        Self::print(&self.stamped(text, Some(AnsiColor::Green)));
    }

    /// The result of a command.
    #[expect(clippy::unused_self, reason = "whatever is printed goes through here")]
    pub(crate) fn result(self, text: &str) {
        Self::print(text);
    }

    /// A request goes out.
    pub(crate) fn request(self, method: &str, params: &Value) {
        match self.traffic {
            Traffic::Json => self.dump("→ REQUEST", method, AnsiColor::Blue, params),
            Traffic::Words => match method {
                "initialize" => self.info("Initializing MCP session..."),
                _ => match listed(method) {
                    Some(what) => self.info(&format!("Listing available {what}...")),
                    None => self.debug(&format!("Sending request: {method}")),
                },
            },
        }
    }

    /// Its answer comes in.
    pub(crate) fn response(self, method: &str, result: &Value) {
        if self.traffic == Traffic::Json {
            return self.dump("← RESPONSE", method, AnsiColor::Green, result);
        }
        let known = listed(method)
            .and_then(|what| Some((what, result.get(what).and_then(Value::as_array)?.len())));
        match (method, known) {
            ("initialize", _) => {
                let version = result.get("protocolVersion").and_then(Value::as_str);
                let version = version.map(|version| format!(" (protocol: {version})"));
                let text = format!(
                    "Session initialized successfully{}",
                    version.as_deref().unwrap_or_default()
                );
                self.success(&text);
            }
            (_, Some((what, count))) => self.success(&format!("Found {count} {what}")),
            (_, None) => self.debug(&format!("Received response for: {method}")),
        }
    }

    fn dump(self, mark: &str, method: &str, colour: AnsiColor, value: &Value) {
        Self::print(&self.stamped(&format!("{mark} ({method}):"), Some(colour)));
        Self::print(&format!("{}\n", indented(value)));
    }

    /// Text with the time before it.
    pub(crate) fn stamped(self, text: &str, colour: Option<AnsiColor>) -> String {
        let now = jiff::Zoned::now();
        format!("[{}] {}", now.strftime("%Y-%m-%d %H:%M:%S"), self.painted(text, colour))
    }

    /// Text in a colour.
    pub(crate) fn painted(self, text: &str, colour: Option<AnsiColor>) -> String {
        match colour.filter(|_| self.colour == Colour::On) {
            Some(colour) => {
                let style = Style::new().fg_color(Some(Color::Ansi(colour)));
                format!("{style}{text}{style:#}")
            }
            None => text.to_owned(),
        }
    }

    fn print(text: &str) {
        // Where nobody reads there is nobody to tell.
        drop(Printer::stdout().line(text));
    }
}

fn listed(method: &str) -> Option<&'static str> {
    match method {
        "tools/list" => Some("tools"),
        "resources/list" => Some("resources"),
        "prompts/list" => Some("prompts"),
        _ => None,
    }
}

/// A value as JSON with four blanks before each level.
fn indented(value: &Value) -> String {
    let two = serde_json::to_string_pretty(value).unwrap_or_default();
    let lines = two.lines().map(|line| {
        let text = line.trim_start_matches(' ');
        format!("{}{text}", " ".repeat((line.len() - text.len()) * 2))
    });
    lines.collect::<Vec<_>>().join("\n")
}
