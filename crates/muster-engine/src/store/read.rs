//! Reads the directory.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::{
    LoadError, Loaded, Warning, cli, mcpserver, policy,
    service::{self, ServiceFile},
    serviceclass, settings,
    toolset::{self, NamedToolset},
    workflow,
};

use super::{
    CLASSES, CLIS, CONFIG, ClassFile, FileProblem, Files, POLICIES, PolicyFile, SERVERS, SERVICES,
    ServerFile, Severity, TOOLSETS, ToolsetFile, WORKFLOWS, WorkflowFile,
};

/// The longest file that is read.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The consequence of a policy that cannot be read.
const CLOSED: &str = "until this policy can be read no tool may be called";

pub(super) fn load(root: &Path, before: &Files) -> Files {
    let mut reading = Reading { before, files: Files::default() };
    reading.settings(&root.join(CONFIG));
    reading.servers(&root.join(SERVERS));
    reading.workflows(&root.join(WORKFLOWS));
    reading.classes(&root.join(CLASSES));
    reading.services(&root.join(SERVICES));
    reading.clis(&root.join(CLIS));
    reading.policies(&root.join(POLICIES));
    reading.toolsets(&root.join(TOOLSETS));
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
    before: &'a Files,
    files: Files,
}

impl Reading<'_> {
    fn settings(&mut self, path: &Path) {
        if matches!(path.try_exists(), Ok(false)) {
            return;
        }
        let loaded = self.file(path, settings::parse);
        self.files.settings = match loaded {
            Some(settings) => Arc::new(settings),
            None => Arc::clone(&self.before.settings),
        };
    }

    fn servers(&mut self, folder: &Path) {
        let before = &self.before.servers;
        self.named(
            folder,
            before,
            |files| &mut files.servers,
            |reading, path, _| {
                let server = reading.file(path, |text| mcpserver::parse(text, &stem(path)))?;
                Some(ServerFile { path: path.to_owned(), server: Arc::new(server) })
            },
        );
    }

    fn workflows(&mut self, folder: &Path) {
        let before = &self.before.workflows;
        self.named(
            folder,
            before,
            |files| &mut files.workflows,
            |reading, path, known| {
                let mut written: Arc<str> = Arc::default();
                let workflow = reading.file(path, |text| {
                    written = text.into();
                    match known.filter(|known| *known.text == *text && known.is_clean) {
                        Some(known) => {
                            let value = Arc::clone(&known.workflow);
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

    fn classes(&mut self, folder: &Path) {
        let before = &self.before.classes;
        self.named(
            folder,
            before,
            |files| &mut files.classes,
            |reading, path, _| {
                let class = reading.file(path, |text| serviceclass::parse(text, &stem(path)))?;
                Some(ClassFile { path: path.to_owned(), class: Arc::new(class) })
            },
        );
    }

    fn services(&mut self, folder: &Path) {
        let before = &self.before.services;
        self.named(
            folder,
            before,
            |files| &mut files.services,
            |reading, path, _| {
                let service = reading.file(path, |text| service::parse(text, &stem(path)))?;
                Some((path.to_owned(), Arc::new(service)))
            },
        );
    }

    /// Reads the resources of a folder, which have names. An invalid file keeps its last valid contents, and of two
    /// files with one name the first counts.
    fn named<F: NamedFile>(
        &mut self,
        folder: &Path,
        before: &BTreeMap<String, F>,
        of: fn(&mut Files) -> &mut BTreeMap<String, F>,
        read: impl Fn(&mut Self, &Path, Option<&F>) -> Option<F>,
    ) {
        let Some(paths) = self.folder(folder, |now, _| of(now).clone_from(before)) else { return };
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

    fn clis(&mut self, folder: &Path) {
        let Some(paths) = self.folder(folder, |now, before| now.clis.clone_from(&before.clis))
        else {
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

    fn policies(&mut self, folder: &Path) {
        let Some(paths) = self.folder(folder, |now, before| {
            now.policies.clone_from(&before.policies);
            // A policy that was never read may forbid anything.
            if now.policies.is_empty() {
                now.policies.insert(folder.to_owned(), PolicyFile::default());
                now.problems.push(problem(folder, None, CLOSED.to_owned()));
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

    fn toolsets(&mut self, folder: &Path) {
        let Some(paths) =
            self.folder(folder, |now, before| now.toolsets.clone_from(&before.toolsets))
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

    /// The YAML files of a folder by name, if it exists. If the folder cannot be listed its contents stay as they
    /// were: a transient error must not stop servers or drop rules.
    fn folder(
        &mut self,
        folder: &Path,
        keep: impl FnOnce(&mut Files, &Files),
    ) -> Option<Vec<PathBuf>> {
        match listed(folder) {
            Ok(paths) => Some(paths),
            // Without free file descriptors even the existence is unknown.
            Err(_) if matches!(folder.try_exists(), Ok(false)) => None,
            Err(error) => {
                self.unreadable(folder, &error);
                keep(&mut self.files, self.before);
                None
            }
        }
    }

    fn file<T>(
        &mut self,
        path: &Path,
        parse: impl FnOnce(&str) -> Result<Loaded<T>, LoadError>,
    ) -> Option<T> {
        let text = match text(path) {
            Ok(text) => text,
            Err(error) => {
                self.unreadable(path, &error);
                return None;
            }
        };
        match parse(&text) {
            Ok(Loaded { value, warnings }) => {
                let warnings = warnings.iter().map(|warning| warned(path, warning));
                self.files.problems.extend(warnings);
                Some(value)
            }
            Err(error) => {
                self.files.problems.extend(refused(path, error));
                None
            }
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.files.problems.push(problem(path, None, error.to_string()));
    }
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_ours(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The default name of a definition: the name of its file.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Two files that define the same name.
fn taken(path: PathBuf, name: &str, first: &Path) -> FileProblem {
    let message = format!("the name '{name}' is taken by {}", first.display());
    let fix = Some("give it another `metadata.name`".to_owned());
    FileProblem { path, line: None, message, fix, severity: Severity::Error }
}

fn text(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(io::Error::other("it is too large"));
    }
    fs::read_to_string(path)
}

/// Hidden files are temporary files of editors and of muster itself.
fn is_ours(path: &Path) -> bool {
    let ending = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    ending && !hidden
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
