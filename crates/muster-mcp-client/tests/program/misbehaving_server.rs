//! A program that can be a launcher, or a legacy MCP server that does odd things on its pipes.
//!
//! `muster-mcp-client-helper odd` serves; `odd fragile` ends at the first message that is no introduction.

use std::{
    env,
    io::{BufRead, Write},
    process::ExitCode,
};

use muster_core::json::RawObject;
use muster_exec::serve::serve_if_launcher;
use serde_json::value::RawValue;

const TOOLS_1: &str = r#"{"tools":[{"name":"raw","inputSchema":{"type":"object"},"vendor":{"x":[1.0,1e400]}},{"title":"no name"}],"nextCursor":""}"#;
const TOOLS_2: &str = r#"{"tools":[{"name":"echo"},{"name":"die"},{"name":"noise"},{"name":"wait"},{"name":"ask"},{"name":"log"}]}"#;
const ABOUT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"0"},"instructions":"Be odd."}"#;

fn main() -> ExitCode {
    if let Some(code) = serve_if_launcher() {
        return code;
    }
    let fragile = env::args().any(|arg| arg == "fragile");
    reply("Odd server listening on stdio");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let method = text(&line, &["method"]);
        let id = find(&line, &["id"]).map(|id| id.get().to_owned()).unwrap_or_default();
        match method.as_str() {
            "initialize" => result(&id, ABOUT),
            _ if fragile
                && !method.starts_with("notifications/")
                && !method.starts_with("tools/") =>
            {
                return ExitCode::from(9);
            }
            "tools/list" if line.contains("cursor") => result(&id, TOOLS_2),
            "tools/list" => result(&id, TOOLS_1),
            "tools/call" => {
                if let Some(code) = call(&id, &line) {
                    return code;
                }
            }
            "notifications/cancelled" => {
                notice("notifications/message", &format!(r#"{{"level":"info","data":{line}}}"#));
            }
            "" => told(&line),
            _ if id.is_empty() => (),
            _ => reply(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no {method}"}}}}"#
            )),
        }
    }
    ExitCode::SUCCESS
}

/// What is inside, left as it was written.
fn find(text: &str, path: &[&str]) -> Option<Box<RawValue>> {
    let mut here: Box<RawValue> = serde_json::from_str(text).ok()?;
    for key in path {
        let below = RawObject::parse(&here)?.get(key)?.to_owned();
        here = below;
    }
    Some(here)
}

fn text(line: &str, path: &[&str]) -> String {
    find(line, path).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn call(id: &str, line: &str) -> Option<ExitCode> {
    match text(line, &["params", "name"]).as_str() {
        // The result is what the caller wrote.
        "raw" => result(id, &text(line, &["params", "arguments", "result"])),
        // The result tells what came.
        "echo" => result(id, &format!(r#"{{"line":{line}}}"#)),
        "noise" => {
            reply("{\"not\": \"a message\"}");
            reply("\u{1b}[31mcolours\u{1b}[0m {{{");
            reply("");
            result(id, "{}");
        }
        "die" => {
            complain("first complaint");
            complain("boom");
            return Some(ExitCode::from(3));
        }
        "ask" => {
            let method = text(line, &["params", "arguments", "method"]);
            reply(&format!(
                r#"{{"jsonrpc":"2.0","id":"q{id}","method":"{method}","params":{{"for":{id}}}}}"#
            ));
        }
        "log" => {
            notice("notifications/message", r#"{"level":"info","data":1}"#);
            result(id, "{}");
        }
        // Never answered.
        _ => (),
    }
    None
}

/// An answer to a question ends the call it was asked in, whose id is in it.
fn told(line: &str) {
    let id = text(line, &["id"]);
    result(id.trim_start_matches('q'), &format!(r#"{{"told":{line}}}"#));
}

fn result(id: &str, result: &str) {
    reply(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

fn notice(method: &str, params: &str) {
    reply(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
}

fn reply(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()));
}

fn complain(line: &str) {
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}
