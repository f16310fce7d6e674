//! The state folder of a gateway. Only one gateway can own a folder at a time.

use std::path::Path;

use muster_client::user_dirs;
use muster_config::settings::Settings;
use muster_engine::state_folder::{GatewayOwner, OwnError, Ownership, StateFolder};
use muster_exec::{environment::Environment, private_dir::PrivateDir};

use super::Serve;
use crate::{error::CommandError, output::shell_quoted, process};

/// Files and folders of a configuration directory that may hold secrets.
const SECRET_FILES: &[&str] = &[
    "config.yaml",
    "secrets",
    "mcpservers",
    "clis",
    "services",
    "serviceclasses",
    "workflows",
    "tokens.json",
    "token-usage.json",
];

/// The state folder of this process.
pub(super) enum GatewayState {
    /// A folder that outlives the process.
    Owned(Ownership),
    /// A temporary folder, because the usual one cannot be written to.
    Temporary(PrivateDir),
}

impl GatewayState {
    /// Takes ownership of the folder of a configuration directory. Fails if another gateway owns it.
    pub(super) fn take(args: &Serve, config: &Path) -> Result<Self, CommandError> {
        let chosen = args.state_path.clone().or_else(user_dirs::chosen_state);
        let folder = match user_dirs::state_folder(config, chosen.as_deref()) {
            Ok(folder) => folder,
            Err(error) => return temporary(&error.to_string()),
        };
        let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
        let idle_timeout = args.idle_timeout.map(|timeout| timeout.as_secs());
        match folder.own(&config, idle_timeout, options(args)) {
            Ok(ownership) => Ok(Self::Owned(ownership)),
            Err(OwnError::Owned(owner)) => Err(refusal(args, &config, &owner)),
            Err(error @ OwnError::Io { .. }) if chosen.is_some() => {
                Err(CommandError::new(error.to_string())
                    .hint("name another folder with --state-path or MUSTER_STATE_PATH"))
            }
            Err(error) => temporary(&error.to_string()),
        }
    }

    /// The environment of commands. The state folder, the configuration files that may hold secrets and the secret files
    /// that the settings name are private paths, but not the whole configuration directory, which may also hold a project.
    pub(super) fn environment(&self, config: &Path, settings: &Settings) -> Environment {
        let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
        let files = SECRET_FILES.iter().map(|file| config.join(file));
        let named = settings.secret_files().filter_map(|file| std::path::absolute(file).ok());
        process::environment()
            .with_private_paths(files.chain(named).chain([self.path().to_owned()]))
    }

    /// The path of the folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Owned(ownership) => ownership.folder().path(),
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// The folder; `None` for a temporary one, which clients cannot find.
    pub(super) const fn folder(&self) -> Option<&StateFolder> {
        match self {
            Self::Owned(ownership) => Some(ownership.folder()),
            Self::Temporary(_) => None,
        }
    }

    /// Publishes the URL for clients.
    pub(super) fn publish(&mut self, url: &str) {
        if let Self::Owned(ownership) = self
            && let Err(error) = ownership.publish(url)
        {
            tracing::warn!("clients cannot find this gateway by its folder: {error}");
        }
    }
}

/// Creates a temporary state folder, so that a gateway also works on a read-only file system.
fn temporary(reason: &str) -> Result<GatewayState, CommandError> {
    let dir = PrivateDir::create().map_err(|error| {
        CommandError::new(format!("there is no folder for state: {reason}; {error}"))
            .hint("name a folder that can be written to with --state-path")
    })?;
    tracing::warn!(
        "{reason}: executions, events and stored outputs are lost when the gateway ends (name a folder with --state-path)"
    );
    Ok(GatewayState::Temporary(dir))
}

/// The options that change what every client sees.
pub(crate) fn options(args: &Serve) -> Vec<String> {
    let mut options = Vec::new();
    let surface = args.surface_arguments();
    if !surface.is_empty() {
        options.push(surface.join(" "));
    }
    if args.yolo {
        options.push("--yolo".to_owned());
    }
    options
}

fn refusal(args: &Serve, config: &Path, owner: &GatewayOwner) -> CommandError {
    let stop = args.stop_command(config);
    let config = shell_quoted(&config.to_string_lossy());
    let pid = owner.pid.map(|pid| format!("pid {pid}"));
    let endpoint = owner.record.as_ref().and_then(|record| record.endpoint.clone());
    let known: Vec<String> = pid.into_iter().chain(endpoint.clone()).collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    let error = CommandError::new(format!("a gateway is already running for {config}{known}"));
    let error = match endpoint {
        Some(url) => error.hint(format!("use it: `muster agent --repl --endpoint {url}`")),
        None => error,
    };
    error.hint(format!("or stop it: `{stop}`"))
}
