//! Linux.

use std::{
    fs,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    process, ptr,
};

use rustix::{
    io::Errno,
    mm::{Advice, madvise},
    net::{RecvFlags, SendFlags},
    process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getpriority_process, getrlimit,
        kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper, setpriority_process,
        setrlimit,
    },
    thread::gettid,
};

/// How descriptors are received: not inherited by children.
pub(crate) const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// How requests are sent: without waiting, and without a signal if the other end is closed.
pub(crate) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

const WIDE_PIPE: usize = 1024 * 1024;
/// The nice value of background threads: a tenth of the usual share of a busy processor.
const LOW_PRIORITY: i32 = 10;

/// Nothing to do: [`RECEIVE`] already keeps received descriptors from children.
pub(crate) const fn set_cloexec(_descriptor: &OwnedFd) {}

/// Makes this process the parent of descendants whose own parent has ended.
pub(crate) fn adopt_orphans() {
    let _subreaper = set_child_subreaper(Some(getpid()));
}

/// The children of this process, own and adopted. All of them belong to its main thread, because no other thread starts
/// processes.
pub(crate) fn children() -> Option<Vec<i32>> {
    let pid = process::id();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Some(listed.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// A descriptor that becomes readable when the process ends.
pub(crate) fn open_pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Sends a signal if `is_running` still holds. A pidfd pins the process, so after the check its id cannot
/// be reused.
pub(crate) fn send_signal(pid: Pid, signal: Signal, is_running: impl Fn() -> bool) {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) if is_running() => {
            let _sent = pidfd_send_signal(handle, signal);
        }
        Ok(_) | Err(Errno::SRCH) => {}
        Err(_) if is_running() => {
            let _sent = kill_process(pid, signal);
        }
        Err(_) => {}
    }
}

/// The run mark that children inherit, stored in the soft limit `RLIMIT_LOCKS`, which Linux does not enforce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InheritedMark {
    maximum: Option<u64>,
}

impl InheritedMark {
    pub(crate) fn new() -> Self {
        Self { maximum: getrlimit(Resource::Locks).maximum }
    }

    /// Clears the mark of this process, and so of children that are started from now on.
    pub(crate) fn clear(self) {
        let limit = Rlimit { current: self.maximum, maximum: self.maximum };
        let _set = setrlimit(Resource::Locks, limit);
    }

    /// Sets the mark of children that are started from now on.
    pub(crate) fn set(self, number: u64) {
        let limit = Rlimit { current: Some(number), maximum: self.maximum };
        let _set = setrlimit(Resource::Locks, limit);
    }
}

/// Enlarges a busy pipe, so that writer and reader switch less often.
pub(crate) fn widen_pipe(pipe: impl AsFd) {
    let _widened = rustix::pipe::fcntl_setpipe_size(pipe, WIDE_PIPE);
}

/// Drops the resident pages of a file mapping that nothing writes to.
#[expect(unsafe_code, reason = "there is no safe wrapper that drops pages")]
pub(crate) fn drop_pages(range: Range<usize>) {
    let start = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range is a private mapping of a file that nothing writes to. Dropping its pages changes
    // no byte that can be read there: the next access maps the same page. Mappings of programs and
    // libraries stay until the process ends, so the range is still theirs.
    let _best_effort = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
}

/// Lowers the priority of the calling thread: on Linux, a nice value belongs to a thread. Never raises the priority,
/// which root would be able to.
pub(crate) fn lower_thread_priority() {
    let thread = Some(gettid());
    if getpriority_process(thread).is_ok_and(|nice| nice < LOW_PRIORITY) {
        let _best_effort = setpriority_process(thread, LOW_PRIORITY);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::{
        process::{getpriority_process, setpriority_process},
        thread::gettid,
    };

    #[test]
    fn a_thread_has_a_priority_of_its_own() {
        let own = || getpriority_process(Some(gettid())).unwrap();
        let before = own();
        let lowered = thread::spawn(move || {
            super::lower_thread_priority();
            own()
        });
        assert!(lowered.join().unwrap() > before);
        assert_eq!(own(), before);
    }

    #[test]
    fn a_priority_is_never_raised() {
        let lowest = thread::spawn(|| {
            setpriority_process(Some(gettid()), 19).unwrap();
            super::lower_thread_priority();
            getpriority_process(Some(gettid())).unwrap()
        });
        assert_eq!(lowest.join().unwrap(), 19);
    }
}
