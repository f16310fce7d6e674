//! The text an agent reads about a finished run. CLImax's texts are a contract.

use std::{borrow::Cow, time::Duration};

use muster_core::{
    call::{ARGUMENT_VALUES, Outcome},
    json::raw,
    python,
    value::Value,
};
use serde::Serialize;

use crate::{
    launcher::StartStep,
    run::{CapturedStream, CompletedRun, Ending},
};

/// How much of a spilled stream is shown; all of it is in a file.
const SPILLED_PREVIEW_BYTES: usize = 64 * 1024;
/// How much of standard error is shown next to a spilled standard output.
const STDERR_BESIDE_BYTES: usize = 4 * 1024;

/// Structured content in addition to the text.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// The command that was run, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Invocation<'a> {
    /// The tool.
    pub(super) tool: &'a str,
    /// The first argument.
    pub(super) program: &'a str,
    /// Its working directory.
    pub(super) working_dir: Option<&'a str>,
    /// Its timeout in seconds.
    pub(super) timeout: f64,
}

/// The outcome of a completed run.
pub(super) fn outcome(invocation: Invocation<'_>, finished: &CompletedRun) -> Outcome {
    let code = match finished.ending {
        Ending::Exited(code) => code,
        Ending::Signalled(signal) => -signal,
        Ending::NotFound => return not_found(invocation),
        Ending::TimedOut => return timed_out(invocation, finished),
        Ending::NotStarted { errno, step } => {
            return Outcome::failure(refused(invocation, errno, step));
        }
        Ending::ContainsNul => return Outcome::failure("embedded null byte"),
        Ending::NothingToRun => return Outcome::failure("list index out of range"),
        Ending::Lost => {
            return Outcome::failure(
                "the command was ended because the helper process that runs commands died; call again",
            );
        }
    };
    log_exit(invocation, code, finished);
    let (stdout, stderr) = (stream_text(&finished.stdout), stream_text(&finished.stderr));
    let notes = [note("stdout", &finished.stdout), note("stderr", &finished.stderr)];
    let mut text = join(python::strip(&stdout), python::strip(&stderr), code);
    for note in notes.into_iter().flatten() {
        text.push_str("\n\n");
        text.push_str(&note);
    }
    Outcome::Text { text, failed: code != 0, details: spill_details(finished, code) }
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

fn stream_text(captured: &CapturedStream) -> Cow<'_, str> {
    let shown = match captured.missing() {
        0 => &captured.bytes,
        _ => captured.bytes.get(..SPILLED_PREVIEW_BYTES).unwrap_or(&captured.bytes),
    };
    String::from_utf8_lossy(shown)
}

fn note(stream: &str, captured: &CapturedStream) -> Option<String> {
    if captured.missing() == 0 {
        return None;
    }
    let shown = captured.bytes.len().min(SPILLED_PREVIEW_BYTES);
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

fn spill_details(finished: &CompletedRun, code: i32) -> Option<muster_core::json::Raw> {
    let CompletedRun { stdout, stderr, .. } = finished;
    if stdout.missing() == 0 && stderr.missing() == 0 {
        return None;
    }
    let file =
        |captured: &CapturedStream| captured.spill.as_ref().map(|path| path.display().to_string());
    let beside = stderr.bytes.get(..STDERR_BESIDE_BYTES).unwrap_or(&stderr.bytes);
    let beside = (stdout.missing() > 0 && !beside.is_empty()).then_some(beside);
    Some(raw(&Details {
        stderr: beside.map(String::from_utf8_lossy),
        exit_code: (code != 0).then_some(code),
        stdout_bytes: Some(stdout.total),
        stdout_file: file(stdout),
        stderr_bytes: Some(stderr.total),
        stderr_file: file(stderr),
        ..Details::default()
    }))
}

fn not_found(invocation: Invocation<'_>) -> Outcome {
    log_failure(invocation, -1, Duration::ZERO);
    Outcome::failure(join("", &format!("Command not found: {}", invocation.program), -1))
}

/// The text is a contract; the output that the command printed before it was killed is added as structured content.
fn timed_out(invocation: Invocation<'_>, finished: &CompletedRun) -> Outcome {
    log_failure(invocation, -1, finished.took);
    let error = format!("Command timed out after {}s", python::float_text(invocation.timeout));
    let details = Details {
        error: Some(error.clone()),
        stdout: Some(stream_text(&finished.stdout)),
        stderr: Some(stream_text(&finished.stderr)),
        ..Details::default()
    };
    Outcome::Text { text: join("", &error, -1), failed: true, details: Some(raw(&details)) }
}

fn refused(invocation: Invocation<'_>, errno: i32, step: StartStep) -> String {
    let path = match step {
        StartStep::Directory => invocation.working_dir.unwrap_or_default(),
        StartStep::Program => invocation.program,
        StartStep::Prepare => return format!("cannot start a process: {}", os_error(errno)),
    };
    let quoted = python::repr(&Value::Text(path.to_owned()));
    format!("[Errno {errno}] {}: {quoted}", os_error(errno))
}

/// The system's text for an error, without the number that Rust appends.
fn os_error(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The failure for a working directory that is not text.
pub(super) fn not_a_path(value: &Value) -> Outcome {
    let kind = match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        _ => "object",
    };
    Outcome::failure(format!("expected str, bytes or os.PathLike object, not {kind}"))
}

/// Logs the command; long arguments are shortened.
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
    tracing::info!(target: ARGUMENT_VALUES, "▶ {}", words.iter().map(short).collect::<Vec<_>>().join(" "));
    tracing::debug!(target: ARGUMENT_VALUES, "▶ full command: {}", words.join(" "));
}

fn log_exit(invocation: Invocation<'_>, code: i32, finished: &CompletedRun) {
    if code == 0 {
        let seconds = finished.took.as_secs_f64();
        tracing::info!(
            "✓ {} completed in {seconds:.1}s ({} bytes)",
            invocation.tool,
            finished.stdout.total
        );
        return;
    }
    log_failure(invocation, code, finished.took);
    let stderr = String::from_utf8_lossy(&finished.stderr.bytes);
    let start: String = python::strip(&stderr).chars().take(200).collect();
    if !start.is_empty() {
        tracing::debug!("stderr: {start}");
    }
}

fn log_failure(invocation: Invocation<'_>, code: i32, took: Duration) {
    tracing::warn!("✗ {} failed (exit {code}) in {:.1}s", invocation.tool, took.as_secs_f64());
}

impl CompletedRun {
    /// A run with a negative timeout, which never starts.
    pub(super) fn timed_out_at_once() -> Self {
        let (stdout, stderr) = (CapturedStream::default(), CapturedStream::default());
        Self { ending: Ending::TimedOut, stdout, stderr, pid: None, took: Duration::ZERO }
    }
}
