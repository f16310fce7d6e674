//! The plan of an import: shown first, then applied.

use std::{
    fmt, fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use muster_config::mcpserver::{self, McpServer, McpServerSpec};
use muster_core::connect::Endpoint;
use thiserror::Error;

use super::{copy, read::ImportItem, secret_detection};
use crate::secrets::{self, SecretError, SecretStore};

/// The namespace of imported servers.
const NAMESPACE: &str = "default";

/// Everything an import will do.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// One step for each item found, in order.
    pub steps: Vec<ImportStep>,
}

/// One item, and what the import does with it.
#[derive(Debug)]
pub struct ImportStep {
    /// The name of the item at its source.
    pub name: String,
    /// The action for it.
    pub action: ImportAction,
}

/// What an import does with one item.
#[derive(Debug)]
pub enum ImportAction {
    /// Write the file of a new server.
    Write(Box<NewServer>),
    /// Copy a file of another muster configuration.
    Copy(Box<CopiedFile>),
    /// Nothing: the same item exists.
    Same {
        /// The file.
        path: PathBuf,
    },
    /// Skip the item.
    Skip {
        /// Why it is skipped.
        reason: String,
    },
}

/// A server to be written.
#[derive(Debug)]
pub struct NewServer {
    /// The server.
    pub server: McpServer,
    /// Its file.
    pub path: PathBuf,
    /// The secrets moved out of the file.
    pub moved: Vec<MovedSecret>,
    /// What the user has to check.
    pub notes: Vec<String>,
}

/// A file to be copied, with the secrets it references.
#[derive(Debug)]
pub struct CopiedFile {
    pub(super) from: PathBuf,
    /// The copy.
    pub path: PathBuf,
    /// Whether the file exists, so that at most its secrets are copied.
    pub exists: bool,
    /// The secrets copied with it.
    pub moved: Vec<MovedSecret>,
    /// What the user has to check.
    pub notes: Vec<String>,
}

/// A secret to be stored in a file of its own. `Debug` omits its value.
pub struct MovedSecret {
    /// Where it was found: a variable, header, option or file.
    pub origin: String,
    /// Its name in the secret store.
    pub name: String,
    value: String,
}

impl MovedSecret {
    pub(super) fn new(origin: impl Into<String>, name: &str, value: String) -> Self {
        Self { origin: origin.into(), name: name.to_owned(), value }
    }
}

impl fmt::Debug for MovedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovedSecret")
            .field("origin", &self.origin)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a plan could not be applied.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A secret could not be stored.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl ImportPlan {
    /// Plans the items found at `source` for the configuration in `root`.
    pub fn add(&mut self, root: &Path, source: &str, found: Vec<ImportItem>) {
        for one in found {
            let (name, action) = match one {
                ImportItem::File { folder, path } => {
                    let file = path.file_name().unwrap_or_default();
                    let to = root.join(folder).join(file);
                    (file.to_string_lossy().into_owned(), copy::file(&path, &to, root))
                }
                ImportItem::Server { name, endpoint } => {
                    let action = match endpoint {
                        Ok(endpoint) => self.server(root, source, &name, &endpoint),
                        Err(reason) => ImportAction::Skip { reason },
                    };
                    (name, action)
                }
            };
            self.steps.push(ImportStep { name, action });
        }
    }

    fn server(&self, root: &Path, source: &str, name: &str, endpoint: &Endpoint) -> ImportAction {
        if is_muster(endpoint) {
            return ImportAction::Skip { reason: "it is muster itself".to_owned() };
        }
        let wanted = server_name(name);
        let clean: String = source
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let others = (2..).map(|number| format!("{wanted}-{number}"));
        let names = [wanted.clone(), format!("{wanted}-{clean}")].into_iter().chain(others);
        for name in names.take(50) {
            let write = new_server(root, &name, endpoint.clone());
            let planned = self.writes().find(|other| other.path == write.path);
            let there = planned
                .map(|other| other.server.spec.clone())
                .or_else(|| existing_spec(&write.path));
            match there {
                None => return ImportAction::Write(Box::new(write)),
                Some(there) if there.endpoint() == write.server.spec.endpoint() => {
                    return ImportAction::Same { path: write.path };
                }
                Some(_) => (),
            }
        }
        ImportAction::Skip { reason: "too many servers have this name".to_owned() }
    }

    fn writes(&self) -> impl Iterator<Item = &NewServer> {
        self.steps.iter().filter_map(|step| match &step.action {
            ImportAction::Write(write) => Some(&**write),
            ImportAction::Copy(_) | ImportAction::Same { .. } | ImportAction::Skip { .. } => None,
        })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| match &step.action {
            ImportAction::Write(_) => false,
            ImportAction::Copy(copied) => copied.exists && copied.moved.is_empty(),
            ImportAction::Same { .. } | ImportAction::Skip { .. } => true,
        })
    }

    /// Writes everything. Secrets first, so that no file references one that does not exist.
    pub fn apply(&self, root: &Path) -> Result<(), ApplyError> {
        let secrets = SecretStore::of(root);
        for step in &self.steps {
            match &step.action {
                ImportAction::Write(write) => {
                    store(&secrets, &write.moved)?;
                    create(&write.path, &mcpserver::text(&write.server))?;
                }
                ImportAction::Copy(copied) => {
                    store(&secrets, &copied.moved)?;
                    if !copied.exists {
                        let text = fs::read_to_string(&copied.from).map_err(|source| {
                            ApplyError::Io { path: copied.from.clone(), source }
                        })?;
                        create(&copied.path, &text)?;
                    }
                }
                ImportAction::Same { .. } | ImportAction::Skip { .. } => (),
            }
        }
        Ok(())
    }
}

/// Replaces the secrets among the variables or headers of a server by references, and returns both.
pub fn extract_secrets(
    server: &str,
    pairs: Vec<(String, String)>,
) -> (Vec<(String, String)>, Vec<MovedSecret>) {
    let mut extractor = SecretExtractor { server, moved: Vec::new(), notes: Vec::new() };
    let pairs = pairs.into_iter().map(|pair| extractor.pair(pair)).collect();
    (pairs, extractor.moved)
}

/// Stores secrets in the configuration in `root`.
pub fn store_secrets(root: &Path, moved: &[MovedSecret]) -> Result<(), SecretError> {
    store(&SecretStore::of(root), moved)
}

fn store(secrets: &SecretStore, moved: &[MovedSecret]) -> Result<(), SecretError> {
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

fn existing_spec(path: &Path) -> Option<McpServerSpec> {
    let text = fs::read_to_string(path).ok()?;
    let stem = path.file_stem()?.to_str()?;
    mcpserver::parse(&text, stem).ok().map(|loaded| loaded.value.spec)
}

/// The new server, with its secrets moved out.
fn new_server(root: &Path, name: &str, endpoint: Endpoint) -> NewServer {
    let mut extractor = SecretExtractor { server: name, moved: Vec::new(), notes: Vec::new() };
    let mut spec = McpServerSpec::at(endpoint);
    spec.args = extractor.args(spec.args);
    spec.env = spec.env.into_iter().map(|pair| extractor.pair(pair)).collect();
    spec.headers = spec.headers.into_iter().map(|pair| extractor.pair(pair)).collect();
    spec.auto_start = true;
    let SecretExtractor { moved, notes, .. } = extractor;
    let path = root.join("mcpservers").join(format!("{name}.yaml"));
    NewServer { server: McpServer::new(name, NAMESPACE, spec), path, moved, notes }
}

/// Replaces the secrets of a server by references.
struct SecretExtractor<'a> {
    server: &'a str,
    moved: Vec<MovedSecret>,
    notes: Vec<String>,
}

impl SecretExtractor<'_> {
    fn pair(&mut self, (key, value): (String, String)) -> (String, String) {
        if value.contains("${") || (value.starts_with('$') && value.len() > 1) {
            self.notes.push(format!(
                "{key} was filled in by the client: set its value, or use {} and store the secret there",
                secrets::reference(&self.secret_name(&key))
            ));
        }
        let Some(secret) = secret_detection::secret_part(&key, &value) else { return (key, value) };
        let stored = value.replacen(secret, &self.extract(&key, secret), 1);
        (key, stored)
    }

    fn args(&mut self, args: Vec<String>) -> Vec<String> {
        let mut before = String::new();
        let mut replaced = Vec::with_capacity(args.len());
        for arg in args {
            if let Some((_, rest)) = arg.split_once("${") {
                let name = rest.split('}').next().unwrap_or_default();
                self.notes.push(format!(
                    "`${{{name}}}` in its arguments was filled in by the client: write the value"
                ));
            }
            let option = arg.split_once('=').filter(|(option, _)| option.starts_with('-'));
            let arg = match option {
                Some((option, value)) if secret_detection::secret_part(option, value).is_some() => {
                    let (option, value) = self.pair((option.to_owned(), value.to_owned()));
                    format!("{option}={value}")
                }
                // The value of the option before it; an option itself is never a secret.
                _ if before.starts_with('-') && !arg.starts_with('-') => {
                    self.pair((before.clone(), arg)).1
                }
                // A connection string with a password.
                None if secret_detection::secret_part("", &arg).is_some() => {
                    self.pair(("arg".to_owned(), arg)).1
                }
                _ => arg,
            };
            before.clone_from(&arg);
            replaced.push(arg);
        }
        replaced
    }

    fn secret_name(&self, key: &str) -> String {
        let key: String = key
            .trim_start_matches('-')
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect();
        format!("{}.{key}", self.server)
    }

    fn extract(&mut self, key: &str, secret: &str) -> String {
        let name = self.secret_name(key);
        let reference = secrets::reference(&name);
        self.moved.push(MovedSecret::new(key, &name, secret.to_owned()));
        reference
    }
}

/// The name as it can be used in file and tool names.
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

/// Whether a server is muster itself.
fn is_muster(endpoint: &Endpoint) -> bool {
    let Endpoint::Stdio { command, args, .. } = endpoint else { return false };
    let program = Path::new(command).file_name().unwrap_or_default();
    let first = args.first().map(String::as_str);
    program == "muster" && matches!(first, Some("agent" | "standalone" | "serve"))
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver;
    use muster_core::connect::Endpoint;

    use super::{ImportAction, ImportPlan, server_name};
    use crate::import::read::ImportItem;

    fn found(name: &str, env: &[(&str, &str)], args: &[&str]) -> ImportItem {
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let endpoint =
            Endpoint::Stdio { command: "npx".to_owned(), args, env, inherit: Vec::new() };
        ImportItem::Server { name: name.to_owned(), endpoint: Ok(endpoint) }
    }

    #[test]
    fn secrets_are_moved_out_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = ImportPlan::default();
        let env = [("API_KEY", "canary-key"), ("LEVEL", "info"), ("T_TOKEN", "${T}")];
        let args =
            ["-y", "pkg", "--token", "canary-token", "--password=canary-pass", "--port", "80"];
        plan.add(root.path(), "cursor", vec![found("Git Hub", &env, &args)]);
        let [step] = &plan.steps[..] else { panic!("one step") };
        let ImportAction::Write(write) = &step.action else { panic!("{step:?}") };
        let text = mcpserver::text(&write.server);
        for secret in ["canary-key", "canary-token", "canary-pass"] {
            assert!(!text.contains(secret), "{text}");
            assert!(!format!("{plan:?}").contains(secret), "{plan:?}");
        }
        assert!(text.contains("secret://git-hub.API_KEY"), "{text}");
        assert!(text.contains("--password=secret://git-hub.password"), "{text}");
        assert_eq!(write.notes.len(), 1, "{:?}", write.notes);
        plan.apply(root.path()).unwrap();
        let stored = std::fs::read_to_string(root.path().join("secrets/git-hub.token")).unwrap();
        assert_eq!(stored, "canary-token");
        let mut again = ImportPlan::default();
        again.add(root.path(), "cursor", vec![found("git-hub", &env, &args)]);
        assert!(matches!(again.steps[0].action, ImportAction::Same { .. }), "{again:?}");
    }

    #[test]
    fn another_server_of_the_same_name_gets_another_name() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = ImportPlan::default();
        plan.add(root.path(), "cursor", vec![found("a", &[], &["1"])]);
        plan.add(root.path(), "codex", vec![found("a", &[], &["1"]), found("a", &[], &["2"])]);
        let actions: Vec<String> = plan
            .steps
            .iter()
            .map(|step| match &step.action {
                ImportAction::Write(write) => write.server.name.clone(),
                ImportAction::Same { .. } => "same".to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(actions, ["a", "same", "a-codex"]);
    }

    #[test]
    fn server_names_are_valid_in_files_and_tools() {
        assert_eq!(server_name("My Server!"), "my-server");
        assert_eq!(server_name("ü"), "server");
    }
}
