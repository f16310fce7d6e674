//! Explains why a local server cannot be used.

use muster_config::mcpserver::McpServer;
use muster_core::{connect::OutputStream, text};
use muster_engine::redact;

use super::{Finding, Hop, servers::Failure};

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
    let stderr: String = of(OutputStream::Stderr).map(|line| format!("{line}\n")).collect();
    let lower = stderr.to_lowercase();
    for (words, code, message, fix) in KNOWN {
        if words.iter().any(|word| lower.contains(word)) {
            let message = format!("{message}{}", last_line(&stderr));
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

/// The last line on standard error, to be appended to a message.
fn last_line(stderr: &str) -> String {
    match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => {
            let line: String = text::printable(&redact::error(line)).chars().take(120).collect();
            format!("; its last line: `{line}`")
        }
        None => String::new(),
    }
}

/// The command line of a server, quoted for a shell and with secrets redacted.
fn command_line(server: &McpServer) -> String {
    let args = redact::arguments(&server.spec.args);
    let words = std::iter::once(server.spec.command.clone()).chain(args);
    words.map(|word| text::shell_quoted(&word)).collect::<Vec<_>>().join(" ")
}
