//! The output of the agent: log lines with a timestamp, and results without.

use anstyle::{AnsiColor, Color, Style};
use serde_json::Value;

use crate::output::Printer;

/// The style of the output.
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

/// The verbosity of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Usual,
    Verbose,
}

/// How requests and responses are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// As sentences.
    Words,
    /// As JSON.
    Json,
}

impl Console {
    /// Prints an event.
    pub(crate) fn info(self, text: &str) {
        Self::print(&self.stamped(text, None));
    }

    /// Prints an event that only a verbose console shows.
    pub(crate) fn debug(self, text: &str) {
        if self.detail == Detail::Verbose {
            Self::print(&self.stamped(text, Some(AnsiColor::BrightBlack)));
        }
    }

    /// Prints an error.
    pub(crate) fn error(self, text: &str) {
        Self::print(&self.stamped(text, Some(AnsiColor::Red)));
    }

    /// Prints a success.
    pub(crate) fn success(self, text: &str) {
        Self::print(&self.stamped(text, Some(AnsiColor::Green)));
    }

    /// Prints the result of a command.
    #[expect(clippy::unused_self, reason = "all output goes through the console")]
    pub(crate) fn result(self, text: &str) {
        Self::print(text);
    }

    /// Prints a request.
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

    /// Prints the response to a request.
    pub(crate) fn response(self, method: &str, result: &Value) {
        if self.traffic == Traffic::Json {
            return self.dump("← RESPONSE", method, AnsiColor::Green, result);
        }
        let count = listed(method)
            .and_then(|what| Some((what, result.get(what).and_then(Value::as_array)?.len())));
        match (method, count) {
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

    /// Text with a timestamp before it.
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
        // Ignore errors: if standard output is closed, there is nowhere to report it.
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

/// A value as JSON, indented by four spaces.
fn indented(value: &Value) -> String {
    let two = serde_json::to_string_pretty(value).unwrap_or_default();
    let lines = two.lines().map(|line| {
        let text = line.trim_start_matches(' ');
        format!("{}{text}", " ".repeat((line.len() - text.len()) * 2))
    });
    lines.collect::<Vec<_>>().join("\n")
}
