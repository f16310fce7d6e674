//! Reads the configuration, with its definitions.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::{
    LoadError, Loaded, Warning, cli,
    kinds::DefinitionKind,
    mcpserver, policy,
    service::{self, ServiceFile},
    serviceclass, settings,
    toolset::{self, NamedToolset},
    workflow,
};
use muster_core::text::shell_quoted;

use super::{
    CONFIG, ClassFile, DefinitionStore, FileProblem, Files, FolderStore, PolicyFile, ServerFile,
    Severity, StoredText, ToolsetFile, WorkflowFile, folder, write::Writing,
};

/// The consequence of a policy that cannot be read.
const CLOSED: &str = "all calls are refused until this policy is fixed";

/// Reads `config.yaml` and all definitions.
pub(super) fn load(root: &Path, definitions: &dyn DefinitionStore, before: &Files) -> Files {
    let mut reading = Reading { definitions, before, files: Files::default(), secret_changes: 0 };
    reading.settings(&root.join(CONFIG));
    reading.servers();
    reading.workflows();
    reading.classes();
    reading.services();
    reading.clis();
    reading.policies();
    reading.toolsets();
    reading.files
}

/// Reads `config.yaml`.
pub(super) fn settings_only(root: &Path) -> Files {
    let (folder, before) = (FolderStore::new(root, Writing::default()), Files::default());
    let mut reading = Reading {
        definitions: &folder,
        before: &before,
        files: Files::default(),
        secret_changes: 0,
    };
    reading.settings(&root.join(CONFIG));
    reading.files
}

/// A named resource and its file.
trait NamedFile: Clone {
    fn name(&self) -> &str;

    fn path(&self) -> &Path;
}

impl NamedFile for ServerFile {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl NamedFile for WorkflowFile {
    fn name(&self) -> &str {
        &self.workflow.name
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl NamedFile for ClassFile {
    fn name(&self) -> &str {
        &self.class.name
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl NamedFile for (PathBuf, Arc<ServiceFile>) {
    fn name(&self) -> &str {
        &self.1.service.name
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

struct Reading<'a> {
    definitions: &'a dyn DefinitionStore,
    before: &'a Files,
    files: Files,
    /// The number of changes of the secrets that the last definition refers to.
    secret_changes: u64,
}

impl Reading<'_> {
    fn settings(&mut self, path: &Path) {
        if matches!(path.try_exists(), Ok(false)) {
            return;
        }
        let loaded = self.parsed(path, folder::text(path), None, settings::parse);
        self.files.settings = match loaded {
            Some(settings) => Arc::new(settings),
            None => Arc::clone(&self.before.settings),
        };
    }

    fn servers(&mut self) {
        let before = &self.before.servers;
        self.named(
            DefinitionKind::McpServer,
            before,
            |files| &mut files.servers,
            |reading, path, _| {
                let server = reading.file(path, |text| mcpserver::parse(text, &stem(path)))?;
                let secret_changes = reading.secret_changes;
                Some(ServerFile { path: path.to_owned(), server: Arc::new(server), secret_changes })
            },
        );
    }

    fn workflows(&mut self) {
        let before = &self.before.workflows;
        self.named(
            DefinitionKind::Workflow,
            before,
            |files| &mut files.workflows,
            |reading, path, previous| {
                let mut written: Arc<str> = Arc::default();
                let workflow = reading.file(path, |text| {
                    written = text.into();
                    match previous.filter(|previous| *previous.text == *text && previous.is_clean) {
                        Some(previous) => {
                            let value = Arc::clone(&previous.workflow);
                            Ok(Loaded { value, warnings: Vec::new() })
                        }
                        None => {
                            workflow::parse(text, &stem(path)).map(|Loaded { value, warnings }| {
                                Loaded { value: Arc::new(value), warnings }
                            })
                        }
                    }
                })?;
                let is_clean = !reading.files.problems.iter().any(|found| found.path == path);
                Some(WorkflowFile { path: path.to_owned(), workflow, text: written, is_clean })
            },
        );
    }

    fn classes(&mut self) {
        let before = &self.before.classes;
        self.named(
            DefinitionKind::ServiceClass,
            before,
            |files| &mut files.classes,
            |reading, path, _| {
                let class = reading.file(path, |text| serviceclass::parse(text, &stem(path)))?;
                Some(ClassFile { path: path.to_owned(), class: Arc::new(class) })
            },
        );
    }

    fn services(&mut self) {
        let before = &self.before.services;
        self.named(
            DefinitionKind::Service,
            before,
            |files| &mut files.services,
            |reading, path, _| {
                let service = reading.file(path, |text| service::parse(text, &stem(path)))?;
                Some((path.to_owned(), Arc::new(service)))
            },
        );
    }

    /// Reads the named resources of a folder. An invalid file keeps its last valid contents, and of two files with the
    /// same name the first one wins.
    fn named<F: NamedFile>(
        &mut self,
        kind: DefinitionKind,
        before: &BTreeMap<String, F>,
        of: fn(&mut Files) -> &mut BTreeMap<String, F>,
        read: impl Fn(&mut Self, &Path, Option<&F>) -> Option<F>,
    ) {
        let Some(paths) = self.folder(kind, |now, _| of(now).clone_from(before)) else { return };
        let before: BTreeMap<&Path, &F> =
            before.values().map(|known| (known.path(), known)).collect();
        for path in paths {
            let known = before.get(path.as_path()).copied();
            let Some(found) = read(self, &path, known).or_else(|| known.cloned()) else { continue };
            match of(&mut self.files).entry(found.name().to_owned()) {
                Entry::Vacant(place) => drop(place.insert(found)),
                Entry::Occupied(first) => {
                    let problem = taken(path, first.key(), first.get().path());
                    self.files.problems.push(problem);
                }
            }
        }
    }

    fn clis(&mut self) {
        let kind = DefinitionKind::Cli;
        let Some(paths) = self.folder(kind, |now, before| now.clis.clone_from(&before.clis)) else {
            return;
        };
        let mut clis = BTreeMap::new();
        for path in paths {
            let known = self.before.clis.as_ref().and_then(|clis| clis.get(&path)).cloned();
            let config = self.file(&path, cli::parse).map(Arc::new).or(known);
            clis.extend(config.map(|config| (path, config)));
        }
        self.files.clis = Some(clis);
    }

    fn policies(&mut self) {
        let kind = DefinitionKind::Policy;
        let place = self.definitions.place(kind);
        let Some(paths) = self.folder(kind, |now, before| {
            now.policies.clone_from(&before.policies);
            // A policy that was never read may forbid anything, so all calls are refused.
            if now.policies.is_empty() {
                now.problems.push(problem(&place, None, CLOSED.to_owned()));
                now.policies.insert(place, PolicyFile::default());
            }
        }) else {
            return;
        };
        for path in paths {
            let known = self.before.policies.get(&path).cloned();
            let mut written = String::new();
            let policy = self.file(&path, |text| {
                text.clone_into(&mut written);
                policy::parse(text)
            });
            let policy = match policy {
                Some(policy) => PolicyFile { policy: Some(Arc::new(policy)), text: written },
                None => known.unwrap_or_default(),
            };
            if policy.policy.is_none() {
                self.files.problems.push(problem(&path, None, CLOSED.to_owned()));
            }
            self.files.policies.insert(path, policy);
        }
    }

    fn toolsets(&mut self) {
        let kind = DefinitionKind::Toolset;
        let Some(paths) =
            self.folder(kind, |now, before| now.toolsets.clone_from(&before.toolsets))
        else {
            return;
        };
        for path in paths {
            let read = self.file(&path, |text| toolset::parse(text, &stem(&path)));
            let mut before = self.before.toolsets.iter();
            let (name, file) = match read {
                Some(NamedToolset { name, toolset }) => {
                    (name, ToolsetFile { path: path.clone(), toolset: Arc::new(toolset) })
                }
                None => match before.find(|(_, known)| known.path == path) {
                    Some((name, known)) => (name.clone(), known.clone()),
                    None => continue,
                },
            };
            match self.files.toolsets.entry(name) {
                Entry::Vacant(place) => drop(place.insert(file)),
                Entry::Occupied(known) => {
                    let problem = taken(path, known.key(), &known.get().path);
                    self.files.problems.push(problem);
                }
            }
        }
    }

    /// The paths of the definitions of a kind, if the store holds it. If they cannot be listed, they stay as they were:
    /// a transient error must not stop servers or drop rules.
    fn folder(
        &mut self,
        kind: DefinitionKind,
        keep: impl FnOnce(&mut Files, &Files),
    ) -> Option<Vec<PathBuf>> {
        match self.definitions.list(kind) {
            Ok(paths) => paths,
            Err(error) => {
                let place = self.definitions.place(kind);
                self.unreadable(&place, &error);
                keep(&mut self.files, self.before);
                let kept = self.before.generations.iter();
                let kept = kept.filter(|(path, _)| path.starts_with(&place));
                let kept = kept.map(|(path, generation)| (path.clone(), *generation));
                Arc::make_mut(&mut self.files.generations).extend(kept);
                None
            }
        }
    }

    fn file<T>(
        &mut self,
        path: &Path,
        parse: impl FnOnce(&str) -> Result<Loaded<T>, LoadError>,
    ) -> Option<T> {
        match self.definitions.read(path) {
            Ok(StoredText { text, generation, secret_changes }) => {
                self.secret_changes = secret_changes;
                self.parsed(path, Ok(text), generation, parse)
            }
            Err(error) => self.parsed(path, Err(error), None, parse),
        }
    }

    fn parsed<T>(
        &mut self,
        path: &Path,
        text: io::Result<String>,
        generation: Option<i64>,
        parse: impl FnOnce(&str) -> Result<Loaded<T>, LoadError>,
    ) -> Option<T> {
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.unreadable(path, &error);
                // Its last contents stay in effect, with their generation.
                if let Some(generation) = self.before.generations.get(path) {
                    let generations = Arc::make_mut(&mut self.files.generations);
                    generations.insert(path.to_owned(), *generation);
                }
                return None;
            }
        };
        let (value, mut problems) = match parse(&text) {
            Ok(Loaded { value, warnings }) => {
                (Some(value), warnings.iter().map(|warning| warned(path, warning)).collect())
            }
            Err(error) => (None, refused(path, error)),
        };
        if let Some(generation) = generation {
            Arc::make_mut(&mut self.files.generations).insert(path.to_owned(), generation);
            problems.iter_mut().for_each(|problem| problem.line = None);
        }
        self.files.problems.extend(problems);
        value
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.files.problems.push(unreadable(path, error));
    }
}

/// The problem of a file or folder that cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> FileProblem {
    if error.kind() == io::ErrorKind::InvalidData {
        let fix = Some("save it as UTF-8, without another encoding such as UTF-16".to_owned());
        return FileProblem { fix, ..problem(path, None, "it is not text in UTF-8".to_owned()) };
    }
    let fix = (error.kind() == io::ErrorKind::PermissionDenied).then(|| {
        let path = shell_quoted(&path.to_string_lossy());
        format!("make it readable for the user of the gateway: `chmod u+rX {path}`")
    });
    FileProblem { fix, ..problem(path, None, error.to_string()) }
}

/// The default name of a definition: the name of its file.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The problem of two files that define the same name.
fn taken(path: PathBuf, name: &str, first: &Path) -> FileProblem {
    let message = format!("the name '{name}' is taken by {}", first.display());
    let fix = Some("give it another `metadata.name`".to_owned());
    FileProblem { path, line: None, message, fix, severity: Severity::Error }
}

fn problem(path: &Path, line: Option<usize>, message: String) -> FileProblem {
    FileProblem { path: path.to_owned(), line, message, fix: None, severity: Severity::Error }
}

pub(super) fn warned(path: &Path, warning: &Warning) -> FileProblem {
    let severity = Severity::Warning;
    FileProblem { severity, ..problem(path, Some(warning.line), warning.to_string()) }
}

pub(super) fn refused(path: &Path, error: LoadError) -> Vec<FileProblem> {
    match error {
        LoadError::Fields(problems) => {
            let problems = problems.into_iter().map(|found| FileProblem {
                fix: found.fix.clone(),
                ..problem(path, Some(found.line), found.to_string())
            });
            problems.collect()
        }
        LoadError::Syntax(error) => vec![problem(path, Some(error.line), error.message)],
        error @ (LoadError::NotAMapping { .. } | LoadError::KeyNotText { .. }) => {
            vec![problem(path, None, error.to_string())]
        }
    }
}
