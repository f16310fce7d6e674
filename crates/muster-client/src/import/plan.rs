//! What an import will do, known before anything is done.

use std::{
    fmt, fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use muster_config::mcpserver::{self, McpServer, ServerType, Spec};
use muster_core::connect::Endpoint;
use thiserror::Error;

use super::{copy, read::Found, secret_detection};
use crate::secrets::{self, SecretError, SecretStore};

/// Where resources belong that say nothing about it.
const NAMESPACE: &str = "default";

/// What an import will do.
#[derive(Debug, Default)]
pub struct Plan {
    /// What becomes of each thing found.
    pub steps: Vec<Step>,
}

/// What becomes of one thing.
#[derive(Debug)]
pub struct Step {
    /// What it is called there.
    pub name: String,
    /// What is done with it.
    pub what: What,
}

/// What is done with it.
#[derive(Debug)]
pub enum What {
    /// A server gets a file.
    Write(Box<Write>),
    /// A file of muster's own is copied.
    Copy(Box<Copied>),
    /// It is there already.
    Same {
        /// The file.
        path: PathBuf,
    },
    /// It is left out.
    Skip {
        /// Why.
        reason: String,
    },
}

/// A server that gets a file.
#[derive(Debug)]
pub struct Write {
    /// The server.
    pub server: McpServer,
    /// Its file.
    pub path: PathBuf,
    /// The secrets that are moved out of it.
    pub moved: Vec<Moved>,
    /// What a person has to look at.
    pub notes: Vec<String>,
}

/// A file of muster's own, with the secrets that it names.
#[derive(Debug)]
pub struct Copied {
    pub(super) from: PathBuf,
    /// The copy.
    pub path: PathBuf,
    /// Whether only its secrets are missing.
    pub is_there: bool,
    /// The secrets that come along.
    pub moved: Vec<Moved>,
    /// What a person has to look at.
    pub notes: Vec<String>,
}

/// A secret on its way into a file of its own.
pub struct Moved {
    /// Where it stood.
    pub place: String,
    /// What it is called from now on.
    pub name: String,
    value: String,
}

impl Moved {
    pub(super) fn new(place: impl Into<String>, name: &str, value: String) -> Self {
        Self { place: place.into(), name: name.to_owned(), value }
    }
}

impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved")
            .field("place", &self.place)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a plan could not be carried out.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A secret could not be kept.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Plan {
    /// Plans what was found at `source` into the configuration in `root`.
    pub fn add(&mut self, root: &Path, source: &str, found: Vec<Found>) {
        for one in found {
            let (name, what) = match one {
                Found::File { folder, path } => {
                    let file = path.file_name().unwrap_or_default();
                    let to = root.join(folder).join(file);
                    (file.to_string_lossy().into_owned(), copy::file(&path, &to, root))
                }
                Found::Server { name, endpoint } => {
                    let what = match endpoint {
                        Ok(endpoint) => self.server(root, source, &name, &endpoint),
                        Err(reason) => What::Skip { reason },
                    };
                    (name, what)
                }
            };
            self.steps.push(Step { name, what });
        }
    }

    fn server(&self, root: &Path, source: &str, name: &str, endpoint: &Endpoint) -> What {
        if is_ours(endpoint) {
            return What::Skip { reason: "it is muster itself".to_owned() };
        }
        let wanted = server_name(name);
        let clean: String = source
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let others = (2..).map(|number| format!("{wanted}-{number}"));
        let names = [wanted.clone(), format!("{wanted}-{clean}")].into_iter().chain(others);
        for name in names.take(50) {
            let write = written(root, &name, endpoint.clone());
            let planned = self.writes().find(|other| other.path == write.path);
            let there =
                planned.map(|other| other.server.spec.clone()).or_else(|| read(&write.path));
            match there {
                None => return What::Write(Box::new(write)),
                Some(there) if there.endpoint() == write.server.spec.endpoint() => {
                    return What::Same { path: write.path };
                }
                Some(_) => (),
            }
        }
        What::Skip { reason: "there are too many servers of that name".to_owned() }
    }

    fn writes(&self) -> impl Iterator<Item = &Write> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Write(write) => Some(&**write),
            What::Copy(_) | What::Same { .. } | What::Skip { .. } => None,
        })
    }

    /// Whether there is anything to do.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| match &step.what {
            What::Write(_) => false,
            What::Copy(copied) => copied.is_there && copied.moved.is_empty(),
            What::Same { .. } | What::Skip { .. } => true,
        })
    }

    /// Does it. Secrets come first: no file names one that is not there.
    pub fn apply(&self, root: &Path) -> Result<(), ApplyError> {
        let secrets = SecretStore::of(root);
        for step in &self.steps {
            match &step.what {
                What::Write(write) => {
                    keep(&secrets, &write.moved)?;
                    create(&write.path, &mcpserver::text(&write.server))?;
                }
                What::Copy(copied) => {
                    keep(&secrets, &copied.moved)?;
                    if !copied.is_there {
                        let text = fs::read_to_string(&copied.from).map_err(|source| {
                            ApplyError::Io { path: copied.from.clone(), source }
                        })?;
                        create(&copied.path, &text)?;
                    }
                }
                What::Same { .. } | What::Skip { .. } => (),
            }
        }
        Ok(())
    }
}

fn keep(secrets: &SecretStore, moved: &[Moved]) -> Result<(), SecretError> {
    moved.iter().try_for_each(|moved| secrets.put(&moved.name, &moved.value))
}

fn create(path: &Path, text: &str) -> Result<(), ApplyError> {
    let failed = |source| ApplyError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

fn read(path: &Path) -> Option<Spec> {
    let text = fs::read_to_string(path).ok()?;
    let stem = path.file_stem()?.to_str()?;
    mcpserver::parse(&text, stem).ok().map(|loaded| loaded.value.spec)
}

/// A server as its file will say it, with its secrets moved out.
fn written(root: &Path, name: &str, endpoint: Endpoint) -> Write {
    let mut moving = Moving { server: name, moved: Vec::new(), notes: Vec::new() };
    let mut spec = match endpoint {
        Endpoint::Stdio { command, args, env } => {
            let mut spec = Spec::of(ServerType::Stdio);
            spec.command = command;
            spec.args = moving.args(args);
            spec.env = env.into_iter().map(|pair| moving.pair(pair)).collect();
            spec
        }
        Endpoint::Http { url, headers } | Endpoint::Mtls { url, headers, .. } => {
            let mut spec = Spec::of(ServerType::StreamableHttp);
            spec.url = url;
            spec.headers = headers.into_iter().map(|pair| moving.pair(pair)).collect();
            spec
        }
        Endpoint::Sse { url, headers } => {
            let mut spec = Spec::of(ServerType::Sse);
            spec.url = url;
            spec.headers = headers.into_iter().map(|pair| moving.pair(pair)).collect();
            spec
        }
    };
    spec.auto_start = true;
    let Moving { moved, notes, .. } = moving;
    let path = root.join("mcpservers").join(format!("{name}.yaml"));
    Write { server: McpServer::new(name, NAMESPACE, spec), path, moved, notes }
}

/// Moves secrets out of a server.
struct Moving<'a> {
    server: &'a str,
    moved: Vec<Moved>,
    notes: Vec<String>,
}

impl Moving<'_> {
    fn pair(&mut self, (key, value): (String, String)) -> (String, String) {
        if value.contains("${") || (value.starts_with('$') && value.len() > 1) {
            self.notes.push(format!(
                "{key} is filled in by the client: write its value, or {} and put the secret there",
                secrets::reference(&self.name(&key))
            ));
        }
        let Some(secret) = secret_detection::secret_part(&key, &value) else { return (key, value) };
        let kept = value.replacen(secret, &self.take(&key, secret), 1);
        (key, kept)
    }

    fn args(&mut self, args: Vec<String>) -> Vec<String> {
        let mut before = String::new();
        let mut kept = Vec::with_capacity(args.len());
        for arg in args {
            let option = arg.split_once('=').filter(|(option, _)| option.starts_with('-'));
            let arg = match option {
                Some((option, value)) if secret_detection::is_secret_name(option) => {
                    let (option, value) = self.pair((option.to_owned(), value.to_owned()));
                    format!("{option}={value}")
                }
                // The value of an option that stands before it; an option itself is never a secret.
                _ if before.starts_with('-') && !arg.starts_with('-') => {
                    self.pair((before.clone(), arg)).1
                }
                _ => arg,
            };
            before.clone_from(&arg);
            kept.push(arg);
        }
        kept
    }

    fn name(&self, key: &str) -> String {
        let key: String = key
            .trim_start_matches('-')
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect();
        format!("{}.{key}", self.server)
    }

    fn take(&mut self, key: &str, secret: &str) -> String {
        let name = self.name(key);
        let reference = secrets::reference(&name);
        self.moved.push(Moved::new(key, &name, secret.to_owned()));
        reference
    }
}

/// A name that files and tools can have.
fn server_name(name: &str) -> String {
    let letters = name
        .to_lowercase()
        .chars()
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '-' => letter,
            _ => '-',
        })
        .collect::<String>();
    let name = letters.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.chars().take(60).collect() }
}

/// Whether a server is muster.
fn is_ours(endpoint: &Endpoint) -> bool {
    let Endpoint::Stdio { command, args, .. } = endpoint else { return false };
    let program = Path::new(command).file_name().unwrap_or_default();
    let first = args.first().map(String::as_str);
    program == "muster" && matches!(first, Some("agent" | "standalone" | "serve"))
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver;
    use muster_core::connect::Endpoint;

    use super::{Plan, What, server_name};
    use crate::import::read::Found;

    fn found(name: &str, env: &[(&str, &str)], args: &[&str]) -> Found {
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let endpoint = Endpoint::Stdio { command: "npx".to_owned(), args, env };
        Found::Server { name: name.to_owned(), endpoint: Ok(endpoint) }
    }

    #[test]
    fn secrets_leave_the_file() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = Plan::default();
        let env = [("API_KEY", "canary-key"), ("LEVEL", "info"), ("T_TOKEN", "${T}")];
        let args =
            ["-y", "pkg", "--token", "canary-token", "--password=canary-pass", "--port", "80"];
        plan.add(root.path(), "cursor", vec![found("Git Hub", &env, &args)]);
        let [step] = &plan.steps[..] else { panic!("one step") };
        let What::Write(write) = &step.what else { panic!("{step:?}") };
        let text = mcpserver::text(&write.server);
        for secret in ["canary-key", "canary-token", "canary-pass"] {
            assert!(!text.contains(secret), "{text}");
            assert!(!format!("{plan:?}").contains(secret), "{plan:?}");
        }
        assert!(text.contains("secret://git-hub.API_KEY"), "{text}");
        assert!(text.contains("--password=secret://git-hub.password"), "{text}");
        assert_eq!(write.notes.len(), 1, "{:?}", write.notes);
        plan.apply(root.path()).unwrap();
        let kept = std::fs::read_to_string(root.path().join("secrets/git-hub.token")).unwrap();
        assert_eq!(kept, "canary-token");
        let mut again = Plan::default();
        again.add(root.path(), "cursor", vec![found("git-hub", &env, &args)]);
        assert!(matches!(again.steps[0].what, What::Same { .. }), "{again:?}");
    }

    #[test]
    fn another_server_of_the_same_name_gets_another_name() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = Plan::default();
        plan.add(root.path(), "cursor", vec![found("a", &[], &["1"])]);
        plan.add(root.path(), "codex", vec![found("a", &[], &["1"]), found("a", &[], &["2"])]);
        let what: Vec<String> = plan
            .steps
            .iter()
            .map(|step| match &step.what {
                What::Write(write) => write.server.name.clone(),
                What::Same { .. } => "same".to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(what, ["a", "same", "a-codex"]);
    }

    #[test]
    fn names_fit_files_and_tools() {
        assert_eq!(server_name("My Server!"), "my-server");
        assert_eq!(server_name("ü"), "server");
    }
}
