//! `muster validate`: checks files without a gateway.

mod workflow;

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use muster_client::{
    doctor::{Verdict, definitions},
    user_dirs,
};
use muster_config::{
    documents::documents,
    formats::{FORMATS, FileFormat},
    mcpserver,
};
use muster_engine::{
    store::{ConfigStore, FileProblem, Files, ServerFile, Severity, file_problems},
    unmatched_rules,
};
use serde::Serialize;

use crate::{
    bundled,
    error::CommandError,
    output::{Format, Printer, Tone},
    process,
};

/// Check configuration files without a gateway
///
/// Checks files of every kind: MCP servers, workflows, service classes, services, toolsets, policies, CLI configs and
/// config.yaml. A configuration directory is checked as a whole. The kind of a file follows from its folder, or
/// from its contents. Exits with 1 if a file cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster validate
  muster validate ./gateway
  muster validate github.yaml deploy.yaml
  cat resources.yaml | muster validate -")]
pub(crate) struct Validate {
    /// Files and directories; `-` reads standard input [default: the configuration directory]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    config_path: Option<PathBuf>,
    /// The output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// The files that were checked, and the findings.
#[derive(Default)]
struct Findings {
    files: usize,
    problems: Vec<FileProblem>,
}

pub(crate) fn run(args: &Validate) -> Result<ExitCode, CommandError> {
    let mut findings = Findings::default();
    let paths = match (args.paths.is_empty(), &args.config_path) {
        (false, _) => args.paths.clone(),
        (true, Some(path)) => vec![path.clone()],
        (true, None) => vec![user_dirs::config()?],
    };
    for path in &paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            findings.text(Path::new("standard input"), &text, None);
        } else if path.is_dir() {
            findings.folder(path)?;
        } else {
            findings.file(path)?;
        }
    }
    findings.problems.sort_by_key(|found| (found.path.clone(), found.line, found.message.clone()));
    findings.problems.dedup();
    let failed = findings.count(Severity::Error) > 0;
    match args.output {
        Format::Json => print_json(&findings)?,
        Format::Table => print(&findings)?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Findings {
    fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }

    fn file(&mut self, path: &Path) -> Result<(), CommandError> {
        let text = fs::read_to_string(path)
            .map_err(|err| CommandError::new(format!("cannot read {}: {err}", path.display())))?;
        self.text(path, &text, format_by_place(path));
        Ok(())
    }

    /// Checks the documents of a text. A file of the configuration directory holds only one.
    fn text(&mut self, path: &Path, text: &str, by_place: Option<&'static FileFormat>) {
        self.files += 1;
        if let Some(format) = by_place {
            return self.problems.extend(document_problems(path, text, format));
        }
        for document in documents(text) {
            let problems = match FileFormat::of_text(&document.text) {
                Some(format) => document_problems(path, &document.text, format),
                None => vec![unknown_format(path, document.line)],
            };
            self.problems.extend(problems);
        }
    }

    fn folder(&mut self, root: &Path) -> Result<(), CommandError> {
        let folders = FORMATS.iter().filter_map(FileFormat::folder);
        let is_whole = root.join("config.yaml").exists()
            || folders.clone().any(|folder| root.join(folder).is_dir());
        if !is_whole {
            let files = yaml_files(root)?;
            return files.iter().try_for_each(|path| self.file(path));
        }
        let config = root.join("config.yaml");
        if config.exists() {
            self.file(&config)?;
        }
        for folder in folders {
            let folder = root.join(folder);
            if folder.is_dir() {
                yaml_files(&folder)?.iter().try_for_each(|path| self.file(path))?;
            }
        }
        // Check the directory as a whole, which may have problems that no single file has.
        let files = ConfigStore::new(root).load(&Files::default());
        let rules = unmatched_rules::examined(&files, &bundled::clis(), &Default::default());
        self.problems.extend(files.problems.into_iter().chain(rules));
        Ok(())
    }
}

/// The problems of one document.
fn document_problems(path: &Path, text: &str, format: &FileFormat) -> Vec<FileProblem> {
    let name = stem(path);
    let mut problems = file_problems(path, format.check(text, &name));
    if format.name == "workflow" {
        problems.extend(workflow::problems(path, text, &name));
    }
    if format.name == "mcpserver"
        && let Ok(loaded) = mcpserver::parse(text, &name)
    {
        let (file, server) = (path.to_owned(), loaded.value.into());
        let file = ServerFile { path: file, server, secret_changes: 0 };
        let line = |field: &str| {
            let starts = |line: &str| line.trim_start().starts_with(&format!("{field}:"));
            text.lines().position(starts).map(|index| index + 1)
        };
        problems.extend(definitions::check_one(&file, &process::environment()).map(|found| {
            FileProblem {
                path: path.to_owned(),
                line: line(if found.code.starts_with("url") { "url" } else { "command" }),
                message: found.message,
                fix: found.fix,
                severity: match found.verdict {
                    Verdict::Bad => Severity::Error,
                    Verdict::Warning | Verdict::Good => Severity::Warning,
                },
            }
        }));
    }
    problems
}

/// Determines the format of a file by its place in a configuration directory.
pub(super) fn format_by_place(path: &Path) -> Option<&'static FileFormat> {
    if path.file_name().is_some_and(|name| name == "config.yaml") {
        return FileFormat::named("config");
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    FileFormat::of_folder(&path.parent()?.file_name()?.to_string_lossy())
}

/// The name of a file without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Lists the YAML files of a folder that are not hidden, sorted by name.
pub(super) fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let failed = |err| CommandError::new(format!("cannot read {}: {err}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if is_yaml && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The problem of a document whose kind is unknown.
pub(super) fn unknown_format(path: &Path, line: usize) -> FileProblem {
    FileProblem {
        path: path.to_owned(),
        line: Some(line),
        message: "it is not clear what this document describes".to_owned(),
        fix: Some(
            "add `kind: MCPServer`, `Workflow`, `ServiceClass`, `Service` or `Toolset`, or put the file into \
             its folder of the configuration directory"
                .to_owned(),
        ),
        severity: Severity::Error,
    }
}

fn print(findings: &Findings) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    for problem in &findings.problems {
        let word = match problem.severity {
            Severity::Error => printer.paint(Tone::Bad, "error"),
            Severity::Warning => printer.paint(Tone::Warning, "warning"),
        };
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        printer.line(&format!("{}{line}: {word}: {}", problem.path.display(), problem.message))?;
        if let Some(fix) = &problem.fix {
            printer.line(&format!("  → {fix}"))?;
        }
    }
    let (errors, warnings) = (findings.count(Severity::Error), findings.count(Severity::Warning));
    let counted =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let (files, errors) = (counted(findings.files, "file"), counted(errors, "error"));
    printer.line(&format!("{files}, {errors}, {}", counted(warnings, "warning")))
}

fn print_json(findings: &Findings) -> Result<(), CommandError> {
    #[derive(Serialize)]
    struct Found<'a> {
        file: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
        severity: &'static str,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        fix: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Report<'a> {
        valid: bool,
        files: usize,
        problems: Vec<Found<'a>>,
    }
    let problems = findings.problems.iter().map(|problem| Found {
        file: problem.path.display().to_string(),
        line: problem.line,
        severity: match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        message: &problem.message,
        fix: problem.fix.as_deref(),
    });
    Printer::stdout().json(&Report {
        valid: findings.count(Severity::Error) == 0,
        files: findings.files,
        problems: problems.collect(),
    })
}
