//! What came of a run, as the agent reads it. The texts are contract.

use std::{borrow::Cow, time::Duration};

use muster_core::{call::Outcome, json::raw, python, value::Value};
use serde::Serialize;

use crate::{
    launcher::Step,
    run::{Captured, Ending, Finished},
};

/// What is shown of a stream that did not fit; all of it is in a file.
const SHOWN_OF_SPILLED: usize = 64 * 1024;

/// What does not fit the text of an answer.
#[derive(Serialize, Default)]
struct Details<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_file: Option<String>,
}

/// The command as it was asked for, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The tool.
    pub(super) tool: &'a str,
    /// The first word.
    pub(super) program: &'a str,
    /// Where it was to run.
    pub(super) working_dir: Option<&'a str>,
    /// Seconds it was given.
    pub(super) timeout: f64,
}

/// Words a finished run.
pub(super) fn outcome(asked: Asked<'_>, finished: &Finished) -> Outcome {
    let code = match finished.ending {
        Ending::Exited(code) => code,
        Ending::Signalled(signal) => -signal,
        Ending::NotFound => return not_found(asked),
        Ending::TimedOut => return timed_out(asked, finished),
        Ending::NotStarted { errno, step } => return Outcome::failure(refused(asked, errno, step)),
        Ending::ContainsNul => return Outcome::failure("embedded null byte"),
        Ending::NothingToRun => return Outcome::failure("list index out of range"),
        Ending::Lost => {
            return Outcome::failure(
                "the command was ended because the helper process that runs commands died; call again",
            );
        }
    };
    log_end(asked, code, finished);
    let (stdout, stderr) = (stream_text(&finished.stdout), stream_text(&finished.stderr));
    let notes = [note("stdout", &finished.stdout), note("stderr", &finished.stderr)];
    let mut text = join(python::strip(&stdout), python::strip(&stderr), code);
    for note in notes.into_iter().flatten() {
        text.push_str("\n\n");
        text.push_str(&note);
    }
    Outcome::Text { text, failed: code != 0, details: spill_details(finished) }
}

fn join(stdout: &str, stderr: &str, code: i32) -> String {
    let mut parts = Vec::new();
    if !stdout.is_empty() {
        parts.push(stdout.to_owned());
    }
    if !stderr.is_empty() {
        parts.push(format!("[stderr]\n{stderr}"));
    }
    if code != 0 {
        parts.push(format!("[exit code: {code}]"));
    }
    if parts.is_empty() { "(no output)".to_owned() } else { parts.join("\n\n") }
}

fn stream_text(captured: &Captured) -> Cow<'_, str> {
    let shown = match captured.cut() {
        0 => &captured.bytes,
        _ => captured.bytes.get(..SHOWN_OF_SPILLED).unwrap_or(&captured.bytes),
    };
    String::from_utf8_lossy(shown)
}

fn note(stream: &str, captured: &Captured) -> Option<String> {
    if captured.cut() == 0 {
        return None;
    }
    let shown = captured.bytes.len().min(SHOWN_OF_SPILLED);
    let total = captured.total;
    let rest = match &captured.spill {
        Some(path) if captured.spilled == total => {
            format!("all of it is in {} until this server ends", path.display())
        }
        Some(path) => format!("the first {} bytes are in {}", captured.spilled, path.display()),
        None => "the rest could not be stored; narrow the command".to_owned(),
    };
    Some(format!("[{stream} cut: the first {shown} of {total} bytes are shown; {rest}]"))
}

fn spill_details(finished: &Finished) -> Option<muster_core::json::Raw> {
    let Finished { stdout, stderr, .. } = finished;
    if stdout.cut() == 0 && stderr.cut() == 0 {
        return None;
    }
    let file = |captured: &Captured| captured.spill.as_ref().map(|path| path.display().to_string());
    Some(raw(&Details {
        stdout_bytes: Some(stdout.total),
        stdout_file: file(stdout),
        stderr_bytes: Some(stderr.total),
        stderr_file: file(stderr),
        ..Details::default()
    }))
}

fn not_found(asked: Asked<'_>) -> Outcome {
    log_failure(asked, -1, Duration::ZERO);
    Outcome::failure(join("", &format!("Command not found: {}", asked.program), -1))
}

/// The text stays as it was; what the command printed before it was ended travels beside it.
fn timed_out(asked: Asked<'_>, finished: &Finished) -> Outcome {
    log_failure(asked, -1, finished.took);
    let error = format!("Command timed out after {}s", python::float_text(asked.timeout));
    let details = Details {
        error: Some(error.clone()),
        stdout: Some(stream_text(&finished.stdout)),
        stderr: Some(stream_text(&finished.stderr)),
        ..Details::default()
    };
    Outcome::Text { text: join("", &error, -1), failed: true, details: Some(raw(&details)) }
}

fn refused(asked: Asked<'_>, errno: i32, step: Step) -> String {
    let what = match step {
        Step::Directory => asked.working_dir.unwrap_or_default(),
        Step::Program => asked.program,
        Step::Prepare => return format!("cannot start a process: {}", os_error(errno)),
    };
    let quoted = python::repr(&Value::Text(what.to_owned()));
    format!("[Errno {errno}] {}: {quoted}", os_error(errno))
}

/// What the system calls an error, without the number that Rust adds.
fn os_error(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A working directory must be text.
pub(super) fn not_a_path(value: &Value) -> Outcome {
    let kind = match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        _ => "object",
    };
    Outcome::failure(format!("expected str, bytes or os.PathLike object, not {kind}"))
}

/// Says what is about to run; long words are cut, so that a log stays readable.
pub(super) fn log_start(words: &[String]) {
    const LONG: usize = 120;
    const KEPT: usize = 60;
    let short = |word: &String| match word.chars().count() {
        length if length > LONG => {
            let start: String = word.chars().take(KEPT).collect();
            format!("{start}…[{length} bytes]")
        }
        _ => word.clone(),
    };
    tracing::info!("▶ {}", words.iter().map(short).collect::<Vec<_>>().join(" "));
    tracing::debug!("▶ full command: {}", words.join(" "));
}

fn log_end(asked: Asked<'_>, code: i32, finished: &Finished) {
    if code == 0 {
        let seconds = finished.took.as_secs_f64();
        tracing::info!(
            "✓ {} completed in {seconds:.1}s ({} bytes)",
            asked.tool,
            finished.stdout.total
        );
        return;
    }
    log_failure(asked, code, finished.took);
    let stderr = String::from_utf8_lossy(&finished.stderr.bytes);
    let start: String = python::strip(&stderr).chars().take(200).collect();
    if !start.is_empty() {
        tracing::debug!("stderr: {start}");
    }
}

fn log_failure(asked: Asked<'_>, code: i32, took: Duration) {
    tracing::warn!("✗ {} failed (exit {code}) in {:.1}s", asked.tool, took.as_secs_f64());
}

impl Finished {
    /// A run that was given no time at all.
    pub(super) fn without_time() -> Self {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        Self { ending: Ending::TimedOut, stdout, stderr, pid: None, took: Duration::ZERO }
    }
}
