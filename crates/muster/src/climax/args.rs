//! The command line of `climax`. The doc comments are the `--help` text.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing::level_filters::LevelFilter;

use crate::output::Format;

/// Turn any CLI into MCP tools
///
/// CLImax reads a YAML file that describes a command line program and serves it to AI agents over
/// MCP. Agents see two tools: `climax_search` finds what there is, `climax_call` runs it.
#[derive(Debug, Parser)]
#[command(name = "climax", version, infer_long_args = true, after_help = AFTER_HELP)]
pub struct ClimaxCli {
    #[command(subcommand)]
    pub(super) command: Command,
}

const AFTER_HELP: &str = "\
`run` may be left out: `climax git` is `climax run git`.

Options of run:
      --policy FILE        restrict tools and arguments by the rules of a file
      --classic            show every tool directly
      --transport NAME     stdio, or streamable-http
      --port N             the port of streamable-http
      --log-level LEVEL    the least important log lines that are written

Examples:
  climax git                      serve the bundled git tools on stdin/stdout
  climax my-cli.yaml git docker   serve several CLIs as one server
  climax list git                 show the tools of a config
  climax validate my-cli.yaml     check a config before using it

In an agent's MCP configuration:
  {\"mcpServers\": {\"git\": {\"command\": \"climax\", \"args\": [\"git\"]}}}";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(Run),
    Validate(Validate),
    List(List),
    Show(Show),
    Skill(Skill),
    Tokens(Tokens),
    #[command(alias = "completion")]
    Completions(Completions),
}

/// Serve the tools of one or more configs over MCP
///
/// Speaks MCP on standard input and output until the client closes its end. Log lines go to standard
/// error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax run git
  climax run git docker --policy read-only.yaml
  climax run my-cli.yaml --classic --log-level DEBUG
  climax run git mcp.json --transport streamable-http --port 8091")]
pub struct Run {
    /// Config files, or names of bundled configs (see `climax list`); MCP servers by their YAML file
    /// or by an agent's `mcp.json`
    #[arg(value_name = "CONFIG", required = true)]
    pub(super) configs: Vec<String>,
    /// Restrict which tools exist and what arguments they take, by the rules of this file
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Show every tool directly, in place of `climax_search` and `climax_call`
    #[arg(long)]
    pub(super) classic: bool,
    /// How the client is connected
    #[arg(long, value_enum, default_value_t)]
    pub(super) transport: Transport,
    /// The port for `--transport streamable-http`; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 8091)]
    pub(super) port: u16,
    /// The least important log lines that are still written
    #[arg(long, value_enum, default_value_t)]
    pub(super) log_level: LogLevel,
}

/// Check configs, and a policy, without running anything
///
/// Names every problem with its place. Ends with status 1 when anything is invalid.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax validate my-cli.yaml
  climax validate git docker --policy read-only.yaml
  climax validate my-cli.yaml --output json")]
pub struct Validate {
    /// Config files, or names of bundled configs
    #[arg(value_name = "CONFIG", required = true)]
    pub(super) configs: Vec<String>,
    /// Check this policy file too
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Show the tools of configs, or the names of the bundled ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax list
  climax list git
  climax list git docker --policy read-only.yaml
  climax list git --output json")]
pub struct List {
    /// Config files, or names of bundled configs; none lists the bundled names
    #[arg(value_name = "CONFIG")]
    pub(super) configs: Vec<String>,
    /// Show what is left under this policy
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Print a bundled config, to read or to start your own from
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax show git
  climax show git > my-git.yaml")]
pub struct Show {
    /// The name of a bundled config; `climax list` shows them
    #[arg(value_name = "NAME")]
    pub(super) name: String,
}

/// Print the skill that teaches an agent to write a config
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax skill
  climax skill --install")]
pub struct Skill {
    /// Print the path of the skill file instead
    #[arg(long, conflicts_with = "install")]
    pub(super) path: bool,
    /// Install it as a command of this project: .claude/commands/climax-config.md
    #[arg(long)]
    pub(super) install: bool,
}

/// Count what the tool list of configs costs an agent, in tokens
///
/// Compares classic mode, where every tool is listed, with the two tools of discovery mode.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax tokens git
  climax tokens git docker obsidian
  climax tokens my-cli.yaml --output json")]
pub struct Tokens {
    /// Config files, or names of bundled configs
    #[arg(value_name = "CONFIG", required = true)]
    pub(super) configs: Vec<String>,
    /// Count what is left under this policy
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  climax completions bash > /etc/bash_completion.d/climax
  climax completions fish > ~/.config/fish/completions/climax.fish")]
pub struct Completions {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Transport {
    /// Standard input and output
    #[default]
    Stdio,
    /// HTTP, for clients that connect to an address
    StreamableHttp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum LogLevel {
    #[value(name = "DEBUG")]
    Debug,
    #[value(name = "INFO")]
    Info,
    #[default]
    #[value(name = "WARNING")]
    Warning,
    #[value(name = "ERROR")]
    Error,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Info => Self::INFO,
            LogLevel::Warning => Self::WARN,
            LogLevel::Error => Self::ERROR,
        }
    }
}

/// The names of all commands.
pub(super) const COMMANDS: [&str; 9] =
    ["run", "validate", "list", "show", "skill", "tokens", "completions", "completion", "help"];
const OPTIONS_WITH_VALUE: [&str; 5] =
    ["--policy", "--log-level", "--transport", "--port", "--output"];
const ASKS_ABOUT_ALL: [&str; 4] = ["--help", "-h", "--version", "-V"];

/// Moves the command in front of its options, and inserts `run` if no command is named.
pub(super) fn with_command(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let program: Vec<OsString> = words.next().into_iter().collect();
    let mut words: Vec<OsString> = words.collect();
    let command = match first_plain_word(&words) {
        Some(place) if words.get(place).is_some_and(is_command) => words.remove(place),
        Some(_) => OsString::from("run"),
        None if words.first().is_some_and(asks_about_all) => {
            return program.into_iter().chain(words).collect();
        }
        None => OsString::from("run"),
    };
    program.into_iter().chain([command]).chain(words).collect()
}

/// The position of the first word that is neither an option nor an option's value.
fn first_plain_word(words: &[OsString]) -> Option<usize> {
    let mut value_follows = false;
    words.iter().position(|word| {
        let text = word.to_string_lossy();
        let plain = !value_follows && !text.starts_with('-');
        value_follows = text.len() > 2
            && OPTIONS_WITH_VALUE.iter().any(|option| option.starts_with(text.as_ref()));
        plain
    })
}

fn is_command(word: &OsString) -> bool {
    COMMANDS.iter().any(|command| word == command)
}

fn asks_about_all(word: &OsString) -> bool {
    ASKS_ABOUT_ALL.iter().any(|option| word == option)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{ClimaxCli, with_command};

    #[track_caller]
    fn check(typed: &str, expect: &str) {
        let words = std::iter::once("climax").chain(typed.split_whitespace());
        let words = with_command(words.map(Into::into).collect());
        let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn run_may_be_left_out() {
        check("git", "run git");
        check("--classic git", "run --classic git");
        check("--log-level INFO git", "run --log-level INFO git");
        check("--policy p.yaml git", "run --policy p.yaml git");
        check("", "run");
        check("--classic", "run --classic");
    }

    #[test]
    fn a_command_is_found_behind_options() {
        check("list git", "list git");
        check("--log-level INFO run git", "run --log-level INFO git");
        check("--policy list x.yaml", "run --policy list x.yaml");
        check("--log INFO git", "run --log INFO git");
        check("--policy=p.yaml validate x.yaml", "validate --policy=p.yaml x.yaml");
    }

    #[test]
    fn questions_about_the_whole_program_stay() {
        check("--help", "--help");
        check("-V", "-V");
        check("git --help", "run git --help");
    }

    #[test]
    fn the_help_names_the_options_of_run() {
        let help = ClimaxCli::command().render_help().to_string();
        let command = ClimaxCli::command();
        let run = command.find_subcommand("run").unwrap();
        for option in run.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(option == "help" || help.contains(&format!("--{option}")), "--{option}");
        }
    }

    #[test]
    fn the_command_tree_is_sound() {
        ClimaxCli::command().debug_assert();
    }
}
