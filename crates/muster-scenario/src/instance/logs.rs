//! The logs of an instance, limited in size.

use std::{collections::VecDeque, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
};

/// When the limit is exceeded, the oldest lines are dropped.
const MAX_BYTES: usize = 2 << 20;

/// Lines of all outputs in order of arrival. Clones share the same logs.
#[derive(Debug, Clone, Default)]
pub(super) struct Logs(Arc<watch::Sender<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: usize,
}

impl Logs {
    /// Reads an output to its end. Lines of any length are accepted, so the writer never blocks.
    pub(super) async fn read(self, mut output: impl AsyncRead + Unpin) {
        let mut pending = Vec::new();
        let mut chunk = vec![0; 16 << 10];
        while let Ok(size @ 1..) = output.read(&mut chunk).await {
            pending.extend_from_slice(chunk.get(..size).unwrap_or_default());
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.push(&line);
            }
            if pending.len() > MAX_BYTES {
                self.push(&std::mem::take(&mut pending));
            }
        }
        if !pending.is_empty() {
            self.push(&pending);
        }
    }

    fn push(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        self.0.send_modify(|lines| {
            lines.bytes += line.len() + 1;
            lines.lines.push_back(line);
            while lines.bytes > MAX_BYTES
                && let Some(first) = lines.lines.pop_front()
            {
                lines.bytes -= first.len() + 1;
                lines.dropped += 1;
            }
        });
    }

    /// Adds a line of the tester's own.
    pub(super) fn note(&self, text: &str) {
        self.push(format!("--- {text} ---").as_bytes());
    }

    pub(super) fn text(&self) -> String {
        let lines = self.0.borrow();
        let mut text = String::new();
        if lines.dropped > 0 {
            text = format!("--- {} earlier lines were dropped ---\n", lines.dropped);
        }
        for line in &lines.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}
