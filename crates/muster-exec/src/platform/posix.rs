//! Any other POSIX system, such as macOS: no subreaper, no pidfds, no `/proc`.

use std::{
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{RecvFlags, SendFlags},
    process::{Pid, Signal, kill_process},
};

/// How descriptors are received.
pub(crate) const RECEIVE: RecvFlags = RecvFlags::empty();
/// How requests are sent: without waiting.
pub(crate) const SEND: SendFlags = SendFlags::DONTWAIT;

/// Keeps a received descriptor from children.
pub(crate) fn set_cloexec(descriptor: &OwnedFd) {
    let _set = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
}

/// Descendants whose parent has ended go to the init process.
pub(crate) const fn adopt_orphans() {}

/// Unknown on these systems.
pub(crate) const fn children() -> Option<Vec<i32>> {
    None
}

/// There are no pidfds: children are checked at intervals.
pub(crate) const fn open_pidfd(_pid: i32) -> Option<OwnedFd> {
    None
}

/// Sends a signal if `is_running` holds.
pub(crate) fn send_signal(pid: Pid, signal: Signal, is_running: impl Fn() -> bool) {
    if is_running() {
        let _sent = kill_process(pid, signal);
    }
}

/// No mark is inherited: parents, groups and sessions identify most of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InheritedMark;

impl InheritedMark {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn clear(self) {}

    pub(crate) const fn set(self, _number: u64) {}
}

/// The size of a pipe is fixed.
pub(crate) fn widen_pipe(_pipe: impl AsFd) {}

/// Nothing is dropped.
pub(crate) fn drop_pages(_range: Range<usize>) {}

/// Priorities belong to processes here, so nothing changes.
pub(crate) const fn lower_thread_priority() {}
