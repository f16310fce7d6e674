//! The next step that a hint suggests, as a value.
//!
//! Hints are sentences for agents, and a step in one is written as the call of a tool. This is the one place that writes
//! that notation and reads it again, so that the command line can show the step as a command.

use std::{borrow::Cow, fmt};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Raw, raw};

/// The meta-tool that searches for tools.
const FIND_TOOL: &str = "filter_tools";
/// The core tool that logs its caller in to a server.
pub const LOG_IN: &str = "core_auth_login";
/// The core tool that starts a service.
pub const START_SERVICE: &str = "core_service_start";

/// The step at the end of a hint. Its `Display` is the call of a tool, for agents.
#[derive(Debug, Clone)]
pub enum NextStep {
    /// Search for a tool.
    FindTool,
    /// Log in to a server.
    LogIn {
        /// The server.
        server: String,
    },
    /// Start a service.
    StartService {
        /// The service.
        name: String,
    },
    /// Call a tool.
    CallTool {
        /// The tool.
        name: String,
        /// Its arguments: a JSON object.
        arguments: Raw,
    },
}

impl NextStep {
    /// Splits a hint into its sentence and the step at its end; `None` if it ends with none.
    pub fn split_from(hint: &str) -> Option<(&str, Self)> {
        if let Some(sentence) = hint.strip_suffix(FIND_TOOL) {
            return Some((sentence, Self::FindTool));
        }
        let (sentence, arguments) = hint.split_at(hint.find('{')?);
        let of_tool = |tool: &str| sentence.strip_suffix(' ')?.strip_suffix(tool);
        if let Some(sentence) = of_tool(LOG_IN) {
            let LogInArguments { server } = serde_json::from_str(arguments).ok()?;
            return Some((sentence, Self::LogIn { server: server.into_owned() }));
        }
        if let Some(sentence) = of_tool(START_SERVICE) {
            let StartArguments { name } = serde_json::from_str(arguments).ok()?;
            return Some((sentence, Self::StartService { name: name.into_owned() }));
        }
        let WrittenCall { name, arguments } = serde_json::from_str(arguments).ok()?;
        let (name, arguments) = (name.into_owned(), arguments.to_owned());
        Some((sentence, Self::CallTool { name, arguments }))
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FindTool => f.write_str(FIND_TOOL),
            Self::LogIn { server } => write!(f, "{LOG_IN} {{\"server\": {}}}", raw(server)),
            Self::StartService { name } => {
                write!(f, "{START_SERVICE} {{\"name\": {}}}", raw(name))
            }
            Self::CallTool { name, arguments } => {
                write!(f, "{{\"name\":{},\"arguments\":{arguments}}}", raw(name))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogInArguments<'a> {
    #[serde(borrow)]
    server: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArguments<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// A call as arguments of `call_tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::NextStep;
    use crate::json::raw;

    #[test]
    fn a_step_is_read_as_it_is_written() {
        let named = || "my \"server\"".to_owned();
        let arguments = raw(&json!({"name": "<string>"}));
        for (step, written) in [
            (NextStep::FindTool, "filter_tools"),
            (NextStep::LogIn { server: named() }, r#"core_auth_login {"server": "my \"server\""}"#),
            (
                NextStep::StartService { name: named() },
                r#"core_service_start {"name": "my \"server\""}"#,
            ),
            (
                NextStep::CallTool { name: "x_a".to_owned(), arguments },
                r#"{"name":"x_a","arguments":{"name":"<string>"}}"#,
            ),
        ] {
            assert_eq!(step.to_string(), written);
            let hint = format!("to go on: {written}");
            let (sentence, read) = NextStep::split_from(&hint).unwrap();
            assert_eq!((sentence, read.to_string().as_str()), ("to go on: ", written));
        }
    }

    #[test]
    fn most_hints_have_no_step() {
        for hint in [
            "write {this}",
            "`nam` is called `name`",
            r#"core_auth_login {"server": "a", "force": true}"#,
            r#"core_service_start {"server": "a"}"#,
            r#"send {"name": "x_a"}"#,
            "filter_tools finds it",
            "",
        ] {
            assert!(NextStep::split_from(hint).is_none(), "{hint}");
        }
    }
}
