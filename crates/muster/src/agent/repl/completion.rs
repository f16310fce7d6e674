//! Completion of the line being typed.

use muster_client::{inventory::Inventory, remote::ListKind};

use super::commands::{self, Command};

/// The aliases that are completed in addition to the names of commands.
const ALIASES: [&str; 5] = ["wf", "run-workflow", "ctx", "quit", "?"];

/// A completion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate(pub(crate) String);

impl rustyline::completion::Candidate for Candidate {
    fn display(&self) -> &str {
        self.0.trim_end()
    }

    fn replacement(&self) -> &str {
        &self.0
    }
}

/// Completes `typed`. Returns the position from which candidates replace the text, and the candidates.
pub(crate) fn candidates(
    typed: &str,
    inventory: &Inventory,
    contexts: &[String],
) -> (usize, Vec<Candidate>) {
    let begin = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = typed.split_at(begin);
    let words: Vec<&str> = before.split_whitespace().collect();
    let Some((first, rest)) = words.split_first() else {
        let names = commands::ALL.iter().map(|spec| spec.name).chain(ALIASES);
        return (begin, fitting(names, word, " "));
    };
    let Some(spec) = commands::find(first) else { return (begin, Vec::new()) };
    let found = match (spec.command, rest) {
        (Command::List, []) => fitting(commands::LISTS, word, " "),
        (Command::Help, []) => fitting(commands::ALL.iter().map(|spec| spec.name), word, " "),
        (Command::Describe, []) => fitting(commands::DESCRIBED, word, " "),
        (Command::Describe, ["tool" | "tools"]) => {
            fitting(inventory.names(ListKind::Tools), word, " ")
        }
        (Command::Describe, ["resource" | "resources"]) | (Command::Get, []) => {
            fitting(inventory.names(ListKind::Resources), word, " ")
        }
        (Command::Describe, ["prompt" | "prompts"]) | (Command::Prompt, []) => {
            fitting(inventory.names(ListKind::Prompts), word, " ")
        }
        (Command::Filter, []) => fitting(["tools"], word, " "),
        (Command::Notifications, []) => fitting(["on", "off"], word, " "),
        (Command::Context, []) => {
            let names = contexts.iter().map(String::as_str);
            fitting(["list", "use"].into_iter().chain(names), word, " ")
        }
        (Command::Context, ["use" | "switch"]) => {
            fitting(contexts.iter().map(String::as_str), word, " ")
        }
        (Command::Call, []) => fitting(inventory.names(ListKind::Tools), word, " "),
        (Command::Call, [tool, given @ ..]) => parameters(tool_keys(inventory, tool), given, word),
        (Command::Workflow, []) => fitting(inventory.workflows(), word, " "),
        (Command::Workflow, [name, given @ ..]) => {
            parameters(tool_keys(inventory, &format!("workflow_{name}")), given, word)
        }
        (Command::Prompt, [name, given @ ..]) => {
            parameters(prompt_keys(inventory, name), given, word)
        }
        _ => Vec::new(),
    };
    (begin, found)
}

fn tool_keys(inventory: &Inventory, tool: &str) -> Vec<String> {
    let parameters = inventory.tool(tool).map(|tool| tool.parameters()).unwrap_or_default();
    parameters.into_iter().map(|parameter| parameter.name.to_owned()).collect()
}

fn prompt_keys(inventory: &Inventory, name: &str) -> Vec<String> {
    let prompt = inventory.prompts.iter().find(|prompt| prompt.name == name);
    let arguments = prompt.map(|prompt| prompt.arguments.as_slice()).unwrap_or_default();
    arguments.iter().map(|argument| argument.name.clone()).collect()
}

/// Completes the names of arguments that are not given yet.
fn parameters(keys: Vec<String>, given: &[&str], word: &str) -> Vec<Candidate> {
    let is_new = |key: &String| !given.iter().any(|word| word.starts_with(&format!("{key}=")));
    let keys: Vec<String> = keys.into_iter().filter(is_new).map(|key| format!("{key}=")).collect();
    fitting(keys.iter().map(String::as_str), word, "")
}

fn fitting<'a>(
    names: impl IntoIterator<Item = &'a str>,
    word: &str,
    after: &str,
) -> Vec<Candidate> {
    let fitting = names.into_iter().filter(|name| name.starts_with(word));
    fitting.map(|name| Candidate(format!("{name}{after}"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::candidates;
    use muster_client::inventory::{Inventory, ToolInfo};

    fn seen(typed: &str) -> Vec<String> {
        let tool = |name: &str| ToolInfo {
            name: name.to_owned(),
            schema: json!({"properties": {"word": {}, "wide": {}}}),
            ..ToolInfo::default()
        };
        let inventory = Inventory {
            tools: vec![tool("cli_show"), tool("workflow_deploy")],
            resources: serde_json::from_value(json!([{"uri": "a://b"}])).unwrap(),
            prompts: serde_json::from_value(
                json!([{"name": "greet", "arguments": [{"name": "who"}]}]),
            )
            .unwrap(),
            login_required: Vec::new(),
        };
        let (_, found) = candidates(typed, &inventory, &["lab".to_owned()]);
        found.into_iter().map(|candidate| candidate.0).collect()
    }

    #[test]
    fn what_comes_next_is_known() {
        assert_eq!(seen("de"), ["describe "]);
        assert_eq!(seen("list wo"), ["workflows "]);
        assert_eq!(seen("call c"), ["cli_show "]);
        assert_eq!(seen("CALL cli_show w"), ["word=", "wide="]);
        assert_eq!(seen("call cli_show word=1 "), ["wide="]);
        assert_eq!(seen("get "), ["a://b "]);
        assert_eq!(seen("prompt greet "), ["who="]);
        assert_eq!(seen("wf d"), ["deploy "]);
        assert_eq!(seen("wf deploy word=a wi"), ["wide="]);
        assert_eq!(seen("ctx l"), ["list ", "lab "]);
        assert_eq!(seen("nonsense x"), Vec::<String>::new());
    }
}
