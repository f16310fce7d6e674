//! `climax validate`.

use std::{path::Path, process::ExitCode};

use muster_config::{LoadError, Problem, ProblemKind, Warning};
use muster_core::policy::unmatched::UnmatchedRule;
use muster_exec::{environment::Environment, lookup};
use serde::Serialize;

use super::{
    args::Validate,
    assembly::Assembly,
    load::{self, FileError},
};
use crate::{
    error::CommandError,
    output::{self, Format, Printer, Tone},
    process,
};

/// The result of checking one file.
#[derive(Serialize)]
struct Verdict {
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The number of tools of a config, or of rules of a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    problems: Vec<Found>,
    warnings: Vec<Found>,
    /// The names of the tools without a declared effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_effect: Vec<String>,
}

#[derive(Serialize)]
struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Serialize)]
struct Report {
    configs: Vec<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Verdict>,
    valid: usize,
    invalid: usize,
}

pub(super) fn run(args: &Validate) -> Result<ExitCode, CommandError> {
    let environment = process::environment();
    let configs: Vec<Verdict> =
        args.configs.iter().map(|word| check_config(word, &environment)).collect();
    let policy = args.policy.as_deref().map(|path| check_policy(path, &args.configs));
    let valid = configs.iter().filter(|verdict| verdict.valid).count();
    let invalid = configs.iter().chain(&policy).filter(|verdict| !verdict.valid).count();
    let report = Report { configs, policy, valid, invalid };
    let printer = Printer::stdout();
    match args.output {
        Format::Json => printer.json(&report)?,
        Format::Table => print(printer, &report)?,
    }
    // Scripts parse standard output, so advice goes to standard error.
    for verdict in &report.configs {
        if let Some(advice) = verdict.effect_advice() {
            output::hint(&advice);
        }
    }
    Ok(if invalid == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn check_config(word: &str, environment: &Environment) -> Verdict {
    let loaded = match load::config(word) {
        Ok(loaded) => loaded,
        Err(err) => return Verdict::bad(word.to_owned(), &err),
    };
    let config = loaded.value;
    let tools = config.tools.len();
    let mut verdict = Verdict::good(word.to_owned(), Some(config.name), tools, &loaded.warnings);
    let without_effect = config.tools.into_iter().filter(|tool| tool.effect.is_none());
    verdict.without_effect = without_effect.map(|tool| tool.name).collect();
    let mistakes = load::mistakes(word).unwrap_or_default();
    verdict.valid = mistakes.is_empty();
    verdict.problems.extend(mistakes.iter().map(Found::from));
    match environment.command_words(&config.command).first() {
        None => {
            verdict.valid = false;
            verdict.problems.push(Found {
                path: Some("command".to_owned()),
                message: "The command is empty".to_owned(),
                line: None,
                fix: Some("name the program to run".to_owned()),
            });
        }
        Some(program) if !lookup::exists(program, environment.get("PATH")) => {
            let message = format!("'{program}' not found on PATH");
            verdict.warnings.insert(0, Found { path: None, message, line: None, fix: None });
        }
        Some(_) => (),
    }
    verdict
}

fn check_policy(path: &Path, configs: &[String]) -> Verdict {
    let file = path.display().to_string();
    let loaded = match load::policy(path) {
        Ok(loaded) => loaded,
        Err(err) => return Verdict::bad(file, &err),
    };
    let mut verdict = Verdict::good(file, None, loaded.value.rules.len(), &loaded.warnings);
    // Rules can be matched only if all configs load: otherwise some tools are unknown.
    let configs: Result<Vec<_>, _> = configs.iter().map(|word| load::config(word)).collect();
    if let Ok(configs) = configs {
        let configs = configs.into_iter().map(|loaded| loaded.value).collect();
        let unmatched = Assembly::new(configs, Vec::new(), loaded.value).unmatched_rules();
        verdict.warnings.extend(unmatched.iter().map(Found::from));
    }
    verdict
}

impl Verdict {
    fn good(file: String, name: Option<String>, count: usize, warnings: &[Warning]) -> Self {
        let warnings = warnings.iter().map(Found::from).collect();
        let (reason, problems, without_effect) = (None, Vec::new(), Vec::new());
        let count = Some(count);
        Self { file, valid: true, name, count, reason, problems, warnings, without_effect }
    }

    fn bad(file: String, err: &FileError) -> Self {
        let (reason, problems) = match err {
            FileError::Invalid(LoadError::Fields(problems)) => {
                (None, problems.iter().map(Found::from).collect())
            }
            err => (Some(err.to_string()), Vec::new()),
        };
        let (name, count, warnings, without_effect) = (None, None, Vec::new(), Vec::new());
        Self { file, valid: false, name, count, reason, problems, warnings, without_effect }
    }

    /// The advice to declare effects, if a tool has none.
    fn effect_advice(&self) -> Option<String> {
        const NAMED: usize = 5;
        let mut names: Vec<String> =
            self.without_effect.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
        let more = self.without_effect.len().saturating_sub(NAMED);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let (file, names) = (&self.file, names.join(", "));
        (!names.is_empty())
            .then(|| format!("{file}: state the `effect` (read, write or destructive) of {names}"))
    }
}

impl From<&Problem> for Found {
    fn from(problem: &Problem) -> Self {
        // A missing top-level field has no line to point to. Keep a fix that names the line of a misspelled field.
        let whole_file = problem.kind != ProblemKind::Invalid && problem.path.len() == 1;
        Self {
            path: Some(problem.path.join(" → ")),
            message: problem.message.clone(),
            line: (!whole_file).then_some(problem.line),
            fix: problem
                .fix
                .clone()
                .filter(|_| !whole_file || problem.kind == ProblemKind::Misspelled),
        }
    }
}

impl From<&UnmatchedRule> for Found {
    fn from(rule: &UnmatchedRule) -> Self {
        // Word it carefully: the policy may also be used with other configs.
        let message = match rule.argument {
            None => "none of these configs has such a tool",
            Some(_) => rule.message(),
        };
        Self {
            path: Some(rule.path().join(" → ")),
            message: message.to_owned(),
            line: None,
            fix: rule.fix(),
        }
    }
}

impl From<&Warning> for Found {
    fn from(warning: &Warning) -> Self {
        Self {
            path: Some(warning.path.join(" → ")),
            message: warning.message.clone(),
            line: Some(warning.line),
            fix: warning.similar.map(|similar| format!("did you mean `{similar}`?")),
        }
    }
}

fn print(printer: Printer, report: &Report) -> Result<(), CommandError> {
    for verdict in &report.configs {
        let what = match (&verdict.name, verdict.count) {
            (Some(name), Some(count)) if verdict.valid => format!("{name} — {count} tool(s)"),
            _ => verdict.file.clone(),
        };
        print_verdict(printer, &what, verdict)?;
    }
    if let Some(verdict) = &report.policy {
        let what = match verdict.count {
            Some(count) => format!("policy — {count} tool rule(s)"),
            None => format!("{} (policy)", verdict.file),
        };
        print_verdict(printer, &what, verdict)?;
    }
    printer.line("")?;
    if report.invalid == 0 {
        return printer.line(&format!("All {} config(s) valid", report.valid));
    }
    printer.line(&format!("{} valid, {} invalid", report.valid, report.invalid))
}

fn print_verdict(printer: Printer, what: &str, verdict: &Verdict) -> Result<(), CommandError> {
    let mark = match verdict.valid {
        true => printer.paint(Tone::Good, "✓"),
        false => printer.paint(Tone::Bad, "✗"),
    };
    match &verdict.reason {
        Some(reason) => printer.line(&format!("  {mark} {what}: {reason}"))?,
        None => printer.line(&format!("  {mark} {what}"))?,
    }
    for problem in &verdict.problems {
        printer.line(&format!("    {}", problem.text()))?;
    }
    for warning in &verdict.warnings {
        let mark = printer.paint(Tone::Warning, "⚠");
        printer.line(&format!("    {mark} {}", warning.text()))?;
    }
    Ok(())
}

impl Found {
    fn text(&self) -> String {
        let path = self.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        let line = self.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        let fix = self.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
        format!("{path}{}{line}{fix}", self.message)
    }
}
