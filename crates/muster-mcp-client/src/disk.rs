//! Messages of servers that are too long for memory, on disk while they come in.
//!
//! Their files have no name: nobody else can open them, and they are gone with their last holder, even
//! if the gateway is killed.

use std::{
    fs::File,
    io::{self, Read, Write as _},
    ops::Range,
    os::unix::fs::FileExt as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::warn;

/// A message that is longer goes to disk.
pub(super) const HELD: usize = 1024 * 1024;
/// What one message may take on disk.
const MOST: u64 = 1 << 30;
/// What all of them together may take.
const MOST_OF_ALL: u64 = 4 << 30;

/// Room on disk for the messages of all servers.
#[derive(Debug)]
pub(super) struct Disk {
    used: AtomicU64,
    most: u64,
    most_of_all: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self::within(MOST, MOST_OF_ALL)
    }
}

/// There is no room for more of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// A message on disk.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    size: u64,
    disk: Arc<Disk>,
}

impl Disk {
    pub(super) const fn within(most: u64, most_of_all: u64) -> Self {
        Self { used: AtomicU64::new(0), most, most_of_all }
    }

    /// What one message may take.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// A file for one message; none where there can be none.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Spill> {
        match tempfile::tempfile() {
            Ok(file) => Some(Spill { file, size: 0, disk: Arc::clone(self) }),
            Err(error) => {
                warn!("a long message stays in memory, there is no file for it: {error}");
                None
            }
        }
    }
}

impl Spill {
    /// Appends.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let size = bytes.len() as u64;
        let used = self.disk.used.fetch_add(size, Ordering::Relaxed) + size;
        self.size += size;
        if self.size > self.disk.most || used > self.disk.most_of_all {
            return Err(Full);
        }
        self.file.write_all(bytes).map_err(|error| {
            warn!("a long message cannot be kept on disk: {error}");
            Full
        })
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// What it may take.
    pub(super) fn most(&self) -> u64 {
        self.disk.most
    }

    /// Reads a part of it.
    pub(super) fn read(self: &Arc<Self>, part: Range<u64>) -> Reading {
        Reading { spill: Arc::clone(self), part }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.disk.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A part of a message that is being read. Others may read at the same time.
#[derive(Debug)]
pub(super) struct Reading {
    spill: Arc<Spill>,
    part: Range<u64>,
}

impl Read for Reading {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.part.end.saturating_sub(self.part.start);
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let room = out.get_mut(..size).unwrap_or_default();
        let read = self.spill.file.read_at(room, self.part.start)?;
        self.part.start += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use super::{Disk, Full};

    #[test]
    fn parts_are_read_by_several_at_once() {
        let disk = Arc::new(Disk::default());
        let mut spill = disk.begin().unwrap();
        spill.write(b"0123").unwrap();
        spill.write(b"456789").unwrap();
        let spill = Arc::new(spill);
        let (mut one, mut other) = (spill.read(2..5), spill.read(0..100));
        let (mut first, mut all) = (String::new(), String::new());
        one.read_to_string(&mut first).unwrap();
        other.read_to_string(&mut all).unwrap();
        assert_eq!((&*first, &*all), ("234", "0123456789"));
    }

    #[test]
    fn there_is_room_for_so_much_of_one_and_of_all() {
        let disk = Arc::new(Disk::within(10, 15));
        let mut first = disk.begin().unwrap();
        assert_eq!(first.write(b"0123456789"), Ok(()));
        let mut second = disk.begin().unwrap();
        assert_eq!(second.write(b"012345"), Err(Full));
        drop(second);
        assert_eq!(first.write(b"0"), Err(Full));
        drop(first);
        let mut third = disk.begin().unwrap();
        assert_eq!(third.write(b"0123456789"), Ok(()), "what is gone takes no room");
    }
}
