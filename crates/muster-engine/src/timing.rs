//! The timeouts, backoff and intervals of the engine.

use std::time::Duration;

/// Timeouts, backoff and debounce intervals of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineTiming {
    /// The backoff after a first failure to connect to a remote server; doubles with each further one.
    pub initial_backoff: Duration,
    /// The backoff after a local server did not start, or the connection to a server is lost; doubles with
    /// each further loss or failure.
    pub restart_backoff: Duration,
    /// The upper limit of every backoff.
    pub max_backoff: Duration,
    /// A connection that lasts this long resets the backoff.
    pub healthy_after: Duration,
    /// The pause between stopping and starting a server that is restarted.
    pub restart_pause: Duration,
    /// Changes of a server's lists within this time are one change.
    pub relist_debounce: Duration,
    /// Changes of files within this time are one change.
    pub file_debounce: Duration,
    /// Status changes within this time are written once.
    pub status_write_interval: Duration,
    /// How often files are read even if the watcher reports nothing.
    pub resync_interval: Duration,
    /// The timeout for closing a connection.
    pub close_timeout: Duration,
    /// The interval of health checks of a remote server; `None` for no checks, so that the next call notices a loss.
    pub check_interval: Option<Duration>,
}

impl Default for EngineTiming {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(30),
            restart_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(30 * 60),
            healthy_after: Duration::from_secs(10),
            restart_pause: Duration::from_millis(200),
            relist_debounce: Duration::from_millis(150),
            file_debounce: Duration::from_millis(200),
            status_write_interval: Duration::from_millis(200),
            resync_interval: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            check_interval: None,
        }
    }
}
