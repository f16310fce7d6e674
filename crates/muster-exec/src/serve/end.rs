//! Ending trees: asked first, made to after a grace period, until nothing is left.

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

use super::{children::Children, watch::Watch};
use crate::tree::{self, Mark, Process};

/// The stack of the thread that ends trees: it walks `/proc` and little more.
const STACK_SIZE: usize = 128 * 1024;
/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_millis(300);
/// Between two looks at a tree that is being killed.
const RECHECK: Duration = Duration::from_millis(10);
/// A process that survives `SIGKILL` this long is stuck in the kernel or belongs to someone else.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Ends everything that descends from this process.
pub(super) fn end_all(children: &Children, watch: &mut Watch) {
    let me = process::id().cast_signed();
    let begin = Instant::now();
    let mut signal = Signal::TERM;
    let mut patience = GRACE;
    while !watch.until_alone(Duration::ZERO) && begin.elapsed() < GIVE_UP {
        let told = children.signal_groups(signal);
        let living = tree::below(me).into_iter().filter(|process| !process.ended);
        for process in living.filter(|process| !told.contains(&process.group)) {
            tree::send(&process, signal);
        }
        if watch.until_alone(patience) {
            return;
        }
        (signal, patience) = (Signal::KILL, RECHECK);
    }
}

/// Ends single runs, on a thread of its own that is started for the first of them.
pub(super) struct Ender {
    children: Arc<Children>,
    orders: Option<Sender<Order>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    id: u64,
    pid: i32,
}

impl Ender {
    pub(super) const fn new(children: Arc<Children>) -> Self {
        Self { children, orders: None }
    }

    /// Has the tree of a run ended; `pid` is 0 if the gateway did not know it yet.
    pub(super) fn end(&mut self, id: u64, pid: i32) {
        let pid = if pid == 0 { self.children.pid_of(id).unwrap_or_default() } else { pid };
        let order = Order { id, pid };
        let unsent = match &self.orders {
            Some(orders) => orders.send(order).is_err(),
            None => true,
        };
        if unsent {
            self.begin(order);
        }
    }

    fn begin(&mut self, order: Order) {
        let (orders, inbox) = mpsc::channel();
        let _sent = orders.send(order);
        let children = Arc::clone(&self.children);
        let thread = thread::Builder::new()
            .name("end".to_owned())
            .stack_size(STACK_SIZE)
            .spawn(move || work(&inbox, &children));
        self.orders = thread.ok().map(|_| orders);
        if self.orders.is_none() {
            // No thread to be had: no grace either.
            self.children.signal_group(order.id, order.pid, Signal::KILL);
        }
    }
}

/// A tree that was asked to end.
struct Doomed {
    order: Order,
    /// What was seen of it, in case it loses its mark and its parents.
    seen: Vec<Process>,
    next_look: Instant,
    give_up: Instant,
}

fn work(inbox: &Receiver<Order>, children: &Children) {
    let mut doomed: Vec<Doomed> = Vec::new();
    loop {
        let next = doomed.iter().map(|tree| tree.next_look).min();
        let first = match next {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(next) => inbox.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        if first == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let family = Family::now();
        for order in first.into_iter().chain(inbox.try_iter()) {
            doomed.push(ask(order, &family, children));
        }
        let now = Instant::now();
        doomed.retain_mut(|tree| tree.next_look > now || insist(tree, &family, children));
    }
}

fn ask(order: Order, family: &Family, children: &Children) -> Doomed {
    let seen = family.members(order);
    let group_told = children.signal_group(order.id, order.pid, Signal::TERM);
    // Twice would be impolite: some programs take the second signal for impatience.
    for process in seen.iter().filter(|process| !group_told || process.group != order.pid) {
        tree::send(process, Signal::TERM);
    }
    let next_look = Instant::now() + GRACE;
    Doomed { order, seen, next_look, give_up: next_look + GIVE_UP }
}

/// Kills what is left; tells whether there is need to look again.
fn insist(doomed: &mut Doomed, family: &Family, children: &Children) -> bool {
    let before = mem::take(&mut doomed.seen);
    let members = family.members(doomed.order);
    let lost = before.into_iter().filter(|process| !members.contains(process));
    doomed.seen = lost.filter(tree::is_still).chain(members.iter().copied()).collect();
    let group_left = children.signal_group(doomed.order.id, doomed.order.pid, Signal::KILL);
    for process in &doomed.seen {
        tree::send(process, Signal::KILL);
    }
    doomed.next_look = Instant::now() + RECHECK;
    (group_left || !doomed.seen.is_empty()) && doomed.next_look < doomed.give_up
}

/// All descendants of this process, parents before children, and the marks they carry.
struct Family(Vec<(Process, Option<Mark>)>);

impl Family {
    fn now() -> Self {
        let living = tree::below(process::id().cast_signed()).into_iter();
        Self(
            living
                .filter(|process| !process.ended)
                .map(|process| (process, Mark::of(process.pid)))
                .collect(),
        )
    }

    /// What belongs to a run. The mark decides; without a mark of ours, kinship does.
    fn members(&self, order: Order) -> Vec<Process> {
        let mark = Mark::new(process::id(), order.id);
        let mut members: Vec<Process> = Vec::new();
        for &(process, carried) in &self.0 {
            let belongs = match carried {
                Some(carried) if carried.is_by(process::id()) => carried == mark,
                _ => {
                    process.group == order.pid
                        || process.session == order.pid
                        || members.iter().any(|member| member.pid == process.parent)
                }
            };
            if belongs {
                members.push(process);
            }
        }
        members
    }
}
