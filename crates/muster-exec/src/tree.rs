//! The process tree as `/proc` shows it, and signals that are safe against reused process ids.
//!
//! Parent links alone do not say which run a process belongs to: a daemon gives up its parent, its group
//! and its session. So each run is marked with a number that every descendant inherits and no program
//! touches: the soft limit on file locks (`RLIMIT_LOCKS`), which Linux has ignored since 2.4. Setting it
//! needs no privilege, and `/proc/PID/limits` shows it.
//!
//! **Invariant:** a process is signalled only if its start time is still the one that was read, so a
//! reused process id never leads to a foreign process.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt as _,
    process,
};

use rustix::process::{Pid, Signal, geteuid};

use crate::platform::{self, InheritedMark};

/// A process at the moment it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) started: u64,
    /// It is a zombie.
    pub(crate) ended: bool,
}

/// The mark of a run: which launcher, and which of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunMark(u64);

/// All visible processes. Empty where there is no `/proc`.
pub(crate) fn all_processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_process)
        .collect()
}

/// The descendants of `root`, parents before their children.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all_processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        found.extend(children.remove(&parent.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// Whether a process belongs to the user of this process and is in the same PID namespace.
pub(crate) fn is_of_this_user(pid: i32) -> bool {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
    owner.is_ok_and(|owner| owner == geteuid().as_raw())
        && namespace(&pid.to_string()).is_some_and(|of| Some(of) == namespace("self"))
}

/// Sends a signal, unless the process has ended since it was read.
pub(crate) fn send_signal(process: &Process, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        platform::send_signal(pid, signal, || is_running(process));
    }
}

/// Whether this process still runs and its id has not been reused.
pub(crate) fn is_running(process: &Process) -> bool {
    read_process(process.pid).is_some_and(|now| now.started == process.started && !now.ended)
}

/// A process, if it exists.
pub(crate) fn read_process(pid: i32) -> Option<Process> {
    let mut buffer = [0; 1024];
    let size = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    parse_stat(buffer.get(..size)?)
}

/// Parses `/proc/PID/stat`. Its second field is the program's name in parentheses and may hold anything,
/// `)` included.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let (head, tail) = stat.split_at_checked(name_end)?;
    let pid = str::from_utf8(head.split(|&byte| byte == b' ').next()?).ok()?.parse().ok()?;
    let mut fields = str::from_utf8(tail.get(1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // Fields 20 and 22; the one just read is field 6.
    let threads: u32 = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // A process may go on after its main thread has ended.
    let ended = matches!(state, "Z" | "X") && threads <= 1;
    Some(Process { pid, parent, group, session, started, ended })
}

impl RunMark {
    /// Process ids have at most 22 bits, so a mark is never the value for "unlimited".
    pub(crate) fn new(launcher: u32, id: u64) -> Self {
        Self(u64::from(launcher) << 32 | id & u64::from(u32::MAX))
    }

    /// The mark of a process.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        line.split_ascii_whitespace().next()?.parse().ok().map(Self)
    }

    pub(crate) fn is_from(self, launcher: u32) -> bool {
        self.0 >> 32 == u64::from(launcher)
    }

    /// The process id of the launcher; `None` if the number is an ordinary limit and not a mark.
    pub(crate) fn launcher(self) -> Option<i32> {
        i32::try_from(self.0 >> 32).ok().filter(|launcher| *launcher > 0)
    }
}

/// Sets the mark that new children of this process inherit.
pub(crate) struct Marker {
    launcher: u32,
    inherited: InheritedMark,
}

impl Marker {
    pub(crate) fn new() -> Self {
        Self { launcher: process::id(), inherited: InheritedMark::new() }
    }

    /// Marks everything started from now on as part of this run. Where the kernel refuses, parents, groups
    /// and sessions still identify most of a tree.
    pub(crate) fn mark(&self, id: u64) {
        let RunMark(number) = RunMark::new(self.launcher, id);
        self.inherited.set(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_fake_other_fields() {
        let stat = b"7 (a) R 1 1 (b)) S 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3\n";
        let expected =
            Process { pid: 7, parent: 3, group: 5, session: 6, started: 98765, ended: false };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat(b"7 (sh"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found() {
        let me = i32::try_from(process::id()).unwrap();
        let found = all_processes().into_iter().find(|process| process.pid == me).unwrap();
        assert!(is_running(&found));
        assert!(!is_running(&Process { started: found.started + 1, ..found }));
        assert!(descendants(found.parent).iter().any(|process| process.pid == me));
        assert!(descendants(me).iter().all(|process| process.pid != me));
    }

    #[test]
    fn a_mark_names_its_launcher() {
        assert!(RunMark::new(5, 1).is_from(5));
        assert!(!RunMark::new(5, u64::MAX).is_from(6));
        assert_ne!(RunMark::new(5, 1), RunMark::new(5, 2));
        assert_eq!(RunMark::new(5, u64::MAX).launcher(), Some(5));
        assert_eq!(RunMark(1_000).launcher(), None, "a limit in use");
    }
}
