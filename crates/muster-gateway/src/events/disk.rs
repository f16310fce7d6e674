//! Events in files: one line each, one file a day, thirty days.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{ToSpan as _, Zoned, civil::Date};

use super::Event;

/// How many days are kept.
const DAYS: i64 = 30;

#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    /// The day whose file was last written, so that old files are looked for once a day.
    last: Option<Date>,
    /// Whether the folder refused to be written to; that is said once.
    refused: bool,
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self { folder: root.join("events"), last: None, refused: false }
    }

    /// The newest events that stand in the files, at most so many, oldest first.
    pub(super) async fn remembered(
        self,
        into: VecDeque<Arc<Event>>,
        most: usize,
    ) -> (Self, VecDeque<Arc<Event>>) {
        let folder = self.folder.clone();
        let read = tokio::task::spawn_blocking(move || read(&folder, into, most)).await;
        (self, read.unwrap_or_default())
    }

    pub(super) async fn append(self, events: Vec<Arc<Event>>) -> Self {
        let fresh = Self { folder: self.folder.clone(), last: None, refused: true };
        let written = tokio::task::spawn_blocking(move || {
            let mut disk = self;
            let written = disk.write(&events);
            if let Err(error) = &written
                && !std::mem::replace(&mut disk.refused, true)
            {
                tracing::warn!("events are not kept in {}: {error}", disk.folder.display());
            }
            disk
        });
        written.await.unwrap_or(fresh)
    }

    fn write(&mut self, events: &[Arc<Event>]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let today = Zoned::now().date();
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("events-{today}.json")))?;
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        // One write, so that lines of two gateways do not mix.
        file.write_all(&lines)?;
        if self.last.replace(today) != Some(today) {
            remove_old(&self.folder, today);
        }
        Ok(())
    }
}

/// The files of a folder by day.
fn days(folder: &Path) -> Vec<(Date, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut days: Vec<(Date, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let day = name.strip_prefix("events-")?.strip_suffix(".json")?.parse().ok()?;
            Some((day, entry.path()))
        })
        .collect();
    days.sort();
    days
}

fn remove_old(folder: &Path, today: Date) {
    let Ok(oldest) = today.checked_sub(DAYS.days()) else { return };
    for (_, path) in days(folder).into_iter().filter(|(day, _)| *day < oldest) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
}

fn read(folder: &Path, mut into: VecDeque<Arc<Event>>, most: usize) -> VecDeque<Arc<Event>> {
    for (_, path) in days(folder).into_iter().rev() {
        let text = fs::read_to_string(path).unwrap_or_default();
        for line in text.lines().rev() {
            if into.len() >= most {
                return into;
            }
            // A line that was cut off by a crash is not worth a word.
            if let Ok(event) = serde_json::from_str(line) {
                into.push_front(Arc::new(event));
            }
        }
    }
    into
}
