//! MCP servers.

use muster_api::{
    mcp_server::{McpServerInfo, McpServerList, McpServerSession, ServerLog, ServerLogLine},
    state::ServerState,
};
use muster_core::connect::OutputStream;

use super::{ReplyView, time, title, with_notes};
use crate::output::{
    format::OutputStyle,
    next_step, properties,
    table::{self, Column},
};

const COLUMNS: &[Column<McpServerInfo>] = &[
    Column::new("name", |server| server.name.clone()),
    Column::new("state", |server| server.state.as_str().to_owned()),
    Column::new("since", |server| server.since.as_deref().map(time).unwrap_or_default()),
    Column::new("type", |server| server.r#type.clone()),
    Column::new("autostart", |server| yes_or_no(server.auto_start)),
    Column::wide("session", |server| {
        session(server, |session| title(session.session_status.as_str()))
    }),
    Column::wide("tools", |server| {
        session(server, |session| {
            session.tools_count.map(|count| count.to_string()).unwrap_or_default()
        })
    }),
    Column::wide("connected_at", |server| {
        session(server, |session| session.connected_at.as_deref().map(time).unwrap_or_default())
    }),
    Column::wide("endpoint", endpoint),
    Column::wide("description", |server| server.description.clone()),
    Column::wide("error", |server| {
        if server.error.is_empty() { server.status_message.clone() } else { server.error.clone() }
    }),
];

fn yes_or_no(flag: bool) -> String {
    if flag { "Yes" } else { "No" }.to_owned()
}

fn session(server: &McpServerInfo, of: fn(&McpServerSession) -> String) -> String {
    server.session.as_ref().map(of).unwrap_or_default()
}

/// The URL of a remote server, the command line of a local one.
fn endpoint(server: &McpServerInfo) -> String {
    match server.url.as_str() {
        "" => {
            let words = std::iter::once(&server.command).chain(&server.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        url => url.to_owned(),
    }
}

impl ReplyView for McpServerList {
    fn show(&self, style: OutputStyle) -> String {
        let table = match self.mcp_servers.as_slice() {
            [] => "No MCP servers found".to_owned(),
            servers => table::list(COLUMNS, servers, style),
        };
        let attention: Vec<String> = self.mcp_servers.iter().filter_map(attention).collect();
        let attention = (!attention.is_empty())
            .then(|| format!("Servers requiring attention:\n{}", attention.join("\n")));
        with_notes(table, self.hint.clone().into_iter().chain(attention), style)
    }
}

/// Why a server cannot be used, and the next step; `None` if it can be used or was stopped on purpose.
fn attention(server: &McpServerInfo) -> Option<String> {
    let has_failed = server.consecutive_failures > 0 || server.call_failures > 0;
    if server.state == ServerState::AuthRequired && !has_failed {
        return next_step::for_info(server)
            .map(|step| format!("  {}: It requires a login: {step}", server.name));
    }
    if !has_failed && server.state != ServerState::AwaitingApproval {
        return None;
    }
    let reasons = [&server.status_message, &server.error];
    let reasons = reasons.into_iter().filter(|reason| !reason.is_empty());
    let reasons = reasons.map(|reason| reason.lines().collect::<Vec<_>>().join("\n    "));
    let reasons = reasons.collect::<Vec<_>>().join(": ");
    // The reason of a server that waits for approval is also the next step.
    let step = next_step::for_info(server).filter(|_| has_failed);
    let step = step.map(|step| format!("\n    → {step}")).unwrap_or_default();
    Some(format!("  {}: {reasons}{step}", server.name))
}

impl ReplyView for McpServerInfo {
    fn show(&self, style: OutputStyle) -> String {
        let name = if next_step::is_local(&self.r#type) { "autoStart" } else { "autoConnect" };
        let mut rows = properties::rows(self);
        rows.retain(|(row, _)| row != "autoStart");
        let first = ["name", "type", "state", "since", "statusMessage", "error"];
        let place = rows.iter().filter(|(row, _)| first.contains(&row.as_str())).count();
        let order = |row: &str| first.iter().position(|name| *name == row).unwrap_or(first.len());
        rows.sort_by_key(|(row, _)| order(row));
        rows.insert(place, (name.to_owned(), yes_or_no(self.auto_start)));
        properties::of_rows(["property", "value"], rows, style)
    }
}

impl ReplyView for ServerLog {
    fn show(&self, _: OutputStyle) -> String {
        if self.lines.is_empty() {
            return format!("{} has written nothing", self.name);
        }
        self.lines.iter().map(log_line).collect::<Vec<_>>().join("\n")
    }
}

/// Formats a line of a server's log. Standard error is the usual stream, so only standard output is mentioned.
pub fn log_line(line: &ServerLogLine) -> String {
    let stream =
        if line.stream == Some(OutputStream::Stdout) { "stdout, not a message: " } else { "" };
    format!("{}  {stream}{}", time(&line.time), line.text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::tests::shown;
    use crate::output::format::OutputFormat;

    #[test]
    fn lists() {
        let none = json!({"mcpServers": [], "total": 0});
        assert_eq!(
            shown("core_mcpserver_list", &none, OutputFormat::Table),
            "No MCP servers found"
        );
        let reply = json!({"hint": "see --all", "mcpServers": [
            {"name": "a", "type": "sse", "url": "http://k/mcp", "state": "Connected", "autoStart": true,
             "sessionStatus": "auth_required"},
            {"name": "c", "type": "sse", "url": "http://l/mcp", "state": "Auth Required", "sessionStatus": "auth_required"},
            {"name": "d", "type": "sse", "url": "http://m/mcp", "state": "Auth Required", "sessionStatus": "connected"},
            {"name": "e", "type": "stdio", "command": "e", "state": "Awaiting Approval", "statusMessage": "not approved"},
            {"name": "f", "type": "stdio", "command": "f", "state": "Stopped"},
            {"name": "b", "type": "stdio", "command": "b-mcp", "args": ["-x"], "state": "Failed",
             "consecutiveFailures": 2, "statusMessage": "no route", "error": "it ended:\nno such module"}]});
        expect![[r"
            NAME   STATE               SINCE   TYPE    AUTOSTART
            a      Connected           -       sse     Yes
            c      Auth Required       -       sse     No
            d      Auth Required       -       sse     No
            e      Awaiting Approval   -       stdio   No
            f      Stopped             -       stdio   No
            b      Failed              -       stdio   No

            see --all

            Servers requiring attention:
              c: It requires a login: log in with `muster auth login --server c`
              e: not approved
              b: no route: it ended:
                no such module
                → see what it wrote with `muster logs mcpserver b`, or ask `muster doctor`"]]
        .assert_eq(&shown("core_mcpserver_list", &reply, OutputFormat::Table));
        let wide = shown("core_mcpserver_list", &reply, OutputFormat::Wide);
        let wide: Vec<&str> = wide.lines().take(7).collect();
        expect![[r#"
            NAME   STATE               SINCE   TYPE    AUTOSTART   SESSION         ENDPOINT       ERROR
            a      Connected           -       sse     Yes         Auth Required   http://k/mcp   -
            c      Auth Required       -       sse     No          Auth Required   http://l/mcp   -
            d      Auth Required       -       sse     No          Connected       http://m/mcp   -
            e      Awaiting Approval   -       stdio   No          -               e              not approved
            f      Stopped             -       stdio   No          -               f              -
            b      Failed              -       stdio   No          -               b-mcp -x       it ended: no such module"#]]
        .assert_eq(&wide.join("\n"));
    }

    #[test]
    fn one_server() {
        let reply = json!({"name": "k", "type": "sse", "url": "http://k", "state": "Failed",
            "statusMessage": "no route", "env": {"A": "1"}, "auth": {"forwardToken": true}});
        expect![[r#"
            PROPERTY            VALUE
            name                k
            type                sse
            state               Failed
            statusMessage       no route
            autoConnect         No
            url                 http://k
            env.A               1
            auth.forwardToken   true"#]]
        .assert_eq(&shown("core_mcpserver_get", &reply, OutputFormat::Table));
    }
}
