//! The commands of the REPL: names, usage, help.

/// A command.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) command: Command,
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) usage: &'static str,
    pub(crate) description: &'static str,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    List,
    Describe,
    Call,
    Get,
    Prompt,
    Filter,
    Notifications,
    Workflow,
    Context,
    Exit,
}

const fn spec(
    command: Command,
    name: &'static str,
    aliases: &'static [&'static str],
    usage: &'static str,
    description: &'static str,
) -> Spec {
    Spec { command, name, aliases, usage, description }
}

/// All commands, in the order of the help.
pub(crate) const ALL: [Spec; 11] = [
    spec(Command::Help, "help", &["?"], "help [command]", "Show the available commands"),
    spec(
        Command::List,
        "list",
        &["ls"],
        "list tools|resources|prompts|workflows|core-tools",
        "List tools, resources, prompts or workflows",
    ),
    spec(
        Command::Describe,
        "describe",
        &["desc", "info"],
        "describe tool|resource|prompt <name>",
        "Show a tool, resource or prompt in full",
    ),
    spec(
        Command::Call,
        "call",
        &["run", "exec"],
        "call <tool> [key=value ...] or call <tool> {json}",
        "Call a tool",
    ),
    spec(Command::Get, "get", &["fetch"], "get <uri>", "Read a resource"),
    spec(
        Command::Prompt,
        "prompt",
        &["template"],
        "prompt <name> [key=value ...] or prompt <name> {json}",
        "Get a prompt",
    ),
    spec(
        Command::Filter,
        "filter",
        &["find", "search"],
        "filter tools [pattern] [key=value ...]",
        "Find tools by name and description",
    ),
    spec(
        Command::Notifications,
        "notifications",
        &["notify"],
        "notifications on|off",
        "Whether to show change notifications",
    ),
    spec(
        Command::Workflow,
        "workflow",
        &["wf", "run-workflow"],
        "workflow <name> [key=value ...]",
        "Run a workflow",
    ),
    spec(
        Command::Context,
        "context",
        &["ctx"],
        "context [list | use <name> | <name>]",
        "List the contexts, or switch to one",
    ),
    spec(Command::Exit, "exit", &["quit", "q"], "exit", "Leave"),
];

/// Finds a command by its name or alias, ignoring case.
pub(crate) fn find(word: &str) -> Option<&'static Spec> {
    let word = word.to_lowercase();
    ALL.iter().find(|spec| spec.name == word || spec.aliases.contains(&word.as_str()))
}

/// The words that `list` accepts.
pub(crate) const LISTS: [&str; 5] = ["tools", "resources", "prompts", "workflows", "core-tools"];
/// The words that `describe` accepts.
pub(crate) const DESCRIBED: [&str; 3] = ["tool", "resource", "prompt"];
