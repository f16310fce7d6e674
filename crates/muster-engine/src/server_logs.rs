//! The last lines that local MCP servers wrote outside the protocol, for `core_mcpserver_logs`.
//!
//! **Invariant:** memory is bounded per server, and freed with the server.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use muster_api::mcp_server::ServerLogLine;
use muster_core::{connect::OutputStream, lock::Lock};

/// The maximum number of lines per server.
const MAX_LINES: usize = 1000;
/// The maximum size of the lines of a server, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The lines of all servers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerLogs(Arc<Lock<BTreeMap<String, LogRing>>>);

/// The last lines of one server.
#[derive(Debug, Default)]
struct LogRing {
    lines: VecDeque<ServerLogLine>,
    bytes: usize,
    /// The number of the last line. It only increases, so that readers can ask for newer lines.
    last: u64,
}

impl ServerLogs {
    /// Adds a line, and drops the oldest ones beyond the limits.
    pub(crate) fn add(&self, server: &str, stream: OutputStream, text: &str) {
        let mut all = self.0.lock();
        let ring = all.entry(server.to_owned()).or_default();
        ring.last += 1;
        ring.bytes += text.len();
        ring.lines.push_back(ServerLogLine {
            number: ring.last,
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            stream: Some(stream),
            text: text.to_owned(),
        });
        while ring.lines.len() > MAX_LINES || ring.bytes > MAX_BYTES {
            let Some(dropped) = ring.lines.pop_front() else { break };
            ring.bytes -= dropped.text.len();
        }
    }

    /// The last `tail` lines of a server that are newer than the line `after`, the oldest first.
    pub(crate) fn tail(&self, server: &str, tail: usize, after: u64) -> Vec<ServerLogLine> {
        let all = self.0.lock();
        let Some(ring) = all.get(server) else { return Vec::new() };
        // The reader's number is from another log: the server was started elsewhere since.
        let after = if after > ring.last { 0 } else { after };
        let newer = ring.lines.iter().filter(|line| line.number > after).count();
        ring.lines.iter().skip(ring.lines.len() - newer.min(tail)).cloned().collect()
    }

    /// Drops the lines of a server.
    pub(crate) fn remove(&self, server: &str) {
        self.0.lock().remove(server);
    }
}

#[cfg(test)]
mod tests {
    use muster_core::connect::OutputStream;

    use super::{MAX_BYTES, MAX_LINES, ServerLogs};

    #[test]
    fn only_the_last_lines_are_kept() {
        let logs = ServerLogs::default();
        for number in 1..=MAX_LINES + 5 {
            logs.add("a", OutputStream::Stderr, &format!("line {number}"));
        }
        let texts = |tail, after| {
            let lines = logs.tail("a", tail, after);
            lines.into_iter().map(|line| line.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(2, 0), ["line 1004", "line 1005"]);
        assert_eq!(texts(10, 1003), ["line 1004", "line 1005"]);
        assert_eq!(texts(10, 1005), Vec::<String>::new());
        assert_eq!(texts(2, 2000), ["line 1004", "line 1005"]);
        assert_eq!(texts(usize::MAX, 0).len(), MAX_LINES);
        assert_eq!(texts(usize::MAX, 0).first().unwrap(), "line 6");
        let long = "x".repeat(MAX_BYTES / 4);
        (0..6).for_each(|_| logs.add("a", OutputStream::Stdout, &long));
        assert_eq!(texts(usize::MAX, 0).len(), 4);
        logs.remove("a");
        assert_eq!(texts(usize::MAX, 0).len(), 0);
    }
}
