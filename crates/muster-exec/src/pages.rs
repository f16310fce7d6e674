//! Giving back memory that only the start of a process needed.
//!
//! Starting runs through most of a program once: flags, files, relocations. The kernel counts every page
//! of code that was touched as this process's own until it runs short of memory. Code comes from a file
//! and is never written to, so it can be let go of at any time: what is needed again is mapped again at
//! the next use, without being read from the disk.

use std::{fs, ops::Range};

/// Lets go of all code and constants. Does nothing where there is no `/proc`.
pub fn give_back() {
    for range in unwritten(&fs::read_to_string("/proc/self/maps").unwrap_or_default()) {
        drop_pages(range);
    }
}

/// How long this process has computed, in the kernel's ticks (10 ms as a rule). Nothing where there is no
/// `/proc`.
pub fn computed() -> Option<u64> {
    ticks(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn ticks(stat: &str) -> Option<u64> {
    // The name before it may hold anything, brackets and spaces too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(|word| word.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

/// Where files are mapped in that this process cannot have written to.
fn unwritten(maps: &str) -> impl Iterator<Item = Range<usize>> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (rights, offset) = (words.next()?, words.next()?);
        let path = words.nth(2)?;
        // What relocations wrote to is made read-only afterwards and looks like constants, but never
        // stands at the start of a file.
        let unwritten = rights == "r-xp" || rights == "r--p" && offset.bytes().all(|b| b == b'0');
        if !(unwritten && path.starts_with('/')) {
            return None;
        }
        let start = usize::from_str_radix(start, 16).ok()?;
        Some(start..usize::from_str_radix(end, 16).ok()?)
    })
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe way to give back pages")]
fn drop_pages(range: Range<usize>) {
    use std::ptr;

    use rustix::mm::{Advice, madvise};

    let start = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range holds pages of files that are mapped in privately and that nothing writes to.
    // Dropping them changes no byte that can be read there: the next access maps in the same page.
    // Mappings of programs and libraries stay until the process ends, so the range is still theirs.
    let _kept_if_refused = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
}

#[cfg(not(target_os = "linux"))]
fn drop_pages(_range: Range<usize>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_writes_to() {
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
        assert_eq!(unwritten(maps).collect::<Vec<_>>(), [0x1000..0x3000, 0x3000..0x8000]);
    }

    #[test]
    fn both_kinds_of_time_count() {
        let stat = "1177 (a b) c) S 1 2 3 0 -1 4194560 5 6 7 8 1200 34 9 10 20 0 4";
        assert_eq!(ticks(stat), Some(1234));
        assert_eq!(ticks("1177 (a) S 1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn less_is_resident_afterwards() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        give_back();
        assert!(resident() < before);
    }
}
