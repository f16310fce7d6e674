//! Loads scenario files, reports problems by file, line and field, and selects what to run.

pub(crate) mod node;
mod scenario;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use muster_config::{Severity, yaml};
use muster_core::suggest::similar;
use thiserror::Error;

use crate::{
    options::{Selection, SkipPolicy},
    scenario::Scenario,
};
use node::Diagnostics;

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioProblem {
    /// Its severity.
    pub severity: Severity,
    /// The line, from 1.
    pub line: usize,
    /// The field, as in `steps[2].expected.contains`; empty for the whole file.
    pub field: String,
    /// The message.
    pub message: String,
}

impl fmt::Display for ScenarioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message, .. } = self;
        match field.as_str() {
            "" => write!(f, "line {line}: {message}"),
            field => write!(f, "line {line}: {field}: {message}"),
        }
    }
}

/// A loaded file.
#[derive(Debug)]
pub struct LoadedFile {
    /// Its path.
    pub file: PathBuf,
    /// The scenario, unless there are errors.
    pub scenario: Option<Scenario>,
    /// Its problems.
    pub problems: Vec<ScenarioProblem>,
}

impl LoadedFile {
    /// The errors, each as one line with the file's name.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        self.lines(Severity::Error)
    }

    /// The warnings, each as one line with the file's name.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.lines(Severity::Warning)
    }

    fn lines(&self, severity: Severity) -> impl Iterator<Item = String> {
        let problems = self.problems.iter().filter(move |problem| problem.severity == severity);
        problems.map(|problem| format!("{}: {problem}", self.file.display()))
    }
}

/// Why scenarios could not be loaded.
#[derive(Debug, Error)]
pub enum ScenarioLoadError {
    /// The files cannot be listed or read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Files with errors.
    #[error("failed to load test scenarios:\n  {}", .0.join("\n  "))]
    Invalid(Vec<String>),
    /// No scenario has that name.
    #[error("scenario '{name}' not found{}", suggestion(near))]
    NotFound {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(". Did you mean: {}?", near.join(", ")) }
}

/// Loads a file, or every `.yaml` and `.yml` below a directory, ordered by path.
pub fn load(path: &Path) -> Result<Vec<LoadedFile>, ScenarioLoadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| ScenarioLoadError::Unreadable { path, source }
    };
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, &mut files).map_err(unreadable(path))?;
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).map_err(unreadable(&file))?;
        Ok(parse(&file, &text))
    };
    files.into_iter().map(read).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Parses the text of one file.
pub fn parse(file: &Path, text: &str) -> LoadedFile {
    let file = file.to_owned();
    match yaml::parse(text) {
        Ok(node) => {
            let mut diagnostics = Diagnostics::default();
            let scenario = scenario::read(&node, &file, &mut diagnostics);
            let problems = diagnostics.into_problems();
            let usable = problems.iter().all(|problem| problem.severity == Severity::Warning);
            LoadedFile { file, scenario: scenario.filter(|_| usable), problems }
        }
        Err(err) => {
            let problem = ScenarioProblem {
                severity: Severity::Error,
                line: err.line,
                field: String::new(),
                message: err.message,
            };
            LoadedFile { file, scenario: None, problems: vec![problem] }
        }
    }
}

/// Splits the selected scenarios into those to run and those with `skip: true`. One file with errors fails
/// everything: a run that ignores it would look green.
pub fn choose(
    loaded: Vec<LoadedFile>,
    selection: &Selection,
) -> Result<(Vec<Scenario>, Vec<Scenario>), ScenarioLoadError> {
    let errors: Vec<String> = loaded.iter().flat_map(LoadedFile::errors).collect();
    if !errors.is_empty() {
        return Err(ScenarioLoadError::Invalid(errors));
    }
    let scenarios: Vec<Scenario> =
        loaded.into_iter().filter_map(|loaded| loaded.scenario).collect();
    let named = selection.scenario.as_deref();
    if let Some(name) = named
        && !scenarios.iter().any(|scenario| scenario.name == name)
    {
        let names = scenarios.iter().map(|scenario| scenario.name.as_str());
        let near = similar(name, names).into_iter().map(str::to_owned).collect();
        return Err(ScenarioLoadError::NotFound { name: name.to_owned(), near });
    }
    let fits = |scenario: &Scenario| {
        named.is_none_or(|name| scenario.name == name)
            && selection.category.is_none_or(|category| scenario.category == category.name())
            && selection.concept.is_none_or(|concept| scenario.concept == concept.name())
    };
    let skips = |scenario: &Scenario| scenario.skip && selection.skipped == SkipPolicy::Honor;
    Ok(scenarios.into_iter().filter(fits).partition(|scenario| !skips(scenario)))
}

#[cfg(test)]
mod tests;
