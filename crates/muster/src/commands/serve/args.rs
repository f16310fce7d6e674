//! The arguments of `muster serve` and `muster standalone`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{LoginFlags, background};
use crate::{error::CommandError, log::LogFormat};

/// Serve all configured servers and CLIs at one endpoint
///
/// Reads `config.yaml` and the definitions in the folders of the configuration directory, or with `kubernetes: true` the
/// resources of a namespace, and applies their changes. Of the bundled CLIs whose programs are installed, it offers the
/// tools that read, and only on this machine; `muster enable cli NAME` switches on the others.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster serve
  muster serve --config-path ./gateway --debug
  muster serve --port 8091
  muster serve --background
  muster serve --surface climax")]
pub(crate) struct Serve {
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// The folder for the gateway's own state [default: one below ~/.local/state/muster]
    #[arg(long, value_name = "DIR")]
    pub(crate) state_path: Option<PathBuf>,
    /// The port to listen on, instead of the configured one; 0 for any free port
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Start the gateway in the background, and return when it listens
    #[arg(long)]
    pub(crate) background: bool,
    /// End the gateway when nobody has used it for this long, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = background::parse_duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Leave the session of the process that starts it
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// What clients see of the tools
    #[arg(long, value_enum, default_value_t)]
    pub(crate) surface: SurfaceArg,
    /// With --surface auto: list the tools themselves while they cost at most this many tokens [default: 4000]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) direct_tokens: Option<usize>,
    /// List read_tool beside call_tool, for clients in which people can allow tools that only read once and for all
    #[arg(long)]
    pub(crate) read_tool: bool,
    /// List tools with an interactive UI by their own names, for clients that can show it
    #[arg(long)]
    pub(crate) ui_tools: bool,
    /// Allow destructive tools
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Let anyone who reaches the address call tools, without a login or token
    #[arg(long)]
    pub(crate) insecure_bind: bool,
    /// Write debug log lines
    #[arg(long, conflicts_with = "silent")]
    pub(crate) debug: bool,
    /// The form of log lines: for people, or a JSON object on each line
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    /// Write no log lines
    #[arg(long)]
    pub(crate) silent: bool,
    /// Accepted for compatibility: events are always recorded
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", hide = true)]
    pub(crate) enable_events: Option<String>,
    #[command(flatten)]
    pub(crate) logins: LoginFlags,
}

/// The default token budget for listing tools directly with `--surface auto`.
const DIRECT_TOKENS: usize = 4_000;

impl Serve {
    /// Refuses flags that the surface would ignore.
    pub(crate) fn check_surface_flags(&self) -> Result<(), CommandError> {
        let refused = |flag: &str, surface: &str| {
            let message = format!("{flag} has no effect with --surface {surface}");
            Err(CommandError::new(message))
        };
        match self.surface {
            SurfaceArg::Auto => Ok(()),
            SurfaceArg::Climax if self.direct_tokens.is_some() => {
                refused("--direct-tokens", "climax")
            }
            SurfaceArg::Climax if self.read_tool => refused("--read-tool", "climax"),
            SurfaceArg::Climax if self.ui_tools => refused("--ui-tools", "climax"),
            SurfaceArg::Muster if self.direct_tokens.is_some() => {
                refused("--direct-tokens", "muster").map_err(|error: CommandError| {
                    error
                        .hint("add --surface auto to list the tools themselves while there are few")
                })
            }
            SurfaceArg::Climax | SurfaceArg::Muster => Ok(()),
        }
    }

    /// The token budget for listing tools directly; `None` if they are never listed directly.
    pub(super) fn direct_tokens(&self) -> Option<usize> {
        let tokens = self.direct_tokens.unwrap_or(DIRECT_TOKENS);
        (self.surface == SurfaceArg::Auto).then_some(tokens)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SurfaceArg {
    /// The meta-tools of muster
    #[default]
    Muster,
    /// The meta-tools of CLImax: climax_search and climax_call
    Climax,
    /// The tools themselves while there are few, the meta-tools of muster otherwise
    Auto,
}
