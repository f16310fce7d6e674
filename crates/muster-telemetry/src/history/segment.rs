//! The files of the history: segments of calls, of which the oldest are deleted as a whole.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::codec::{HEADER, NAMES, SegmentReader, StoredCall, encode, header, number_names};

/// The number of segments that a full history has at least: so much of it is deleted at a time.
const MIN_SEGMENTS: u64 = 32;
/// The limits of the length of a segment. A reader holds one in memory.
const SHORTEST: u64 = 64 * 1024;
const LONGEST: u64 = 2 * 1024 * 1024;

/// A segment on disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    /// The id of its first call.
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

impl Segment {
    fn at(folder: &Path, first: u64) -> Self {
        Self { first, path: folder.join(format!("calls-{first:016x}")) }
    }

    fn named(path: PathBuf) -> Option<Self> {
        let digits = path.file_name()?.to_str()?.strip_prefix("calls-")?;
        Some(Self { first: u64::from_str_radix(digits, 16).ok()?, path })
    }

    /// Its bytes; none if it was deleted in the meantime.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }
}

/// The segments of a folder, oldest first.
pub(super) fn segments(folder: &Path) -> Vec<Segment> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Segment> =
        entries.filter_map(|entry| Segment::named(entry.path())).collect();
    found.sort();
    found
}

/// Appends calls. The gateway owns its state folder, so there is one writer.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    folder: PathBuf,
    max_bytes: u64,
    max_age: Option<Duration>,
    current: Option<OpenSegment>,
    next_id: u64,
    /// The number of segments that were begun or continued.
    begun: u64,
    /// Frames that are not written yet.
    buffer: Vec<u8>,
    /// When segments were last deleted by age.
    swept: Option<SystemTime>,
}

/// The numbers of the names of a call, in the segment for which they were looked up last.
#[derive(Debug, Default)]
pub(super) struct NameNumbers {
    /// That segment, counted by the writer; 0 for none.
    segment: u64,
    numbers: [u64; NAMES],
}

#[derive(Debug)]
struct OpenSegment {
    file: File,
    length: u64,
    /// The numbers of its texts.
    texts: BTreeMap<Box<str>, u64>,
}

impl SegmentWriter {
    /// Continues the history in a folder. A frame that a crash left incomplete is cut off.
    pub(super) fn open(
        folder: &Path,
        max_bytes: u64,
        max_age: Option<Duration>,
    ) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut writer = Self {
            folder: folder.to_owned(),
            max_bytes,
            max_age,
            current: None,
            next_id: 1,
            begun: 0,
            buffer: Vec::new(),
            swept: None,
        };
        if let Some(last) = segments(folder).pop() {
            let bytes = last.read()?;
            let Some(mut reader) = SegmentReader::new(&bytes) else {
                // Its calls cannot be counted, so their ids are left out.
                writer.next_id = last.first.saturating_add(u64::from(u32::MAX));
                return Ok(writer);
            };
            while reader.next().is_some() {}
            writer.next_id = reader.next_id();
            let length = u64::try_from(reader.read).unwrap_or_default();
            let texts = reader.texts.iter().zip(0..);
            let texts = texts.map(|(text, number)| (Box::from(*text), number)).collect();
            let file = OpenOptions::new().append(true).open(&last.path)?;
            file.set_len(length)?;
            writer.begun += 1;
            writer.current = Some(OpenSegment { file, length, texts });
        }
        Ok(writer)
    }

    /// Adds a call to the next write. Its id is set here. `names` is of calls with the same names; looking them up takes
    /// longer than the rest.
    pub(super) fn add(&mut self, call: &StoredCall<'_>, names: &mut NameNumbers) -> io::Result<()> {
        let pending = u64::try_from(self.buffer.len()).unwrap_or_default();
        let length = self.current.as_ref().map(|segment| segment.length + pending);
        if length.is_none_or(|length| length >= self.segment_length()) {
            self.flush()?;
            self.begin_segment()?;
        }
        let Some(OpenSegment { texts, .. }) = &mut self.current else { return Ok(()) };
        if names.segment != self.begun {
            let numbers = number_names(&mut self.buffer, call, |text| {
                if let Some(number) = texts.get(text) {
                    return Ok(*number);
                }
                let number = u64::try_from(texts.len()).unwrap_or_default();
                texts.insert(text.into(), number);
                Err(number)
            });
            *names = NameNumbers { segment: self.begun, numbers };
        }
        encode(&mut self.buffer, call, names.numbers);
        self.next_id += 1;
        Ok(())
    }

    /// Writes the calls that were added.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(segment) = self.current.as_mut().filter(|_| !self.buffer.is_empty()) else {
            return Ok(());
        };
        let written = segment.file.write_all(&self.buffer);
        segment.length += u64::try_from(self.buffer.len()).unwrap_or_default();
        self.buffer.clear();
        if written.is_err() {
            // What is in the file now is unknown: the next call begins a segment.
            self.current = None;
        }
        written
    }

    fn segment_length(&self) -> u64 {
        (self.max_bytes / MIN_SEGMENTS).clamp(SHORTEST, LONGEST)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let segment = Segment::at(&self.folder, self.next_id);
        // A file of this name is what a failed attempt left: no call has had this id.
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(&segment.path)?;
        file.write_all(&header(self.next_id))?;
        let length = u64::try_from(HEADER).unwrap_or_default();
        self.current = Some(OpenSegment { file, length, texts: BTreeMap::new() });
        self.begun += 1;
        self.delete_old();
        Ok(())
    }

    /// Deletes the oldest segments beyond the limits of size and age.
    pub(super) fn delete_old(&mut self) {
        let now = SystemTime::now();
        self.swept = Some(now);
        let known = |segment: &Segment| fs::metadata(&segment.path).ok();
        let mut all: Vec<_> = segments(&self.folder)
            .into_iter()
            .filter_map(|segment| known(&segment).map(|meta| (segment, meta)))
            .collect();
        // The current segment stays.
        all.pop();
        let mut room = self.max_bytes.saturating_sub(self.segment_length());
        for (segment, meta) in all.into_iter().rev() {
            let age = meta.modified().ok().and_then(|then| now.duration_since(then).ok());
            let is_old = self.max_age.is_some_and(|most| age.is_some_and(|age| age > most));
            let fits = room.checked_sub(meta.len());
            room = fits.unwrap_or(0);
            if (is_old || fits.is_none())
                && let Err(error) = fs::remove_file(&segment.path)
            {
                tracing::warn!("cannot remove {}: {error}", segment.path.display());
            }
        }
    }

    /// Deletes old segments, once an hour.
    pub(super) fn sweep(&mut self) {
        const INTERVAL: Duration = Duration::from_secs(60 * 60);
        let since = self.swept.and_then(|then| then.elapsed().ok());
        if since.is_none_or(|since| since >= INTERVAL) {
            self.delete_old();
        }
    }
}
