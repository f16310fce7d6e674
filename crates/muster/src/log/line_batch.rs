//! Writes log lines, those of calls in batches.
//!
//! A busy gateway logs thousands of calls per second. Written one by one, each line would cost a system call, and
//! the threads that serve requests would contend for standard error. The lines of calls are therefore collected and
//! written a moment later by a separate thread. All other lines are written at once, after the lines that were
//! collected before them.

use std::{
    fs::File,
    io::{self, Write as _},
    mem,
    sync::{Condvar, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use muster_core::lock::Lock;

/// How long lines are collected before they are written.
const INTERVAL: Duration = Duration::from_millis(20);

/// The maximum number of collected bytes. Beyond it, threads write lines themselves, which blocks them if the reader is
/// slow (backpressure).
const MAX_COLLECTED: usize = 256 * 1024;

/// The lines that are not written yet, and their outputs.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    file: Option<File>,
    collected: Lock<Collected>,
    arrived: Condvar,
    /// Whether the thread that writes collected lines could be started; it is started with the first of them.
    has_writer: OnceLock<bool>,
}

/// A line in the form of each output, including the line end.
pub(super) struct Line<'a> {
    pub(super) stderr: &'a str,
    pub(super) file: Option<&'a str>,
}

#[derive(Debug, Default)]
struct Collected {
    stderr: String,
    file: String,
    writer_waits: bool,
}

impl LineBatch {
    pub(super) fn new(file: Option<File>) -> Self {
        Self { file, ..Self::default() }
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Writes a line at once.
    pub(super) fn write(&self, line: &Line<'_>) {
        drop(self.add(line));
        self.flush();
    }

    /// Writes a line with the next batch.
    pub(super) fn write_later(&'static self, line: &Line<'_>) {
        let mut collected = self.add(line);
        let is_full = collected.stderr.len() > MAX_COLLECTED;
        let wakes_writer = mem::take(&mut collected.writer_waits);
        drop(collected);
        if wakes_writer {
            self.arrived.notify_one();
        }
        let start = || {
            let writer = thread::Builder::new().name("log".to_owned());
            writer.spawn(|| self.write_batches()).is_ok()
        };
        if is_full || !self.has_writer.get_or_init(start) {
            self.flush();
        }
    }

    /// Writes everything that was collected.
    pub(super) fn flush(&self) {
        // Lock standard error before taking the lines, so that two threads cannot reorder them.
        let mut stderr = io::stderr().lock();
        let Collected { stderr: lines, file: file_lines, .. } = {
            let mut collected = self.collected.lock();
            let writer_waits = collected.writer_waits;
            mem::replace(&mut *collected, Collected { writer_waits, ..Collected::default() })
        };
        // Ignore errors: there is nowhere to report that a log line cannot be written.
        drop(stderr.write_all(lines.as_bytes()));
        if let Some(mut file) = self.file.as_ref() {
            drop(file.write_all(file_lines.as_bytes()));
        }
    }

    fn add(&self, line: &Line<'_>) -> MutexGuard<'_, Collected> {
        let mut collected = self.collected.lock();
        collected.stderr.push_str(line.stderr);
        collected.file.push_str(line.file.unwrap_or_default());
        collected
    }

    fn write_batches(&self) {
        loop {
            let mut collected = self.collected.lock();
            while collected.stderr.is_empty() {
                collected.writer_waits = true;
                let arrived = self.arrived.wait(collected);
                collected = arrived.unwrap_or_else(PoisonError::into_inner);
            }
            drop(collected);
            self.flush();
            thread::park_timeout(INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::{Line, LineBatch};

    #[test]
    fn lines_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let batch: &'static LineBatch =
            Box::leak(Box::new(LineBatch::new(Some(File::create(&path).unwrap()))));
        let line = |text| Line { stderr: text, file: Some(text) };
        batch.write_later(&line("a\n"));
        batch.write_later(&line("b\n"));
        batch.write(&line("c\n"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\n");
        batch.write_later(&line("d\n"));
        batch.flush();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\nd\n");
    }
}
