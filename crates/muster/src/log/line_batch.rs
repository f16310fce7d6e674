//! Log lines on their way out, some of them in batches.
//!
//! A busy gateway logs thousands of calls per second. Written one by one, each line would cost a system call, and
//! the threads that serve requests would wait for each other at standard error. The lines of calls are
//! therefore collected, and written a moment later by a thread of their own. All other lines are written at
//! once, after those that were collected before them.

use std::{
    fs::File,
    io::{self, Write as _},
    mem,
    sync::{Condvar, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use muster_core::lock::Lock;

/// How long lines are collected.
const INTERVAL: Duration = Duration::from_millis(20);

/// The number of bytes that are collected. Beyond it threads write their lines themselves, and wait for a slow reader.
const MAX_COLLECTED: usize = 256 * 1024;

/// The lines that are not written yet, and where they are written to.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    file: Option<File>,
    collected: Lock<Collected>,
    arrived: Condvar,
    /// Whether there is a thread that writes collected lines; it is started with the first of them.
    has_writer: OnceLock<bool>,
}

/// One line as each output has it, with its line end.
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
        // Held from before the lines are taken, so that no two threads change their order.
        let mut stderr = io::stderr().lock();
        let Collected { stderr: lines, file: file_lines, .. } = {
            let mut collected = self.collected.lock();
            let writer_waits = collected.writer_waits;
            mem::replace(&mut *collected, Collected { writer_waits, ..Collected::default() })
        };
        // A log line that cannot be written has nowhere to be reported.
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
