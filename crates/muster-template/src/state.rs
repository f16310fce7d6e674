//! The state of one rendering: its context and its remaining limits.
//!
//! **Invariant:** all work is charged here first, so no template can hang, exhaust memory or overflow
//! the stack. The state also owns every map, so that reference cycles are freed at its end, and no map
//! is freed recursively.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    text::Text,
    value::{Element, List, Map, Value},
};

/// A source of randomness: fills a buffer with random bytes.
pub type RandomSource<'a> = &'a (dyn Fn(&mut [u8]) + Sync);

/// The environment of a rendering: time, randomness and limits.
#[derive(Clone, Copy)]
pub struct RenderContext<'a> {
    /// Seconds since 1970 and nanoseconds, for `now` and everything that falls back on it.
    pub now: (i64, u32),
    /// The IANA name of the zone that Go calls `Local`; an unknown one is UTC.
    pub zone: &'a str,
    /// The source of randomness; without it the random functions fail.
    pub random: Option<RandomSource<'a>>,
    /// The limits of the rendering.
    pub limits: RenderLimits,
    /// What this rendering and others may make together; without it, each has only its own limits.
    pub budget: Option<&'a RenderBudget>,
}

/// The bytes that several renderings may make together: each within its own limits, hundreds of them take minutes.
#[derive(Debug)]
pub struct RenderBudget(AtomicU64);

impl RenderBudget {
    /// A budget of so many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes bytes; `false` if there are not as many left, and from then on.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        let left = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        before.is_ok_and(|before| before >= bytes)
    }
}

impl fmt::Debug for RenderContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, zone, random, limits, budget } = self;
        f.debug_struct("RenderContext")
            .field("now", now)
            .field("zone", zone)
            .field("random", &random.is_some())
            .field("limits", limits)
            .field("budget", budget)
            .finish()
    }
}

impl Default for RenderContext<'_> {
    fn default() -> Self {
        Self {
            now: (0, 0),
            zone: "UTC",
            random: None,
            limits: RenderLimits::default(),
            budget: None,
        }
    }
}

/// The limits of one rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderLimits {
    /// Commands, visited elements and work inside functions, in units of about a microsecond.
    pub steps: u64,
    /// Bytes of every value created, including the output.
    pub bytes: u64,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self { steps: 1_000_000, bytes: 64 << 20 }
    }
}

/// The maximum nesting of blocks, parentheses, template calls and values. A level takes up to ten
/// kilobytes of stack in an unoptimised build; a thread has two megabytes.
pub(crate) const DEPTH: u32 = 100;

/// Why a function failed.
#[derive(Debug)]
pub(crate) enum EvalError {
    /// The error of the function, with Go's message where Go has one.
    Message(String),
    /// A limit was exceeded.
    LimitExceeded(&'static str),
}

impl EvalError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}

/// The result of a function.
pub(crate) type EvalResult<T = Value> = Result<T, EvalError>;

/// The state of one rendering that functions share.
pub(crate) struct RenderState<'a> {
    pub(crate) cx: RenderContext<'a>,
    steps: Cell<u64>,
    bytes: Cell<u64>,
    maps: RefCell<Vec<Rc<Map>>>,
}

impl<'a> RenderState<'a> {
    pub(crate) const fn new(cx: RenderContext<'a>) -> Self {
        let RenderLimits { steps, bytes } = cx.limits;
        let maps = RefCell::new(Vec::new());
        Self { cx, steps: Cell::new(steps), bytes: Cell::new(bytes), maps }
    }

    /// Charges `n` steps of work.
    pub(crate) fn charge_steps(&self, n: usize) -> EvalResult<()> {
        let left = self.steps.get().checked_sub(n as u64);
        self.steps.set(left.unwrap_or(0));
        left.map(drop).ok_or(EvalError::LimitExceeded("it takes too many steps"))
    }

    /// Charges `n` bytes of memory.
    pub(crate) fn charge_bytes(&self, n: usize) -> EvalResult<()> {
        let left = self.bytes.get().checked_sub(n as u64);
        self.bytes.set(left.unwrap_or(0));
        left.map(drop).ok_or(EvalError::LimitExceeded("it makes too much text"))?;
        match self.cx.budget {
            Some(budget) if !budget.take(n as u64) => {
                Err(EvalError::LimitExceeded("it and those before it make too much text together"))
            }
            _ => Ok(()),
        }
    }

    /// Charges the steps of scanning `bytes`.
    pub(crate) fn charge_scan(&self, bytes: usize) -> EvalResult<()> {
        const BYTES_PER_STEP: usize = 256;
        self.charge_steps(bytes / BYTES_PER_STEP)
    }

    /// Enters one more level of nesting, up to [`DEPTH`].
    pub(crate) fn deeper(depth: u32) -> EvalResult<u32> {
        if depth < DEPTH {
            Ok(depth + 1)
        } else {
            Err(EvalError::LimitExceeded("it nests too deeply"))
        }
    }

    pub(crate) fn text(&self, bytes: impl Into<Text>) -> EvalResult {
        let text = bytes.into();
        self.charge_bytes(text.len())?;
        Ok(Value::Text(text))
    }

    pub(crate) fn list(&self, items: Vec<Value>) -> EvalResult {
        self.list_of(Element::Any, items)
    }

    pub(crate) fn list_of(&self, element: Element, items: Vec<Value>) -> EvalResult {
        self.charge_bytes(items.len().saturating_mul(size_of::<Value>()))?;
        let inner = items.iter().map(|item| match item {
            Value::List(list) => list.depth,
            _ => 0,
        });
        let depth = Self::deeper(inner.max().unwrap_or(0))?;
        Ok(Value::List(Rc::new(List { element, nil: false, items, depth })))
    }

    /// Go's `nil` slice.
    pub(crate) fn nil_list(element: Element) -> Value {
        Value::List(Rc::new(List { element, nil: true, items: Vec::new(), depth: 1 }))
    }

    pub(crate) fn texts<T: Into<Text>>(&self, texts: impl IntoIterator<Item = T>) -> EvalResult {
        let mut items = Vec::new();
        for text in texts {
            items.push(self.text(text)?);
        }
        self.list_of(Element::Text, items)
    }

    pub(crate) fn map(&self, entries: BTreeMap<Text, Value>) -> EvalResult {
        self.map_of(Element::Any, entries)
    }

    pub(crate) fn map_of(&self, element: Element, entries: BTreeMap<Text, Value>) -> EvalResult {
        const ENTRY: usize = 64;
        self.charge_bytes(entries.len().saturating_add(1).saturating_mul(ENTRY))?;
        let map = Rc::new(Map { element, entries: RefCell::new(entries) });
        self.maps.borrow_mut().push(Rc::clone(&map));
        Ok(Value::Map(map))
    }

    /// RandomSource bytes.
    pub(crate) fn random<const N: usize>(&self) -> EvalResult<[u8; N]> {
        let mut bytes = [0; N];
        let Some(fill) = self.cx.random else {
            return Err(EvalError::new("there is no source of randomness here"));
        };
        self.charge_steps(1)?;
        fill(&mut bytes);
        Ok(bytes)
    }

    /// A uniformly distributed random number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> EvalResult<u64> {
        let bound = bound.max(1);
        // Reject the last, incomplete cycle of `bound`: it would favour small numbers.
        let complete = u64::MAX - u64::MAX % bound;
        loop {
            let n = u64::from_le_bytes(self.random()?);
            if n < complete {
                return Ok(n % bound);
            }
        }
    }
}

impl Drop for RenderState<'_> {
    fn drop(&mut self) {
        // While `maps` still owns all of them, clearing one never frees another.
        for map in self.maps.borrow().iter() {
            map.entries.borrow_mut().clear();
        }
    }
}
