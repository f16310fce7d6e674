//! The history of calls.

use muster_api::calls::{CallInfo, CallList, CallStats, CallTotals, ToolCalls};
use muster_core::{effect::Effect, observer::CallStatus};

use super::{ReplyView, time, with_notes};
use crate::output::{
    format::{OutputFormat, OutputStyle},
    properties,
    table::{self, Column},
};

/// The maximum number of tools in a table that is not wide.
const MAX_TOOLS: usize = 20;

const COLUMNS: &[Column<CallInfo>] = &[
    Column::new("id", |call| call.id.to_string()),
    Column::new("time", |call| time(&call.time)),
    Column::new("tool", |call| call.tool.clone()),
    Column::wide("server", |call| call.server.clone()),
    Column::new("status", |call| {
        call.status.map(CallStatus::as_str).unwrap_or_default().to_owned()
    }),
    Column::new("ms", |call| format!("{:.1}", call.duration_ms)),
    Column::new("bytes", |call| call.result_bytes.to_string()),
    Column::new("caller", |call| caller(call).to_owned()),
    Column::wide("effect", |call| call.effect.map(Effect::as_str).unwrap_or_default().to_owned()),
    Column::wide("rule", |call| call.rule.clone()),
];

/// The name of a caller: that of the token, else that of the user.
fn caller(call: &CallInfo) -> &str {
    if call.token.is_empty() { &call.caller } else { &call.token }
}

impl ReplyView for CallList {
    /// Shows the oldest call first, while replies have the newest first.
    fn show(&self, style: OutputStyle) -> String {
        if self.calls.is_empty() {
            return "No calls found".to_owned();
        }
        let calls: Vec<CallInfo> = self.calls.iter().rev().cloned().collect();
        let table = table::list(COLUMNS, &calls, style);
        let earlier = |next| format!("Earlier calls: `muster calls --before {next}`");
        with_notes(table, self.next.map(earlier), style)
    }
}

impl ReplyView for CallInfo {
    fn show(&self, style: OutputStyle) -> String {
        properties::table(self, &["id", "time", "tool", "server", "status"], style)
    }
}

const TOOL_COLUMNS: &[Column<ToolCalls>] = &[
    Column::new("tool", |row| row.tool.clone()),
    Column::wide("server", |row| row.server.clone()),
    Column::new("calls", |row| row.totals.calls.to_string()),
    Column::new("errors", |row| row.totals.errors.to_string()),
    Column::new("avg ms", |row| format!("{:.1}", row.totals.average_ms)),
    Column::new("max ms", |row| format!("{:.1}", row.totals.longest_ms)),
    Column::new("bytes", |row| row.totals.result_bytes.to_string()),
];

impl ReplyView for CallStats {
    fn show(&self, style: OutputStyle) -> String {
        let CallTotals { calls, errors, .. } = self.total;
        if calls == 0 {
            return "No calls found".to_owned();
        }
        let since = time(&self.since);
        let limit = if style.format == OutputFormat::Wide { usize::MAX } else { MAX_TOOLS };
        let tools: Vec<ToolCalls> = self.tools.iter().take(limit).cloned().collect();
        let table = table::list(TOOL_COLUMNS, &tools, style);
        let mut page = format!("{calls} calls, {errors} errors since {since}\n\n{table}");
        let all = self.tool_count.max(self.tools.len());
        let more = all - tools.len();
        let advice = match tools.len() < self.tools.len() {
            true => "add `--output wide` to list them",
            false => "select some with `--server` or `--tool`",
        };
        if more > 0 {
            page = format!("{page}\n\n{more} more tools: {advice}");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::tests::shown;
    use crate::output::format::OutputFormat;

    #[test]
    fn the_newest_call_is_last() {
        let call = |id: u64, token: &str| {
            json!({"id": id, "time": "2026-01-01T00:00:01.5Z", "tool": "x_git_log", "status": "ok",
                   "server": "git", "duration_ms": 1.25, "caller": "ada", "token": token,
                   "role": "agent", "surface": "meta", "argument_bytes": 2, "result_bytes": 10})
        };
        let reply = json!({"calls": [call(2, "ci"), call(1, "")], "next": 1});
        expect![[r"
            ID   TIME                  TOOL        STATUS   MS    BYTES   CALLER
            1    2026-01-01 00:00:01   x_git_log   ok       1.2   10      ada
            2    2026-01-01 00:00:01   x_git_log   ok       1.2   10      ci

            Earlier calls: `muster calls --before 1`"]]
        .assert_eq(&shown("core_calls_list", &reply, OutputFormat::Table));
        let empty = shown("core_calls_list", &json!({"calls": []}), OutputFormat::Table);
        assert_eq!(empty, "No calls found");
    }

    #[test]
    fn numbers_by_tool() {
        let totals = json!({"calls": 3, "errors": 1, "average_ms": 2.0, "longest_ms": 4.0,
                            "result_bytes": 7, "tool": "x_git_log", "server": "git"});
        let reply = json!({"since": "2026-01-01T00:00:00Z", "total": totals, "tools": [totals]});
        expect![[r"
            3 calls, 1 errors since 2026-01-01 00:00:00

            TOOL        CALLS   ERRORS   AVG MS   MAX MS   BYTES
            x_git_log   3       1        2.0      4.0      7"]]
        .assert_eq(&shown("core_calls_stats", &reply, OutputFormat::Table));

        // A reply has only some of the tools, and a table only some of those.
        let reply = json!({"total": totals, "tools": vec![totals; 30], "tool_count": 40});
        for (format, expected) in [
            (OutputFormat::Table, "\n20 more tools: add `--output wide` to list them"),
            (OutputFormat::Wide, "\n10 more tools: select some with `--server` or `--tool`"),
        ] {
            let page = shown("core_calls_stats", &reply, format);
            assert!(page.ends_with(expected), "{page}");
        }
    }
}
