//! Calls on their way to the history. What the names of several calls refer to is held once.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use muster_core::{
    call::Role,
    catalog::ToolEntry,
    json::Raw,
    name::ToolName,
    observer::{CallStatus, FinishedCall},
    policy::Policy,
};

/// The number of places where names are looked up. Two that need the same place are held more than once.
const PLACES: usize = 256;

/// Finished calls, and their names.
#[derive(Debug)]
pub(crate) struct CallBatch {
    pub(super) calls: Vec<QueuedCall>,
    pub(super) names: Vec<CallNames>,
    /// The positions of names by their hash. A position may be outdated: what is there decides.
    places: [usize; PLACES],
}

/// A finished call, without what it has in common with others.
#[derive(Debug)]
pub(super) struct QueuedCall {
    /// The position of its names in the batch.
    pub(super) names: usize,
    pub(super) began: SystemTime,
    pub(super) duration: Duration,
    pub(super) backend_duration: Option<Duration>,
    pub(super) status: CallStatus,
    pub(super) argument_bytes: usize,
    pub(super) result_bytes: u64,
    pub(super) error: Option<String>,
    pub(super) arguments: Option<Raw>,
}

/// What calls of one tool by one caller have in common.
#[derive(Debug)]
pub(super) struct CallNames {
    pub(super) entry: Option<Arc<ToolEntry>>,
    pub(super) policy: Arc<Policy>,
    pub(super) tool: ToolName,
    pub(super) subject: Arc<str>,
    pub(super) token: Option<Arc<str>>,
    pub(super) surface: &'static str,
    pub(super) role: Role,
    pub(super) depth: u8,
    /// Whether the backend was asked: a call that was refused was permitted by nothing.
    pub(super) is_run: bool,
}

impl Default for CallBatch {
    fn default() -> Self {
        Self { calls: Vec::new(), names: Vec::new(), places: [0; PLACES] }
    }
}

impl CallBatch {
    /// The number of calls.
    pub(crate) const fn len(&self) -> usize {
        self.calls.len()
    }

    /// Adds a call, whose arguments are taken.
    pub(crate) fn add(&mut self, call: &mut FinishedCall) {
        let names = self.names_of(call);
        self.calls.push(QueuedCall {
            names,
            began: call.began,
            duration: call.duration,
            backend_duration: call.backend_duration,
            status: call.status,
            argument_bytes: call.argument_bytes,
            result_bytes: call.result_bytes,
            error: call.error.as_ref().map(|error| error.text.clone()),
            arguments: call.arguments.take(),
        });
    }

    /// Removes all calls. Memory is kept for this many.
    pub(crate) fn clear(&mut self, kept: usize) {
        self.calls.clear();
        self.names.clear();
        self.calls.shrink_to(kept);
        self.names.shrink_to(kept);
    }

    fn names_of(&mut self, call: &FinishedCall) -> usize {
        let next = self.names.len();
        let Some(place) = self.places.get_mut(place(call)) else { return next };
        if self.names.get(*place).is_some_and(|names| names.are_of(call)) {
            return *place;
        }
        *place = next;
        self.names.push(CallNames::of(call));
        next
    }
}

impl CallNames {
    fn of(call: &FinishedCall) -> Self {
        let caller = &call.caller;
        Self {
            entry: call.entry.clone(),
            policy: Arc::clone(&call.policy),
            tool: call.tool.clone(),
            subject: Arc::clone(&caller.subject),
            token: caller.token.clone(),
            surface: call.surface,
            role: caller.role,
            depth: caller.depth,
            is_run: call.backend_duration.is_some(),
        }
    }

    fn are_of(&self, call: &FinishedCall) -> bool {
        let caller = &call.caller;
        self.entry.as_ref().map(Arc::as_ptr) == call.entry.as_ref().map(Arc::as_ptr)
            && Arc::ptr_eq(&self.policy, &call.policy)
            && self.is_run == call.backend_duration.is_some()
            && (self.role, self.depth) == (caller.role, caller.depth)
            && self.surface == call.surface
            && self.tool == call.tool
            && self.subject == caller.subject
            && self.token == caller.token
    }
}

/// The place for the names of a call.
fn place(call: &FinishedCall) -> usize {
    // Multiplication spreads the bits upwards, so that the place is taken from the top.
    const SPREAD: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
    let entry = call.entry.as_ref().map_or(0, |entry| Arc::as_ptr(entry).addr());
    let bytes = call.caller.subject.bytes();
    let hash = bytes.fold(entry, |hash, byte| (hash ^ usize::from(byte)).wrapping_mul(SPREAD));
    hash.wrapping_mul(SPREAD) >> (usize::BITS - PLACES.ilog2())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::{
        call::Caller,
        name::ToolName,
        observer::{CallStatus, FinishedCall},
    };

    use super::{CallBatch, PLACES, place};
    use crate::fixture::{entry, finished};

    fn by(subject: &str, call: FinishedCall) -> FinishedCall {
        FinishedCall { caller: Caller { subject: subject.into(), ..Caller::local() }, ..call }
    }

    #[test]
    fn names_are_shared_by_calls_that_have_the_same() {
        let (tool, other) = (entry("a", "x_a_t"), entry("a", "x_a_t"));
        let policy = Arc::default();
        let call = |tool, status, micros| FinishedCall {
            policy: Arc::clone(&policy),
            ..finished(Some(tool), status, micros)
        };
        let ran = |tool| call(tool, CallStatus::Ok, Some(1));
        let token = Caller { token: Some("t".into()), ..Caller::local() };
        let calls = [
            by("ada", ran(&tool)),
            by("bob", ran(&tool)),
            by("ada", ran(&tool)),
            by("ada", call(&tool, CallStatus::Denied, None)),
            by("ada", FinishedCall { surface: "classic", ..ran(&tool) }),
            by("ada", ran(&other)),
            by("ada", FinishedCall { policy: Arc::default(), ..ran(&other) }),
            FinishedCall { caller: token, ..ran(&other) },
            FinishedCall { tool: ToolName::new("family"), ..ran(&other) },
            finished(None, CallStatus::Unknown, None),
        ];
        let mut batch = CallBatch::default();
        // The second time, places refer to names that are gone.
        for _ in 0..2 {
            let mut last = None;
            for mut call in calls.iter().map(copy) {
                batch.add(&mut call);
                batch.add(&mut call);
                let [.., first, second] = &*batch.calls else { unreachable!() };
                assert_eq!(first.names, second.names);
                assert!(batch.names[first.names].are_of(&call));
                assert_ne!(last.replace(first.names), Some(second.names));
            }
            batch.clear(0);
        }
    }

    fn copy(call: &FinishedCall) -> FinishedCall {
        FinishedCall {
            caller: call.caller.clone(),
            policy: Arc::clone(&call.policy),
            tool: call.tool.clone(),
            surface: call.surface,
            backend_duration: call.backend_duration,
            ..finished(call.entry.as_ref(), call.status, None)
        }
    }

    #[test]
    fn names_find_different_places() {
        let tools: Vec<_> = (0..40).map(|number| entry("a", &format!("t{number}"))).collect();
        let calls = tools.iter().map(|tool| by("ada", finished(Some(tool), CallStatus::Ok, None)));
        let mut places: Vec<_> = calls.map(|call| place(&call)).collect();
        assert!(places.iter().all(|place| *place < PLACES));
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 20, "{places:?}");
    }
}
