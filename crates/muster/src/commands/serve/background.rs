//! `muster serve --background`, and the command lines that start a gateway in the background.

use std::{ffi::OsString, path::Path, process::ExitCode, time::Duration};

use muster_client::{
    local_gateway::{self, StartGatewayError},
    user_dirs,
};
use muster_engine::{events, state_folder::StateFolder};
use tracing::level_filters::LevelFilter;

use super::{Serve, args::SurfaceArg, config_path};
use crate::{
    error::CommandError,
    log,
    output::{Printer, shell_quoted},
    process,
};

/// The role of a background process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundRole {
    /// The gateway itself.
    Gateway,
    /// An intermediate process that starts the gateway and exits, so that the gateway is not a child of the client.
    Starter,
}

/// Starts the gateway in the background and prints how to reach it.
pub(super) fn run(args: &Serve) -> Result<ExitCode, CommandError> {
    if !args.silent {
        log::install(LevelFilter::INFO, log::ArgumentValues::Hidden, None, log::LogFormat::Text)?;
    }
    let config = config_path(args.config_path.as_ref())?;
    let folder = user_dirs::state_folder(&config, args.state_path.as_deref())?;
    let was_running = folder.owner().is_some();
    let arguments = args.arguments(&config, &folder, BackgroundRole::Gateway);
    process::block_on(async {
        let record = local_gateway::start(&folder, &arguments).await?;
        let endpoint = record.endpoint.unwrap_or_default();
        let begun =
            if was_running { "A gateway is already running" } else { "Started the gateway" };
        Printer::stdout().line(&format!(
            "{begun}: {endpoint} (pid {})\nLog: {}\nStop it with: {}",
            record.pid,
            folder.log_path().display(),
            args.stop_command(&config)
        ))
    })
}

impl Serve {
    /// The command that stops the gateway of a configuration directory.
    pub(super) fn stop_command(&self, config: &Path) -> String {
        let flag =
            |name: &str, path: &Path| format!(" {name} {}", shell_quoted(&path.to_string_lossy()));
        let state = self.state_path.as_deref().map(|state| flag("--state-path", state));
        format!("muster stop{}{}", flag("--config-path", config), state.unwrap_or_default())
    }

    /// The arguments that select what clients see, without defaults.
    pub(super) fn surface_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        match self.surface {
            SurfaceArg::Muster => (),
            SurfaceArg::Climax => arguments.extend(["--surface", "climax"].map(str::to_owned)),
            SurfaceArg::Auto => arguments.extend(["--surface", "auto"].map(str::to_owned)),
        }
        if let Some(tokens) = self.direct_tokens() {
            arguments.extend(["--direct-tokens".to_owned(), tokens.to_string()]);
        }
        let flags = [(self.read_tool, "--read-tool"), (self.ui_tools, "--ui-tools")];
        arguments.extend(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| (*flag).to_owned()));
        arguments
    }

    /// The arguments that start a gateway with these options in the background.
    pub(crate) fn arguments(
        &self,
        config: &Path,
        folder: &StateFolder,
        role: BackgroundRole,
    ) -> Vec<OsString> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        arguments.push(match role {
            BackgroundRole::Gateway => "--detached".into(),
            BackgroundRole::Starter => "--background".into(),
        });
        let mut pair = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        pair("--config-path", absolute(config).into());
        pair("--state-path", absolute(folder.path()).into());
        if let Some(port) = self.port {
            pair("--port", port.to_string().into());
        }
        if let Some(timeout) = self.idle_timeout {
            pair("--idle-timeout", format!("{}ms", timeout.as_millis()).into());
        }
        if self.log_format == log::LogFormat::Json {
            pair("--log-format", "json".into());
        }
        arguments.extend(self.surface_arguments().into_iter().map(Into::into));
        let flags = [
            (self.yolo, "--yolo"),
            (self.insecure_bind, "--insecure-bind"),
            (self.debug, "--debug"),
        ];
        arguments.extend(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| (*flag).into()));
        arguments.extend(self.logins.arguments());
        arguments
    }
}

/// Parses a duration such as `90s` or `10m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    events::duration(text).ok_or_else(|| "expected a duration such as 90s or 10m".to_owned())
}

impl From<StartGatewayError> for CommandError {
    fn from(error: StartGatewayError) -> Self {
        let made = Self::new(error.to_string());
        match error {
            StartGatewayError::Io(_) => made,
            StartGatewayError::Folder { .. } => made
                .hint("name a folder that you may write to with --state-path or MUSTER_STATE_PATH"),
            StartGatewayError::Ended { log, .. } | StartGatewayError::Slow { log } => {
                made.hint(format!("its log is {}", log.display()))
            }
        }
    }
}
