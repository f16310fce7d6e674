//! The statistics of backends.

use muster_api::stats::Stats;

use super::{ReplyView, state_word};
use crate::output::format::OutputStyle;

impl ReplyView for Stats {
    fn show(&self, _: OutputStyle) -> String {
        table(self, None)
    }
}

/// The table of all backends, those with the most calls first. `before` is the previous reply, to show new calls.
pub fn table(stats: &Stats, before: Option<&Stats>) -> String {
    let mut rows = stats.backends.clone();
    rows.sort_by(|one, other| other.calls.cmp(&one.calls).then(one.name.cmp(&other.name)));
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(7);
    let (calls, failed, running) = rows.iter().fold((0, 0, 0), |(calls, failed, running), row| {
        (calls + row.calls, failed + row.failed, running + row.running)
    });
    let mut lines = vec![
        format!(
            "up {}  {} backends  {calls} calls  {running} running  {failed} failed",
            uptime(stats.uptime_seconds),
            rows.len()
        ),
        String::new(),
        format!(
            "{:<width$}  {:<17} {:>6} {:>8} {:>6} {:>8} {:>7} {:>9} {:>10} {:>10} {:>10}",
            "BACKEND",
            "STATE",
            "TOOLS",
            "CALLS",
            "NEW",
            "RUNNING",
            "FAILED",
            "CANCELLED",
            "AVG MS",
            "P95 MS",
            "MAX MS"
        ),
    ];
    for row in &rows {
        let old = before.and_then(|stats| stats.backends.iter().find(|old| old.name == row.name));
        let new = before.map(|_| row.calls.saturating_sub(old.map_or(0, |old| old.calls)));
        lines.push(format!(
            "{:<width$}  {:<17} {:>6} {:>8} {:>6} {:>8} {:>7} {:>9} {:>10.1} {:>10.1} {:>10.1}",
            row.name.trim_end_matches('/'),
            state_word(row.state),
            row.tools,
            row.calls,
            new.map_or_else(|| "-".to_owned(), |new| new.to_string()),
            row.running,
            row.failed,
            row.cancelled,
            row.average_ms,
            row.p95_ms,
            row.longest_ms
        ));
    }
    lines.join("\n")
}

fn uptime(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use muster_api::{
        state::BackendState,
        stats::{BackendStats, Stats},
    };

    use super::table;

    fn row(name: &str, calls: u64) -> BackendStats {
        BackendStats {
            name: name.to_owned(),
            state: BackendState::Running,
            tools: 2,
            calls,
            running: 0,
            failed: 1,
            cancelled: 0,
            average_ms: 1.25,
            p95_ms: 2.0,
            longest_ms: 3.0,
        }
    }

    #[test]
    fn busiest_backends_come_first() {
        let before = Stats { uptime_seconds: 1, backends: vec![row("a", 1)] };
        let now = Stats { uptime_seconds: 3725, backends: vec![row("a", 1), row("b/", 5)] };
        let shown = table(&now, Some(&before));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "up 1:02:05  2 backends  6 calls  0 running  2 failed");
        assert!(lines[3].starts_with("b        Running"), "{shown}");
        let new = |line: &str| line.split_whitespace().nth(4).unwrap().to_owned();
        assert_eq!((new(lines[3]), new(lines[4])), ("5".to_owned(), "0".to_owned()));
    }
}
