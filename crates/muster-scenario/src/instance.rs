//! One gateway under test: its directory, port, mock servers, process and logs.
//!
//! **Invariant:** the processes of a scenario end with its [`Instance`], and those that a stopped gateway left
//! behind are reported.

mod files;
mod logs;
mod oauth;
mod orphans;
mod ports;
mod process;
pub(crate) mod ready;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use muster_core::hex;
use muster_exec::launcher::{Launcher, StartError};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    client::{Client, ClientError, ClientTarget, NotificationStream},
    duration,
    mock::{control::ControlServer, remote::RemoteMock},
    oauth::{Providers, records::UserIdentity, resource_guard::ResourceGuard},
    options::{DirectoryCleanup, RunOptions},
    scenario::{PreConfiguration, Scenario, ServerKind},
};
use files::FileContext;
use logs::Logs;
use ports::{Port, Ports};
use process::{Process, Shutdown};
use ready::ExpectedResources;

/// How long an instance may take to open its port.
const PORT_TIMEOUT: Duration = Duration::from_secs(60);
/// Another process may take the port between our check and the start.
const MAX_ATTEMPTS: u32 = 3;

/// Selects the access mode of a gateway.
const ACCESS_VARIABLE: &str = "MUSTER_ACCESS";
/// Names the state folder of a gateway.
const STATE_VARIABLE: &str = "MUSTER_STATE_PATH";

/// The environment that all instances of a run share.
#[derive(Debug)]
pub struct RunEnvironment {
    launcher: Launcher,
    muster: PathBuf,
    root: PathBuf,
    ports: Ports,
    directory_cleanup: DirectoryCleanup,
}

/// Why an instance is not running or not ready.
#[derive(Debug, Error)]
pub enum InstanceError {
    /// A directory, a file or a port cannot be used.
    #[error("cannot prepare the muster instance: {0}")]
    Setup(#[from] io::Error),
    /// The program cannot be started.
    #[error("cannot start `{}`: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: StartError,
    },
    /// It exited before it was ready.
    #[error("muster instance ended before it was ready ({0})")]
    Exited(String),
    /// Its port did not open in time.
    #[error("timeout waiting for muster instance port to be ready")]
    PortTimeout,
    /// Its port is open, but the handshake fails.
    #[error("muster instance does not respond: {0}")]
    Unresponsive(ClientError),
    /// It responds, but expected resources are missing.
    #[error(
        "muster instance not ready: timeout waiting for all expected resources to be available: {0}"
    )]
    NotReady(String),
}

/// A gateway under test.
#[derive(Debug)]
pub struct Instance {
    environment: Arc<RunEnvironment>,
    dir: PathBuf,
    port: Port,
    marker: String,
    setup: PreConfiguration,
    providers: Providers,
    /// The default bearer token, if the gateway requires a login.
    bearer: Option<String>,
    remotes: BTreeMap<String, RemoteMock>,
    control: ControlServer,
    logs: Logs,
    process: Option<Process>,
    expected: ExpectedResources,
    /// Processes left behind by earlier runs of its process.
    orphans: Vec<String>,
    deadline: Instant,
}

/// How an instance is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// `SIGTERM`, with time to shut down.
    Graceful,
    /// `SIGKILL`.
    Kill,
}

impl RunEnvironment {
    /// Creates the directory of a run.
    pub fn new(launcher: Launcher, options: &RunOptions) -> io::Result<Self> {
        let root = std::env::temp_dir().join(format!("muster-test-{}", random_hex()));
        fs::create_dir_all(&root)?;
        // The path is written to files and used from other directories.
        let muster = fs::canonicalize(&options.muster).unwrap_or_else(|_| options.muster.clone());
        let (ports, directory_cleanup) =
            (Ports::from(options.base_port), options.directory_cleanup);
        Ok(Self { launcher, muster, root, ports, directory_cleanup })
    }

    /// The parent of all instance directories.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for RunEnvironment {
    fn drop(&mut self) {
        if self.directory_cleanup == DirectoryCleanup::Remove {
            let _removed = fs::remove_dir_all(&self.root);
        }
    }
}

impl Instance {
    /// Writes the setup and starts the process, without waiting for it.
    pub async fn start(
        environment: &Arc<RunEnvironment>,
        scenario: &Scenario,
        deadline: Instant,
    ) -> Result<Self, InstanceError> {
        let dir = environment.root.join(directory_name(&scenario.name));
        fs::create_dir_all(dir.join("muster"))?;
        fs::create_dir_all(dir.join("mocks"))?;
        let providers = Providers::start(&scenario.setup.oauth_servers).await?;
        let remotes = remotes(&scenario.setup, &providers).await?;
        let idp = providers.muster().map(|provider| provider.state());
        let mut instance = Self {
            environment: Arc::clone(environment),
            dir,
            port: environment.ports.reserve()?,
            marker: random_hex(),
            setup: scenario.setup.clone(),
            bearer: idp.map(|idp| idp.mint(&UserIdentity::default(), "").access),
            providers,
            remotes,
            control: ControlServer::open().await?,
            logs: Logs::default(),
            process: None,
            expected: ExpectedResources::of(&scenario.setup),
            orphans: Vec::new(),
            deadline,
        };
        instance.write_files()?;
        instance.launch().await?;
        Ok(instance)
    }

    /// Waits until the gateway responds and offers everything in the setup.
    pub async fn ready(&mut self, target: &ClientTarget) -> Result<Client, InstanceError> {
        let mut attempt = 1;
        loop {
            match self.wait_for_port().await {
                Err(InstanceError::Exited(_))
                    if attempt < MAX_ATTEMPTS && self.port.is_in_use() =>
                {
                    attempt += 1;
                    self.port = self.environment.ports.reserve()?;
                    self.write_files()?;
                    self.launch().await?;
                }
                opened => break opened?,
            }
        }
        let target = ClientTarget { port: self.port.number(), ..target.clone() };
        let client =
            ready::connect(&target, self.deadline).await.map_err(InstanceError::Unresponsive)?;
        ready::wait_for_resources(&client, &self.expected, self.deadline)
            .await
            .map_err(InstanceError::NotReady)?;
        Ok(client)
    }

    async fn wait_for_port(&mut self) -> Result<(), InstanceError> {
        let limit = self.deadline.min(Instant::now() + PORT_TIMEOUT);
        let Some(process) = &mut self.process else {
            return Err(InstanceError::Exited("it was never started".to_owned()));
        };
        ready::wait_for_port(self.port.number(), process, limit).await
    }

    async fn launch(&mut self) -> Result<(), InstanceError> {
        let program = self.environment.muster.clone();
        let mut argv = vec![
            program.display().to_string(),
            "serve".to_owned(),
            "--config-path".to_owned(),
            self.dir.join("muster").display().to_string(),
            "--debug".to_owned(),
        ];
        argv.extend(self.setup.serve_args.iter().cloned());
        // Scenarios change the gateway as plain clients, unless they set another mode themselves.
        let state = self.dir.join("state").display().to_string();
        let mut env = vec![
            (ACCESS_VARIABLE.to_owned(), "open".to_owned()),
            (STATE_VARIABLE.to_owned(), state),
        ];
        env.extend(self.setup.env.iter().cloned());
        env.push((orphans::MARKER_VARIABLE.to_owned(), self.marker.clone()));
        let process = Process::start(&self.environment.launcher, argv, env, &self.logs)
            .await
            .map_err(|source| InstanceError::Spawn { program, source })?;
        self.process = Some(process);
        Ok(())
    }

    fn write_files(&self) -> io::Result<()> {
        let urls = self.remotes.iter().map(|(name, remote)| (name.clone(), remote.url()));
        let context = FileContext {
            trusted_issuers: &self.setup().trusted_issuers,
            dir: &self.dir,
            muster: &self.environment.muster,
            port: self.port.number(),
            control: self.control.port(),
            urls: urls.collect(),
            providers: &self.providers,
        };
        files::write(&files::plan(&self.setup, &context)?)
    }

    /// Restarts the process with the same directory and port. Processes it leaves behind are reported by
    /// [`Instance::stop`].
    pub async fn restart(
        &mut self,
        how: StopMode,
        target: &ClientTarget,
    ) -> Result<Client, InstanceError> {
        self.stop_process(how).await;
        self.launch().await?;
        self.ready(target).await
    }

    /// Stops the process; returns the processes it left behind, which are ended too.
    pub async fn stop(&mut self) -> Vec<String> {
        self.stop_process(StopMode::Graceful).await;
        std::mem::take(&mut self.orphans)
    }

    async fn stop_process(&mut self, how: StopMode) {
        let Some(mut process) = self.process.take() else { return };
        let shutdown = process.stop(how).await;
        if shutdown == Shutdown::Forced {
            let text = format!("did not end within {}", duration::short(process::STOP_TIMEOUT));
            self.logs.note(&text);
            self.orphans.push(format!("muster itself {text}"));
            return;
        }
        self.orphans.extend(orphans::wait(&self.marker).await);
        // A new marker for the next process, so that no orphan is reported twice.
        self.marker = random_hex();
        process.drain().await;
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// The target of a new session.
    pub fn target(&self, listening: NotificationStream) -> ClientTarget {
        ClientTarget {
            port: self.port(),
            session: session_id(),
            bearer: self.bearer.clone(),
            listening,
        }
    }

    /// The output of its processes.
    pub fn logs(&self) -> String {
        self.logs.text()
    }

    /// The mock identity providers.
    pub const fn providers(&self) -> &Providers {
        &self.providers
    }

    /// The mock identity providers, to kill or restart one.
    pub const fn providers_mut(&mut self) -> &mut Providers {
        &mut self.providers
    }

    /// The setup of the scenario.
    pub const fn setup(&self) -> &PreConfiguration {
        &self.setup
    }

    /// The port of a mock server in this process.
    pub(crate) fn remote_port(&self, name: &str) -> Option<u16> {
        self.remotes.get(name).map(RemoteMock::port)
    }

    /// A mock server in this process.
    pub fn remote(&mut self, name: &str) -> Option<&mut RemoteMock> {
        self.remotes.get_mut(name)
    }

    /// The control server for mocks that are processes.
    pub const fn control(&self) -> &ControlServer {
        &self.control
    }

    /// Writes a file below its configuration directory.
    pub fn write_file(&self, path: &str, text: &str) -> io::Result<()> {
        let path = files::below(&self.dir.join("muster"), path);
        files::write(&[files::PlannedFile { path, text: text.to_owned() }])
    }

    /// Deletes a file below its configuration directory.
    pub fn delete_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(files::below(&self.dir.join("muster"), path))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.environment.directory_cleanup == DirectoryCleanup::Remove {
            let _removed = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Starts the mock servers of this process, protected ones behind their guards.
async fn remotes(
    setup: &PreConfiguration,
    providers: &Providers,
) -> io::Result<BTreeMap<String, RemoteMock>> {
    let mut remotes = BTreeMap::new();
    for server in &setup.mcp_servers {
        let ServerKind::Remote { mock, transport, oauth } = &server.kind else { continue };
        let guard = oauth.as_deref().filter(|guard| guard.required);
        let guard = guard.and_then(|guard| {
            let provider = providers.get(guard.provider.as_deref()?)?;
            Some(ResourceGuard::new(Arc::clone(provider.state()), guard.clone()))
        });
        let remote = RemoteMock::behind(guard, &server.name, mock, *transport).await?;
        remotes.insert(server.name.clone(), remote);
    }
    Ok(remotes)
}

/// `test-<name>-<nanoseconds>`, with the name truncated and sanitized.
fn directory_name(scenario: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = scenario.chars().map(harmless).take(50).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("test-{name}-{nanos}")
}

/// Sixteen random hexadecimal digits.
pub fn random_hex() -> String {
    let mut bytes = [0; 8];
    // Fall back to the time: names only have to differ.
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes = (now.as_nanos() as u64).to_be_bytes();
    }
    hex::encode(&bytes)
}

/// A random id in the form of a UUID.
fn session_id() -> String {
    let digits = format!("{}{}", random_hex(), random_hex());
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
