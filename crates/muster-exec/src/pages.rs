//! Releases resident memory that only the start of a process needed.
//!
//! Starting runs through most of a program once: flags, files, relocations. Every code page touched counts
//! as resident until the kernel runs short of memory. Code is backed by a file and never written to, so its
//! pages can be dropped at any time: the next access maps them again from the page cache.

use std::{fs, ops::Range};

use crate::platform::drop_pages;

/// Drops all resident code and constants. Does nothing where there is no `/proc`.
pub fn release_code_pages() {
    for range in read_only_mappings(&fs::read_to_string("/proc/self/maps").unwrap_or_default()) {
        drop_pages(range);
    }
}

/// The largest size of a page; the size in use is 4 KiB on most machines, and divides it.
const LARGEST_PAGE: usize = 1 << 16;

/// Constants whose resident pages can be dropped at any time: they are mapped again from the program's file.
#[derive(Debug)]
pub struct ReleasableConstants(Range<usize>);

impl ReleasableConstants {
    /// The whole pages of these constants. `None` if they are not in a mapping of a file, or there is no `/proc`.
    pub fn of(constants: &'static [u8]) -> Option<Self> {
        let address = constants.as_ptr().expose_provenance();
        let end = (address + constants.len()) / LARGEST_PAGE * LARGEST_PAGE;
        let pages = address.next_multiple_of(LARGEST_PAGE)..end;
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let holds =
            |mapping: &Range<usize>| mapping.start <= pages.start && pages.end <= mapping.end;
        let is_mapped =
            !pages.is_empty() && read_only_mappings(&maps).any(|mapping| holds(&mapping));
        is_mapped.then_some(Self(pages))
    }

    /// Drops the resident pages.
    pub fn release(&self) {
        drop_pages(self.0.clone());
    }
}

/// The CPU time of this process in clock ticks (usually 10 ms). `None` where there is no `/proc`.
pub fn cpu_ticks() -> Option<u64> {
    parse_cpu_ticks(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    // The name before it may hold anything, parentheses and spaces included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(|word| word.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

/// The address ranges of file mappings that this process cannot have written to.
fn read_only_mappings(maps: &str) -> impl Iterator<Item = Range<usize>> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (rights, offset) = (words.next()?, words.next()?);
        let path = words.nth(2)?;
        // Relocated data is made read-only afterwards and looks like constants, but is never mapped from
        // the start of a file.
        let read_only = rights == "r-xp" || rights == "r--p" && offset.bytes().all(|b| b == b'0');
        if !(read_only && path.starts_with('/')) {
            return None;
        }
        let start = usize::from_str_radix(start, 16).ok()?;
        Some(start..usize::from_str_radix(end, 16).ok()?)
    })
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn only_read_only_file_mappings_are_selected() {
        let maps = "\
1000-3000 r--p 00000000 fe:00 77                         /usr/bin/some thing
3000-8000 r-xp 00002000 fe:00 77                         /usr/bin/some thing
8000-9000 r--p 00007000 fe:00 77                         /usr/bin/some thing
9000-a000 rw-p 00008000 fe:00 77                         /usr/bin/some thing
a000-b000 rw-p 00000000 00:00 0                          [heap]
b000-c000 r-xs 00000000 00:01 9                          /memfd:shared
c000-d000 r-xp 00000000 00:00 0
d000-e000 r-xp 00000000 00:00 0                          [vdso]
";
        assert_eq!(read_only_mappings(maps).collect::<Vec<_>>(), [0x1000..0x3000, 0x3000..0x8000]);
    }

    #[test]
    fn cpu_time_is_user_plus_system() {
        let stat = "1177 (a b) c) S 1 2 3 0 -1 4194560 5 6 7 8 1200 34 9 10 20 0 4";
        assert_eq!(parse_cpu_ticks(stat), Some(1234));
        assert_eq!(parse_cpu_ticks("1177 (a) S 1"), None);
    }

    /// The number of pages of these bytes that are mapped. That of the whole process would change with other tests.
    #[cfg(target_os = "linux")]
    fn mapped(bytes: &[u8]) -> usize {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let size = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:")).unwrap();
        let page = size.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
        let (first, count) = (bytes.as_ptr().addr() / page, bytes.len() / page);
        let mut entries = vec![0; count * 8];
        let pagemap = fs::File::open("/proc/self/pagemap").unwrap();
        pagemap.read_exact_at(&mut entries, first as u64 * 8).unwrap();
        let is_present = |entry: &&[u8; 8]| u64::from_le_bytes(**entry) >> 63 != 0;
        entries.as_chunks().0.iter().filter(is_present).count()
    }

    #[cfg(target_os = "linux")]
    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn code_pages_are_released() {
        static CONSTANTS: [u8; 1 << 20] = [5; 1 << 20];
        let before = sum(&CONSTANTS);
        let read = mapped(&CONSTANTS);
        release_code_pages();
        let left = mapped(&CONSTANTS);
        assert!(left < read / 2, "{left} of {read} pages");
        assert_eq!(sum(&CONSTANTS), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn constants_are_released_and_read_again() {
        static CONSTANTS: [u8; 1 << 22] = [7; 1 << 22];
        let constants = ReleasableConstants::of(&CONSTANTS).unwrap();
        let before = sum(&CONSTANTS);
        constants.release();
        let left = mapped(&CONSTANTS);
        assert_eq!(sum(&CONSTANTS), before);
        let read = mapped(&CONSTANTS);
        assert!(left < read / 2, "{left} of {read} pages");
        assert!(ReleasableConstants::of(vec![0; 1 << 22].leak()).is_none());
    }
}
