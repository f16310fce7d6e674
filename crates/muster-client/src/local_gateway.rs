//! The gateway of a configuration directory on this machine: found by its state folder, and started on demand.

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use muster_core::backend::BoxFuture;
use muster_engine::state_folder::{ClientPresence, GatewayOwner, GatewayRecord, StateFolder};
use muster_exec::detached::DetachedProcess;
use muster_mcp_client::bridge::{LocateError, Need, UpstreamLocator};
use thiserror::Error;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use crate::user_dirs;

/// The polling interval while a gateway is starting or stopping.
const POLL: Duration = Duration::from_millis(20);
/// How long a gateway may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait before a slow start is reported.
const QUIET_START: Duration = Duration::from_secs(2);
/// The number of log lines in an error.
const LOG_LINES: usize = 6;

/// Why a gateway did not start.
#[derive(Debug, Error)]
pub enum StartGatewayError {
    /// Its state folder cannot be created.
    #[error("the state folder {} cannot be used: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its log cannot be written, or its program cannot be started.
    #[error("cannot start the gateway: {0}")]
    Io(#[from] io::Error),
    /// It exited.
    #[error("the gateway did not start: {reason}")]
    Ended {
        /// The end of its log.
        reason: String,
        /// Its log.
        log: PathBuf,
    },
    /// It did not listen within the timeout.
    #[error("the gateway does not listen after {} seconds", START_TIMEOUT.as_secs())]
    Slow {
        /// Its log.
        log: PathBuf,
    },
}

/// Starts `muster` with `arguments` in the background, unless a gateway owns `folder`, and waits until it listens.
pub async fn start(
    folder: &StateFolder,
    arguments: &[OsString],
) -> Result<GatewayRecord, StartGatewayError> {
    folder.create().map_err(|source| {
        let path = folder.path().to_owned();
        StartGatewayError::Folder { path, source }
    })?;
    let (began, log) = (Instant::now(), folder.log_path());
    let mut process = None;
    let mut is_announced = false;
    loop {
        match (folder.owner(), &mut process) {
            (Some(GatewayOwner { record: Some(record), .. }), _) if record.endpoint.is_some() => {
                return Ok(record);
            }
            (Some(_), _) => (),
            (None, None) => {
                let home = user_dirs::home().unwrap_or_else(|_| PathBuf::from("/"));
                process = Some(DetachedProcess::start(arguments, &home, &log)?);
            }
            (None, Some(started)) => {
                if started.ended()?.is_some() {
                    let reason = last_lines(&started.said()?);
                    return Err(StartGatewayError::Ended { reason, log });
                }
            }
        }
        if began.elapsed() > START_TIMEOUT {
            return Err(StartGatewayError::Slow { log });
        }
        if began.elapsed() > QUIET_START && !std::mem::replace(&mut is_announced, true) {
            tracing::info!("waiting for the gateway to start; its log is {}", log.display());
        }
        sleep(POLL).await;
    }
}

/// The last lines of a log, without blank ones.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
    match shown {
        [] => "it said nothing".to_owned(),
        shown => shown.join("\n"),
    }
}

/// Waits until no gateway owns a folder. Returns `false` if one still does after `limit`.
pub async fn stopped(folder: &StateFolder, limit: Duration) -> bool {
    let began = Instant::now();
    while folder.owner().is_some() {
        if began.elapsed() > limit {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

/// The URL by which programs on this machine reach a gateway that listens on `endpoint`.
pub fn local_url(endpoint: &str) -> String {
    ["http://0.0.0.0:", "http://[::]:"]
        .iter()
        .find_map(|any| endpoint.strip_prefix(any))
        .map_or_else(|| endpoint.to_owned(), |rest| format!("http://localhost:{rest}"))
}

/// The gateway that serves the clients of a configuration directory.
#[derive(Debug)]
pub struct LocalGateway {
    folder: StateFolder,
    /// The arguments that start it in the background.
    arguments: Vec<OsString>,
    /// The options that this client asks for. A gateway that another client started may have different ones.
    options: Vec<String>,
    /// The pid of the gateway that was last found. Locked while it is found or started, so that concurrent requests
    /// start only one.
    finding: Mutex<Option<u32>>,
    /// Keeps the gateway from ending when it is idle.
    _presence: Option<ClientPresence>,
}

impl LocalGateway {
    /// The gateway of `folder`, started on demand with `arguments`.
    pub fn new(folder: StateFolder, arguments: Vec<OsString>, options: Vec<String>) -> Self {
        let presence = folder
            .attach_client()
            .inspect_err(|error| tracing::debug!("the gateway may end when it is idle: {error}"))
            .ok();
        Self { folder, arguments, options, finding: Mutex::new(None), _presence: presence }
    }

    async fn find(&self, need: Need) -> Result<String, LocateError> {
        let mut known = self.finding.lock().await;
        let owner = self.folder.owner().and_then(|owner| owner.record);
        let record = match (owner.filter(|record| record.endpoint.is_some()), need) {
            (Some(record), _) => record,
            (None, Need::Listen) => {
                return Err(LocateError::NotRunning("the gateway is not running".to_owned()));
            }
            (None, Need::Message) => {
                tracing::info!("starting the gateway");
                start(&self.folder, &self.arguments).await.map_err(|error| {
                    tracing::error!("{error}");
                    LocateError::Failed(error.to_string())
                })?
            }
        };
        let url = local_url(record.endpoint.as_deref().unwrap_or_default());
        if known.replace(record.pid) != Some(record.pid) {
            tracing::info!("connected to the gateway at {url} (pid {})", record.pid);
            self.warn_of_options(&record);
        }
        Ok(url)
    }

    fn warn_of_options(&self, record: &GatewayRecord) {
        if record.options != self.options {
            let shown = |options: &[String]| match options {
                [] => "none".to_owned(),
                options => options.join(" "),
            };
            tracing::warn!(
                "the running gateway was started with other options ({}) than this client asks for ({}); `muster stop` \
                 ends it, and the next client restarts it",
                shown(&record.options),
                shown(&self.options)
            );
        }
    }
}

impl UpstreamLocator for LocalGateway {
    fn locate(&self, need: Need) -> BoxFuture<'_, Result<String, LocateError>> {
        Box::pin(self.find(need))
    }
}

#[cfg(test)]
mod tests {
    use super::{last_lines, local_url};

    #[test]
    fn urls_for_programs_on_this_machine() {
        assert_eq!(local_url("http://0.0.0.0:1/mcp"), "http://localhost:1/mcp");
        assert_eq!(local_url("http://[::]:1/mcp"), "http://localhost:1/mcp");
        assert_eq!(local_url("http://127.0.0.1:1/mcp"), "http://127.0.0.1:1/mcp");
    }

    #[test]
    fn the_end_of_a_log() {
        assert_eq!(last_lines("\n"), "it said nothing");
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n7\n"), "2\n3\n4\n5\n6\n7");
    }
}
