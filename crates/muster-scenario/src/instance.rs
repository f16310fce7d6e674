//! One muster under test: its directory, its port, its mock servers, its process, its logs.
//!
//! **Invariant:** whatever becomes of a scenario, its processes end with its [`Instance`], and those
//! that a stopped instance has left behind are named.

mod files;
mod logs;
mod oauth;
mod ports;
mod process;
mod ready;
mod survivors;
mod yaml;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use muster_exec::launcher::{Launcher, StartError};
use thiserror::Error;
use tokio::time::Instant;

use crate::{
    client::{Client, Failure, Listening, Target},
    duration,
    mock::{control::Switchboard, remote::RemoteMock},
    oauth::{Providers, book::Person, door::Door},
    options::Directories,
    scenario::{PreConfiguration, Scenario, ServerKind},
};
use files::Surroundings;
use logs::Logs;
use ports::{Port, Ports};
use process::{Process, Signalled};
use ready::Wanted;

/// How long an instance may take to open its port, where the scenario says nothing.
const PORT_LIMIT: Duration = Duration::from_secs(60);
/// Somebody else may take a port between our look and the start.
const ATTEMPTS: u32 = 3;

/// What all instances of a run share.
#[derive(Debug)]
pub struct Ground {
    launcher: Launcher,
    muster: PathBuf,
    root: PathBuf,
    ports: Ports,
    directories: Directories,
}

/// Why there is no instance.
#[derive(Debug, Error)]
pub enum NotStarted {
    /// A directory, a file or a port is not to be had.
    #[error("cannot prepare the muster instance: {0}")]
    Unprepared(#[from] io::Error),
    /// The program does not start.
    #[error("cannot start `{}`: {source}", program.display())]
    NoProcess {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: StartError,
    },
    /// It ended before it was ready.
    #[error("muster instance ended before it was ready ({0})")]
    Ended(String),
    /// Its port stays closed.
    #[error("timeout waiting for muster instance port to be ready")]
    NoPort,
    /// Its port is open, but it does not speak.
    #[error("muster instance does not answer: {0}")]
    Mute(Failure),
    /// It speaks, but something is missing.
    #[error(
        "muster instance not ready: timeout waiting for all expected resources to be available: {0}"
    )]
    Incomplete(String),
}

/// A muster under test.
#[derive(Debug)]
pub struct Instance {
    ground: Arc<Ground>,
    dir: PathBuf,
    port: Port,
    mark: String,
    before: PreConfiguration,
    providers: Providers,
    /// What its users come with, if it asks for a login.
    bearer: Option<String>,
    remotes: BTreeMap<String, RemoteMock>,
    switchboard: Switchboard,
    logs: Logs,
    process: Option<Process>,
    wanted: Wanted,
    /// Processes that outlived an earlier life of it.
    left: Vec<String>,
    deadline: Instant,
}

/// How an instance is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Asked to, and given time.
    Asked,
    /// Killed, without time for anything.
    Killed,
}

impl Ground {
    /// Makes the directory of a run.
    pub fn new(
        launcher: Launcher,
        muster: PathBuf,
        base_port: u16,
        directories: Directories,
    ) -> io::Result<Self> {
        let root = std::env::temp_dir().join(format!("muster-test-{}", random_hex()));
        fs::create_dir_all(&root)?;
        // The command of a mock stands in a file and is run from elsewhere.
        let muster = fs::canonicalize(&muster).unwrap_or(muster);
        Ok(Self { launcher, muster, root, ports: Ports::from(base_port), directories })
    }

    /// Where the directories of the instances are.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.directories == Directories::Remove {
            let _left = fs::remove_dir_all(&self.root);
        }
    }
}

impl Instance {
    /// Prepares everything and starts the process, without waiting for it.
    pub async fn start(
        ground: &Arc<Ground>,
        scenario: &Scenario,
        deadline: Instant,
    ) -> Result<Self, NotStarted> {
        let dir = ground.root.join(directory_name(&scenario.name));
        fs::create_dir_all(dir.join("muster"))?;
        fs::create_dir_all(dir.join("mocks"))?;
        let providers = Providers::start(&scenario.before.oauth_servers).await?;
        let remotes = remotes(&scenario.before, &providers).await?;
        let idp = providers.muster().map(|provider| provider.core());
        let mut instance = Self {
            ground: Arc::clone(ground),
            dir,
            port: ground.ports.take()?,
            mark: random_hex(),
            before: scenario.before.clone(),
            bearer: idp.map(|idp| idp.mint(&Person::default(), "").access),
            providers,
            remotes,
            switchboard: Switchboard::open().await?,
            logs: Logs::default(),
            process: None,
            wanted: Wanted::by(&scenario.before),
            left: Vec::new(),
            deadline,
        };
        instance.write_files()?;
        instance.launch().await?;
        Ok(instance)
    }

    /// Waits until it listens, speaks, and offers what the scenario has prepared.
    pub async fn ready(&mut self, target: &Target) -> Result<Client, NotStarted> {
        let mut attempt = 1;
        loop {
            match self.port_opens().await {
                Err(NotStarted::Ended(_)) if attempt < ATTEMPTS && self.port.is_taken() => {
                    attempt += 1;
                    self.port = self.ground.ports.take()?;
                    self.write_files()?;
                    self.launch().await?;
                }
                opened => break opened?,
            }
        }
        let target = Target { port: self.port.number(), ..target.clone() };
        let client = ready::connect(&target, self.deadline).await.map_err(NotStarted::Mute)?;
        ready::complete(&client, &self.wanted, self.deadline)
            .await
            .map_err(NotStarted::Incomplete)?;
        Ok(client)
    }

    async fn port_opens(&mut self) -> Result<(), NotStarted> {
        let limit = self.deadline.min(Instant::now() + PORT_LIMIT);
        let Some(process) = &mut self.process else {
            return Err(NotStarted::Ended("it was never started".to_owned()));
        };
        ready::port(self.port.number(), process, limit).await
    }

    async fn launch(&mut self) -> Result<(), NotStarted> {
        let program = self.ground.muster.clone();
        let mut words = vec![
            program.display().to_string(),
            "serve".to_owned(),
            "--config-path".to_owned(),
            self.dir.join("muster").display().to_string(),
            "--debug".to_owned(),
        ];
        words.extend(self.before.serve_args.iter().cloned());
        let mut env = self.before.env.clone();
        env.push((survivors::VARIABLE.to_owned(), self.mark.clone()));
        let process = Process::start(&self.ground.launcher, words, env, &self.logs)
            .await
            .map_err(|source| NotStarted::NoProcess { program, source })?;
        self.process = Some(process);
        Ok(())
    }

    fn write_files(&self) -> io::Result<()> {
        let urls = self.remotes.iter().map(|(name, remote)| (name.clone(), remote.url()));
        let surroundings = Surroundings {
            dir: &self.dir,
            muster: &self.ground.muster,
            port: self.port.number(),
            control: self.switchboard.port(),
            urls: urls.collect(),
            providers: &self.providers,
        };
        files::write(&files::plan(&self.before, &surroundings)?)
    }

    /// Stops the process and starts it again, with the same directory and port. What it leaves behind is
    /// told when it stops for good.
    pub async fn restart(&mut self, how: Stop, target: &Target) -> Result<Client, NotStarted> {
        self.end_process(how).await;
        self.launch().await?;
        self.ready(target).await
    }

    /// Stops the process; the processes that it left behind, which are ended too.
    pub async fn stop(&mut self) -> Vec<String> {
        self.end_process(Stop::Asked).await;
        std::mem::take(&mut self.left)
    }

    async fn end_process(&mut self, how: Stop) {
        let Some(mut process) = self.process.take() else { return };
        let signalled = process.end(how).await;
        if signalled == Signalled::Insisted {
            let text = format!("did not end within {}", duration::short(process::STOP_LIMIT));
            self.logs.note(&text);
            self.left.push(format!("muster itself {text}"));
            return;
        }
        self.left.extend(survivors::wait(&self.mark).await);
        // The next life has a mark of its own, so that nothing is told twice.
        self.mark = random_hex();
        process.drain().await;
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// A new session of its own.
    pub fn target(&self, listening: Listening) -> Target {
        Target { port: self.port(), session: session_id(), bearer: self.bearer.clone(), listening }
    }

    /// Everything that its processes have printed.
    pub fn logs(&self) -> String {
        self.logs.text()
    }

    /// The identity providers.
    pub const fn providers(&self) -> &Providers {
        &self.providers
    }

    /// The identity providers, to kill one or to bring it back.
    pub const fn providers_mut(&mut self) -> &mut Providers {
        &mut self.providers
    }

    /// What the scenario has prepared.
    pub const fn before(&self) -> &PreConfiguration {
        &self.before
    }

    /// A mock server that lives in this process.
    pub fn remote(&mut self, name: &str) -> Option<&mut RemoteMock> {
        self.remotes.get_mut(name)
    }

    /// The line to mock servers that are processes.
    pub const fn switchboard(&self) -> &Switchboard {
        &self.switchboard
    }

    /// Writes a file of its configuration directory.
    pub fn write_file(&self, path: &str, text: &str) -> io::Result<()> {
        let path = files::below(&self.dir.join("muster"), path);
        files::write(&[files::Planned { path, text: text.to_owned() }])
    }

    /// Deletes a file of its configuration directory.
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
        if self.ground.directories == Directories::Remove {
            let _left = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Starts the mock servers that live in this process, each behind its door if it has one.
async fn remotes(
    before: &PreConfiguration,
    providers: &Providers,
) -> io::Result<BTreeMap<String, RemoteMock>> {
    let mut remotes = BTreeMap::new();
    for server in &before.mcp_servers {
        let ServerKind::Remote { mock, transport, oauth } = &server.kind else { continue };
        let guard = oauth.as_deref().filter(|guard| guard.required);
        let door = guard.and_then(|guard| {
            let provider = providers.get(guard.provider.as_deref()?)?;
            Some(Door::new(Arc::clone(provider.core()), guard.clone()))
        });
        let remote = RemoteMock::behind(door, &server.name, mock, *transport).await?;
        remotes.insert(server.name.clone(), remote);
    }
    Ok(remotes)
}

/// `test-<name>-<nanoseconds>`, the name cut and made harmless.
fn directory_name(scenario: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = scenario.chars().map(harmless).take(50).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("test-{name}-{nanos}")
}

/// Sixteen random hexadecimal digits.
pub fn random_hex() -> String {
    let mut bytes = [0; 8];
    // Without randomness the time has to do: names only have to differ.
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes = (now.as_nanos() as u64).to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Something that looks like a UUID.
fn session_id() -> String {
    let digits = format!("{}{}", random_hex(), random_hex());
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
