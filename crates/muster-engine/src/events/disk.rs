//! Events on disk: one line each, one file per day, for thirty days; and as a human-readable log to tail.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{ToSpan as _, Zoned, civil::Date};

use super::Event;

/// The human-readable log.
const LOG: &str = "events.log";
/// A longer log is rotated, and replaces the last rotated one.
const LONGEST_LOG: u64 = 8 * 1024 * 1024;
/// The retention of daily files.
const DAYS: i64 = 30;

#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    /// The day of the last write, so that old files are removed once a day.
    last: Option<Date>,
    /// Whether a write failed; logged once.
    refused: bool,
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self { folder: root.join("events"), last: None, refused: false }
    }

    /// Reads the newest `most` events on disk, oldest first.
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
        let mut file = open(&self.folder.join(format!("events-{today}.json")))?;
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        // A single write, so that the lines of two gateways do not interleave.
        file.write_all(&lines)?;
        self.write_words(events)?;
        if self.last.replace(today) != Some(today) {
            remove_old(&self.folder, today);
        }
        Ok(())
    }

    fn write_words(&self, events: &[Arc<Event>]) -> io::Result<()> {
        let path = self.folder.join(LOG);
        if fs::metadata(&path).is_ok_and(|log| log.len() > LONGEST_LOG) {
            fs::rename(&path, self.folder.join(format!("{LOG}.1")))?;
        }
        let words: String = events.iter().map(|event| worded(event)).collect();
        let mut log = open(&path)?;
        log.write_all(words.as_bytes())
    }
}

/// Opens a file to append to. Events name users and servers, so only the gateway's user may read them; the mode of
/// files from earlier versions is corrected.
fn open(path: &Path) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn worded(event: &Event) -> String {
    let Event { namespace, involved_object: object, reason, message, severity, .. } = event;
    let at = event.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ");
    let message = message.replace('\n', " ");
    let (kind, name) = (&object.kind, &object.name);
    format!("[{at}] {kind} {namespace}/{name}: {reason} - {message} ({severity})\n")
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
            // Skip a line that a crash truncated.
            if let Ok(event) = serde_json::from_str(line) {
                into.push_front(Arc::new(event));
            }
        }
    }
    into
}
