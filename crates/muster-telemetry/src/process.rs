//! The resources of this process, as Linux shows them in `/proc`. Elsewhere they are unknown.

use std::fs;

/// The keys of values that the kernel passes to a program.
const PAGE_SIZE: u64 = 6;
const CLOCK_TICKS: u64 = 17;

/// The resources of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessUsage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) threads: u64,
    pub(crate) open_files: u64,
    pub(crate) max_files: Option<u64>,
}

impl ProcessUsage {
    /// As of now.
    pub(crate) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let auxv = fs::read("/proc/self/auxv").ok()?;
        let mut usage = Self::parse(&stat, &limits, &auxv)?;
        // Reading the directory opens one more.
        let files = fs::read_dir("/proc/self/fd").ok()?.count();
        usage.open_files = u64::try_from(files).ok()?.saturating_sub(1);
        Some(usage)
    }

    fn parse(stat: &str, limits: &str, auxv: &[u8]) -> Option<Self> {
        // The name of the program is in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let field = |number: usize| fields.split(' ').nth(number)?.trim().parse::<u64>().ok();
        let ticks = field(11)? + field(12)?;
        let max_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        #[expect(clippy::cast_precision_loss, reason = "centuries of seconds are exact")]
        let cpu_seconds = ticks as f64 / auxiliary(auxv, CLOCK_TICKS).filter(|n| *n > 0)? as f64;
        Some(Self {
            cpu_seconds,
            resident_bytes: field(21)? * auxiliary(auxv, PAGE_SIZE)?,
            virtual_bytes: field(20)?,
            threads: field(17)?,
            open_files: 0,
            max_files: max_files.and_then(|line| line.split_whitespace().next()?.parse().ok()),
        })
    }
}

/// A value of the auxiliary vector: pairs of machine words.
fn auxiliary(auxv: &[u8], key: u64) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let mut words = auxv.chunks_exact(WORD).map(|bytes| {
        let word = <[u8; WORD]>::try_from(bytes).map(usize::from_ne_bytes);
        word.ok().and_then(|word| u64::try_from(word).ok()).unwrap_or_default()
    });
    while let (Some(found), Some(value)) = (words.next(), words.next()) {
        if found == key {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{CLOCK_TICKS, PAGE_SIZE, ProcessUsage};

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4 1 2 3 4 250 50 0 0 20 0 9 0 100 4096000 10 18446744073709551615 1\n";
        let limits =
            "Limit   Soft Limit   Hard Limit   Units\nMax open files   1024   4096   files\n";
        let auxv: Vec<u8> = [PAGE_SIZE, 4096, CLOCK_TICKS, 100, 0, 0]
            .into_iter()
            .flat_map(|word| usize::try_from(word).unwrap().to_ne_bytes())
            .collect();
        let usage = ProcessUsage::parse(stat, limits, &auxv).unwrap();
        let expected = ProcessUsage {
            cpu_seconds: 3.0,
            resident_bytes: 40_960,
            virtual_bytes: 4_096_000,
            threads: 9,
            open_files: 0,
            max_files: Some(1024),
        };
        assert_eq!(usage, expected);
        assert_eq!(ProcessUsage::parse("", limits, &auxv), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory() {
        let usage = ProcessUsage::read().unwrap();
        assert!(usage.resident_bytes > 100_000 && usage.open_files > 2 && usage.threads > 0);
    }
}
