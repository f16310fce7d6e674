//! The plan of an import: shown first, then applied.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use muster_config::mcpserver::{self, McpServer, McpServerSpec};
use muster_core::connect::Endpoint;
use thiserror::Error;

use super::{
    copy,
    moved_secrets::{MovedSecret, SecretExtractor, store_secrets},
    read::{ClientServer, EntryKey, ImportItem},
};
use crate::secrets::{SecretError, SecretStore};

/// The namespace of imported servers.
const NAMESPACE: &str = "default";

/// The plan of an import.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// One step for each item found, in order.
    pub steps: Vec<ImportStep>,
}

/// One item, and what the import does with it.
#[derive(Debug)]
pub struct ImportStep {
    /// The name of the item at its source, and its project if it has one.
    pub key: EntryKey,
    /// What the import does with it.
    pub action: ImportAction,
}

/// The action of an import on one item.
#[derive(Debug)]
pub enum ImportAction {
    /// Write the file of a new server.
    Write(Box<NewServer>),
    /// Copy a file of another muster configuration.
    Copy(Box<CopiedFile>),
    /// Do nothing, because the same item exists.
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

impl NewServer {
    /// Whether it has the same endpoint as the server of `spec`.
    fn is_same(&self, spec: &McpServerSpec) -> bool {
        self.server.spec.endpoint() == spec.endpoint()
    }
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
            let (key, action) = match one {
                ImportItem::File { folder, path } => {
                    let file = path.file_name().unwrap_or_default();
                    let to = root.join(folder).join(file);
                    let name = file.to_string_lossy().into_owned();
                    (EntryKey { project: None, name }, copy::file(&path, &to, root))
                }
                ImportItem::Server { key, server } => {
                    let action = match server {
                        Ok(server) => self.server(root, source, &key.name, &server),
                        Err(reason) => ImportAction::Skip { reason },
                    };
                    (key, action)
                }
            };
            self.steps.push(ImportStep { key, action });
        }
    }

    fn server(&self, root: &Path, source: &str, name: &str, server: &ClientServer) -> ImportAction {
        if is_muster(&server.endpoint) {
            return ImportAction::Skip { reason: "it is muster itself".to_owned() };
        }
        let wanted = server_name(name);
        let clean: String = source
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let others = (2..).map(|number| format!("{wanted}-{number}"));
        let names = [wanted.clone(), format!("{wanted}-{clean}")].into_iter().chain(others);
        let secrets = SecretStore::of(root);
        // A server that exists with different secrets is not imported again under another name.
        let mut conflict = None;
        for name in names.take(50) {
            let write = new_server(root, &name, server);
            if let Some(planned) = self.writes().find(|other| other.path == write.path) {
                if planned.is_same(&write.server.spec) && planned.moved == write.moved {
                    return ImportAction::Same { path: write.path };
                }
                continue;
            }
            let taken = write.moved.iter().find(|moved| moved.conflicts(&secrets));
            let reason = taken.map(|moved| {
                let path = secrets.path(&moved.name);
                format!("{} exists and holds another secret", path.display())
            });
            match (existing_spec(&write.path), reason) {
                (None, reason) => match conflict.or(reason) {
                    None => return ImportAction::Write(Box::new(write)),
                    Some(reason) => return ImportAction::Skip { reason },
                },
                (Some(there), reason) if write.is_same(&there) => match reason {
                    None => return ImportAction::Same { path: write.path },
                    Some(reason) => conflict = conflict.or(Some(reason)),
                },
                (Some(_), _) => (),
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

    /// Applies the plan. Stores secrets before files, so that no file references a missing secret.
    pub fn apply(&self, root: &Path) -> Result<(), ApplyError> {
        for step in &self.steps {
            match &step.action {
                ImportAction::Write(write) => {
                    store_secrets(root, &write.moved)?;
                    create(&write.path, &mcpserver::text(&write.server))?;
                }
                ImportAction::Copy(copied) => {
                    store_secrets(root, &copied.moved)?;
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
fn new_server(root: &Path, name: &str, server: &ClientServer) -> NewServer {
    let mut extractor = SecretExtractor::new(name);
    let mut spec = McpServerSpec::at(server.endpoint.clone());
    extractor.mark("command", &spec.command);
    extractor.mark("url", &spec.url);
    spec.args = extractor.args(spec.args);
    spec.env = spec.env.into_iter().map(|pair| extractor.pair(pair)).collect();
    spec.headers = spec.headers.into_iter().map(|pair| extractor.pair(pair)).collect();
    spec.auto_start = server.is_enabled;
    let SecretExtractor { moved, mut notes, .. } = extractor;
    if !server.is_enabled {
        notes.push(
            "it is disabled in the client: it is imported with `autoStart: false`".to_owned(),
        );
    }
    if !server.dropped.is_empty() {
        let dropped = server.dropped.join("`, `");
        notes.push(format!("muster has no equivalent of `{dropped}`: not imported"));
    }
    let path = root.join("mcpservers").join(format!("{name}.yaml"));
    NewServer { server: McpServer::new(name, NAMESPACE, spec), path, moved, notes }
}

/// Converts a name to one that can be used in file and tool names.
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
    use muster_config::{mcp_json, mcpserver};
    use muster_core::connect::Endpoint;

    use super::{ImportAction, ImportPlan, server_name};
    use crate::{
        import::read::{ClientServer, EntryKey, ImportItem},
        secrets::SecretStore,
    };

    fn found(name: &str, env: &[(&str, &str)], args: &[&str]) -> ImportItem {
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let endpoint =
            Endpoint::Stdio { command: "npx".to_owned(), args, env, inherit: Vec::new() };
        let server = ClientServer { endpoint, is_enabled: true, dropped: Vec::new() };
        let key = EntryKey { project: None, name: name.to_owned() };
        ImportItem::Server { key, server: Ok(server) }
    }

    fn actions(plan: &ImportPlan) -> Vec<String> {
        let shown = plan.steps.iter().map(|step| match &step.action {
            ImportAction::Write(write) => write.server.name.clone(),
            ImportAction::Same { .. } => "same".to_owned(),
            ImportAction::Skip { reason } => {
                format!("skipped: {}", reason.rsplit('/').next().unwrap_or_default())
            }
            other @ ImportAction::Copy(_) => panic!("{other:?}"),
        });
        shown.collect()
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
    fn variables_of_the_client_are_noted_wherever_they_are() {
        let root = tempfile::tempdir().unwrap();
        let text = r#"{"mcpServers": {
            "a": {"command": "${workspaceFolder}/a", "args": ["--in=${workspaceFolder}/x${pathSeparator}y"]},
            "b": {"url": "https://${input:host}/mcp"}}}"#;
        let mut plan = ImportPlan::default();
        let found = mcp_json::read(text).unwrap().into_iter();
        plan.add(
            root.path(),
            "cursor",
            found.map(|(key, server)| ImportItem::Server { key, server }).collect(),
        );
        let notes = plan.steps.iter().flat_map(|step| match &step.action {
            ImportAction::Write(write) => write.notes.clone(),
            other => panic!("{other:?}"),
        });
        let notes: Vec<String> = notes.collect();
        assert_eq!(
            notes,
            [
                "`${workspaceFolder}` in its command was filled in by the client: write the value",
                "`${workspaceFolder}` in its arguments was filled in by the client: write the value",
                "`${pathSeparator}` in its arguments was filled in by the client: write the value",
                "`${input:host}` in its url was filled in by the client: write the value",
            ]
        );
    }

    #[test]
    fn another_server_of_the_same_name_gets_another_name() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = ImportPlan::default();
        plan.add(root.path(), "cursor", vec![found("a", &[], &["1"])]);
        plan.add(root.path(), "codex", vec![found("a", &[], &["1"]), found("a", &[], &["2"])]);
        assert_eq!(actions(&plan), ["a", "same", "a-codex"]);
    }

    #[test]
    fn servers_with_other_secrets_are_other_servers() {
        let root = tempfile::tempdir().unwrap();
        let one = |token: &str| found("a", &[("TOKEN", token)], &[]);
        let planned = |items: Vec<(&str, &str)>| {
            let mut plan = ImportPlan::default();
            for (source, token) in items {
                plan.add(root.path(), source, vec![one(token)]);
            }
            plan
        };
        let plan = planned(vec![("cursor", "1"), ("codex", "2"), ("codex", "1")]);
        assert_eq!(actions(&plan), ["a", "a-codex", "same"]);
        plan.apply(root.path()).unwrap();
        let again = planned(vec![("cursor", "1"), ("codex", "2"), ("cursor", "3")]);
        let skipped = "skipped: a.TOKEN exists and holds another secret";
        assert_eq!(actions(&again), ["same", "same", skipped]);
        // A deleted server may have left its secret behind.
        SecretStore::of(root.path()).put("b.TOKEN", "old").unwrap();
        let mut plan = ImportPlan::default();
        plan.add(root.path(), "cursor", vec![found("b", &[("TOKEN", "new")], &[])]);
        assert_eq!(actions(&plan), [skipped.replace("a.", "b.")]);
    }

    #[test]
    fn disabled_servers_are_not_started() {
        let root = tempfile::tempdir().unwrap();
        let mut plan = ImportPlan::default();
        let ImportItem::Server { key, server: Ok(server) } = found("a", &[], &[]) else { panic!() };
        let dropped = vec!["cwd".to_owned(), "envFile".to_owned()];
        let server = Ok(ClientServer { is_enabled: false, dropped, ..server });
        plan.add(root.path(), "cursor", vec![ImportItem::Server { key, server }]);
        let ImportAction::Write(write) = &plan.steps[0].action else { panic!("{plan:?}") };
        assert!(!write.server.spec.auto_start);
        assert!(write.notes[0].contains("disabled in the client"), "{:?}", write.notes);
        assert!(write.notes[1].contains("`cwd`, `envFile`"), "{:?}", write.notes);
    }

    #[test]
    fn server_names_are_valid_in_files_and_tools() {
        assert_eq!(server_name("My Server!"), "my-server");
        assert_eq!(server_name("ü"), "server");
    }
}
