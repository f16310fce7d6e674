//! Ending process trees: `SIGTERM`, a grace period, then `SIGKILL` until nothing is left.

use std::{
    mem, process,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{children::Children, watch::ChildWatch};
use crate::tree::{self, Process, RunMark};

/// The stack of the thread that ends trees: it walks `/proc` and little more.
const STACK_SIZE: usize = 128 * 1024;
/// The time between `SIGTERM` and `SIGKILL`.
const GRACE_PERIOD: Duration = Duration::from_millis(300);
/// The interval between two checks of a tree that is being killed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(10);
/// A process that survives `SIGKILL` this long is stuck in the kernel or belongs to another user.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends every descendant of this process.
pub(super) fn terminate_all(children: &Children, watch: &mut ChildWatch) {
    let me = process::id().cast_signed();
    let begin = Instant::now();
    let mut signal = Signal::TERM;
    let mut wait = GRACE_PERIOD;
    while !watch.wait_until_childless(Duration::ZERO) && begin.elapsed() < KILL_TIMEOUT {
        let signalled = children.signal_groups(signal);
        let living = tree::descendants(me).into_iter().filter(|process| !process.ended);
        for process in living.filter(|process| !signalled.contains(&process.group)) {
            tree::send_signal(&process, signal);
        }
        if watch.wait_until_childless(wait) {
            return;
        }
        (signal, wait) = (Signal::KILL, RECHECK_INTERVAL);
    }
}

/// Ends the process trees of single runs on a separate thread, which starts with the first of them.
pub(super) struct Terminator {
    children: Arc<Children>,
    orders: Option<Sender<KillOrder>>,
}

/// A run to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KillOrder {
    pub(super) id: u64,
    /// Its root process.
    pub(super) pid: i32,
}

impl KillOrder {
    /// Whether an adopted process belongs to the run.
    pub(super) fn covers(self, adopted: i32) -> bool {
        tree::read_process(adopted).is_some_and(|process| {
            !process.ended && self.is_member(&process, RunMark::of(adopted), &[])
        })
    }

    /// Whether a process belongs to the run. The mark decides; without a mark of ours, group, session and parent do.
    fn is_member(self, process: &Process, mark: Option<RunMark>, members: &[Process]) -> bool {
        match mark {
            Some(mark) if mark.is_from(process::id()) => {
                mark == RunMark::new(process::id(), self.id)
            }
            _ => {
                process.group == self.pid
                    || process.session == self.pid
                    || members.iter().any(|member| member.pid == process.parent)
            }
        }
    }
}

impl Terminator {
    pub(super) const fn new(children: Arc<Children>) -> Self {
        Self { children, orders: None }
    }

    /// Ends the tree of a run in the background; `pid` is 0 if the gateway does not know it yet.
    pub(super) fn terminate(&mut self, id: u64, pid: i32) {
        let pid = if pid == 0 { self.children.pid_of(id).unwrap_or_default() } else { pid };
        let order = KillOrder { id, pid };
        let unsent = match &self.orders {
            Some(orders) => orders.send(order).is_err(),
            None => true,
        };
        if unsent {
            self.start_thread(order);
        }
    }

    fn start_thread(&mut self, order: KillOrder) {
        let (orders, inbox) = mpsc::channel();
        let _sent = orders.send(order);
        let children = Arc::clone(&self.children);
        let thread = thread::Builder::new()
            .name("end".to_owned())
            .stack_size(STACK_SIZE)
            .spawn(move || run_thread(&inbox, &children));
        self.orders = thread.ok().map(|_| orders);
        if self.orders.is_none() {
            // Without the thread there is no grace period.
            self.children.signal_group(order.id, order.pid, Signal::KILL);
        }
    }
}

/// A process tree that has been sent `SIGTERM`.
struct DyingTree {
    order: KillOrder,
    /// Its members at the last check, in case one loses its mark and its parent.
    seen: Vec<Process>,
    next_check: Instant,
    give_up: Instant,
}

fn run_thread(inbox: &Receiver<KillOrder>, children: &Children) {
    let mut dying: Vec<DyingTree> = Vec::new();
    loop {
        let next = dying.iter().map(|tree| tree.next_check).min();
        let first = match next {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(next) => inbox.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        if first == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let descendants = Descendants::snapshot();
        for order in first.into_iter().chain(inbox.try_iter()) {
            dying.push(send_sigterm(order, &descendants, children));
        }
        let now = Instant::now();
        dying
            .retain_mut(|tree| tree.next_check > now || send_sigkill(tree, &descendants, children));
    }
}

fn send_sigterm(order: KillOrder, descendants: &Descendants, children: &Children) -> DyingTree {
    let seen = descendants.members(order);
    let group_signalled = children.signal_group(order.id, order.pid, Signal::TERM);
    // Not twice: some programs skip their cleanup on a second SIGTERM.
    for process in seen.iter().filter(|process| !group_signalled || process.group != order.pid) {
        tree::send_signal(process, Signal::TERM);
    }
    let next_check = Instant::now() + GRACE_PERIOD;
    DyingTree { order, seen, next_check, give_up: next_check + KILL_TIMEOUT }
}

/// Kills the remaining processes; returns whether another check is needed.
fn send_sigkill(dying: &mut DyingTree, descendants: &Descendants, children: &Children) -> bool {
    let before = mem::take(&mut dying.seen);
    let members = descendants.members(dying.order);
    let lost = before.into_iter().filter(|process| !members.contains(process));
    dying.seen = lost.filter(tree::is_running).chain(members.iter().copied()).collect();
    let group_left = children.signal_group(dying.order.id, dying.order.pid, Signal::KILL);
    for process in &dying.seen {
        tree::send_signal(process, Signal::KILL);
    }
    dying.next_check = Instant::now() + RECHECK_INTERVAL;
    (group_left || !dying.seen.is_empty()) && dying.next_check < dying.give_up
}

/// A snapshot of all descendants of this process, parents before children, with their run marks.
struct Descendants(Vec<(Process, Option<RunMark>)>);

impl Descendants {
    fn snapshot() -> Self {
        let living = tree::descendants(process::id().cast_signed()).into_iter();
        Self(
            living
                .filter(|process| !process.ended)
                .map(|process| (process, RunMark::of(process.pid)))
                .collect(),
        )
    }

    fn members(&self, order: KillOrder) -> Vec<Process> {
        let mut members: Vec<Process> = Vec::new();
        for (process, mark) in &self.0 {
            if order.is_member(process, *mark, &members) {
                members.push(*process);
            }
        }
        members
    }
}
