//! Explains why a local server cannot be used.

use std::path::Path;

use muster_config::mcpserver::McpServer;
use muster_core::{connect::OutputStream, text};
use muster_engine::redact;

use super::{Finding, Hop, servers::Failure};
use crate::env_vars;

/// Known texts on standard error, each with a code, a message and the fix.
const KNOWN: &[(&[&str], &str, &str, &str)] = &[
    (
        &["cannot connect to the docker daemon", "docker daemon is not running", "docker.sock"],
        "docker-not-running",
        "Docker is not running, or you may not use it",
        "start Docker, and check `docker ps`",
    ),
    (
        &["cannot find module", "modulenotfounderror", "no module named"],
        "module-missing",
        "a module of the server is not installed",
        "install the dependencies of the server",
    ),
    (
        &[
            "npm error 404",
            "npm err! 404",
            "not found in the package registry",
            "no solution found",
        ],
        "package-unknown",
        "the package does not exist",
        "check the name of the package in `args`",
    ),
    (
        &["eacces", "permission denied"],
        "permission-denied",
        "it may not read or write something",
        "check the permissions of the files that it names",
    ),
    (
        &["eaddrinuse", "address already in use"],
        "port-in-use",
        "it wants a port that is in use",
        "stop the other process, or give the server another port",
    ),
];

/// Words of a line about a file that does not exist.
const NO_SUCH_FILE: &[&str] = &[
    "no such file",
    "enoent",
    "cannot find module",
    "can't open file",
    "does not exist",
    "not found",
];
/// Words of a line about a variable that is not set.
const UNSET_VARIABLE: &[&str] = &[
    "environment variable",
    "env var",
    "not set",
    "must be set",
    "is required",
    "are required",
    "missing",
    "please set",
    "undefined",
    "keyerror",
];

/// Explains the failure of a local server by its output.
pub(super) fn explain(
    server: &McpServer,
    failure: &Failure,
    written: &[(OutputStream, String)],
) -> Finding {
    let name = &server.name;
    let by_hand = format!("run it in a terminal and look at its output: {}", command_line(server));
    let of = |stream| written.iter().filter(move |(of, _)| *of == stream).map(|(_, line)| line);
    if let Some(line) = of(OutputStream::Stdout).next() {
        let line: String = text::printable(line).chars().take(80).collect();
        let message =
            format!("it writes text to standard output, where only MCP belongs: `{line}`");
        return Finding::bad(Hop::Handshake, "stdout-not-mcp", name, message).fix(
            "make it log to standard error; an option such as `--stdio` or `--quiet` may be missing in `args`",
        );
    }
    let stderr: Vec<&str> = of(OutputStream::Stderr).map(String::as_str).collect();
    if let Some(finding) =
        missing_path(server, &stderr).or_else(|| missing_variable(server, &stderr))
    {
        return finding;
    }
    for (words, code, message, fix) in KNOWN {
        let says = |line: &&&str| {
            let line = line.to_lowercase();
            words.iter().any(|word| line.contains(word))
        };
        if let Some(line) = stderr.iter().find(says) {
            let message = format!("{message}: `{}`", shown(line));
            return Finding::bad(Hop::Handshake, code, name, message).fix(*fix);
        }
    }
    match failure {
        Failure::Timeout(limit) => {
            let message = format!("no answer within {} s{}", limit.as_secs(), last_line(&stderr));
            let fix = match server.spec.command.rsplit('/').next().unwrap_or_default() {
                "npx" | "uvx" | "docker" | "bunx" | "pipx" => {
                    "the first start downloads the package: run it once in a terminal, or raise --timeout"
                        .to_owned()
                }
                _ => by_hand,
            };
            Finding::bad(Hop::Handshake, "no-answer", name, message).fix(fix)
        }
        Failure::Error { error, doing } => {
            let message = format!("{doing}: {}", text::printable(&error.to_string()));
            Finding::bad(Hop::Handshake, "server-failed", name, message).fix(by_hand)
        }
    }
}

/// Explains an argument that names a file that does not exist.
fn missing_path(server: &McpServer, stderr: &[&str]) -> Option<Finding> {
    let (arg, line) = stderr.iter().find_map(|line| {
        let small = line.to_lowercase();
        let is_about = NO_SUCH_FILE.iter().any(|words| small.contains(words));
        let names = |arg: &&String| {
            arg.contains('/') && line.contains(arg.as_str()) && !Path::new(arg).exists()
        };
        Some((server.spec.args.iter().find(names).filter(|_| is_about)?, line))
    })?;
    let message = format!("`{}` does not exist: `{}`", text::printable(arg), shown(line));
    Some(
        Finding::bad(Hop::Handshake, "path-missing", &server.name, message)
            .fix("correct the path in `args`"),
    )
}

/// Explains an environment variable that the server asks for. Servers do not inherit the gateway's environment.
fn missing_variable(server: &McpServer, stderr: &[&str]) -> Option<Finding> {
    let (variable, line) = stderr.iter().find_map(|line| {
        let small = line.to_lowercase();
        let asks = UNSET_VARIABLE.iter().any(|words| small.contains(words));
        Some((variable(line).filter(|_| asks)?, line))
    })?;
    let spec = &server.spec;
    if spec.env.contains_key(variable) || spec.inherit_env.iter().any(|name| name == variable) {
        return None;
    }
    let message = format!("it needs the variable `{variable}`: `{}`", shown(line));
    let fix = match env_vars::all().any(|(name, _)| name == variable) {
        true => format!(
            "servers do not inherit the variables of your shell: add `inheritEnv: [{variable}]` to its definition, or set it in \
             `env`"
        ),
        false => format!("set it in its definition: `env: {{{variable}: …}}`"),
    };
    Some(Finding::bad(Hop::Handshake, "variable-missing", &server.name, message).fix(fix))
}

/// The first word of a line that is written like the name of a variable: `GITHUB_TOKEN`.
fn variable(line: &str) -> Option<&str> {
    let is_part =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.find(|word| {
        word.contains('_')
            // A code of Node.js: `ERR_MISSING_ARGS`.
            && !word.starts_with("ERR_")
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && !word.ends_with('_')
            && word.chars().all(is_part)
    })
}

/// The last line on standard error, to be appended to a message.
fn last_line(stderr: &[&str]) -> String {
    match stderr.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("; its last line: `{}`", shown(line)),
        None => String::new(),
    }
}

/// A line of a server's output without secrets, cut to a length.
fn shown(line: &str) -> String {
    text::printable(&redact::error(line)).trim().chars().take(120).collect()
}

/// The command line of a server, quoted for a shell and with secrets redacted.
fn command_line(server: &McpServer) -> String {
    let args = redact::arguments(&server.spec.args);
    let words = std::iter::once(server.spec.command.clone()).chain(args);
    words.map(|word| text::shell_quoted(&word)).collect::<Vec<_>>().join(" ")
}
