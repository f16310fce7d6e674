//! What the processes of an instance print, kept as far as it is useful.

use std::{collections::VecDeque, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
};

/// How much is kept; of more the end counts.
const KEPT: usize = 2 << 20;

/// Lines of all outputs, in the order they came. Clones are the same logs.
#[derive(Debug, Clone, Default)]
pub(super) struct Logs(Arc<watch::Sender<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: usize,
}

impl Logs {
    /// Reads an output to its end. Lines of any length are taken, and never block the writer.
    pub(super) async fn read(self, mut output: impl AsyncRead + Unpin) {
        let mut pending = Vec::new();
        let mut chunk = vec![0; 16 << 10];
        while let Ok(size @ 1..) = output.read(&mut chunk).await {
            pending.extend_from_slice(chunk.get(..size).unwrap_or_default());
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.push(&line);
            }
            if pending.len() > KEPT {
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
            while lines.bytes > KEPT
                && let Some(first) = lines.lines.pop_front()
            {
                lines.bytes -= first.len() + 1;
                lines.dropped += 1;
            }
        });
    }

    /// A line of our own.
    pub(super) fn note(&self, text: &str) {
        self.push(format!("--- {text} ---").as_bytes());
    }

    pub(super) fn text(&self) -> String {
        let lines = self.0.borrow();
        let mut text = String::new();
        if lines.dropped > 0 {
            text = format!("--- {} earlier lines are not kept ---\n", lines.dropped);
        }
        for line in &lines.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}
