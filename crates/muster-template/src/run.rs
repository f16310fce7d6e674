//! One rendering: what it was given, and what it may still spend.
//!
//! **Invariant:** whatever a template does is paid for here first, so none can hang, fill the memory
//! or overflow the stack. Every map is owned by the run as well, so that maps that contain each
//! other are freed at its end, and none is freed recursively.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
};

use super::{
    text::Text,
    value::{Element, List, Map, Value},
};

/// Fills a buffer with random bytes.
pub type Random<'a> = &'a (dyn Fn(&mut [u8]) + Sync);

/// What a template is told of the world: the time, chance, and its limits.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Seconds since 1970 and nanoseconds, for `now` and everything that falls back on it.
    pub now: (i64, u32),
    /// The IANA name of the zone that Go calls `Local`; an unknown one is UTC.
    pub zone: &'a str,
    /// Fills a buffer with random bytes; without it the random functions fail.
    pub random: Option<Random<'a>>,
    /// How much one rendering may spend.
    pub limits: Limits,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, zone, random, limits } = self;
        f.debug_struct("Context")
            .field("now", now)
            .field("zone", zone)
            .field("random", &random.is_some())
            .field("limits", limits)
            .finish()
    }
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self { now: (0, 0), zone: "UTC", random: None, limits: Limits::default() }
    }
}

/// How much one rendering may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Commands run, elements visited, and work inside functions, in units of about a microsecond.
    pub steps: u64,
    /// Bytes of every value made on the way, the output included.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1_000_000, bytes: 64 << 20 }
    }
}

/// How deep blocks, parentheses, template calls and values may nest. A level takes up to ten
/// kilobytes of stack in an unoptimised build; a thread has two megabytes.
pub(crate) const DEPTH: u32 = 100;

/// Why a function did not answer.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The function says so, in Go's words where Go has some.
    Said(String),
    /// The run has spent what it had.
    Spent(&'static str),
}

impl Fail {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Said(text.into())
    }
}

/// What functions answer.
pub(crate) type Answer<T = Value> = Result<T, Fail>;

/// The state of one rendering that functions share.
pub(crate) struct Run<'a> {
    pub(crate) cx: Context<'a>,
    steps: Cell<u64>,
    bytes: Cell<u64>,
    maps: RefCell<Vec<Rc<Map>>>,
}

impl<'a> Run<'a> {
    pub(crate) const fn new(cx: Context<'a>) -> Self {
        let Limits { steps, bytes } = cx.limits;
        let maps = RefCell::new(Vec::new());
        Self { cx, steps: Cell::new(steps), bytes: Cell::new(bytes), maps }
    }

    /// Pays for `n` steps of work.
    pub(crate) fn work(&self, n: usize) -> Answer<()> {
        let left = self.steps.get().checked_sub(n as u64);
        self.steps.set(left.unwrap_or(0));
        left.map(drop).ok_or(Fail::Spent("it takes too many steps"))
    }

    /// Pays for `n` bytes of memory.
    pub(crate) fn room(&self, n: usize) -> Answer<()> {
        let left = self.bytes.get().checked_sub(n as u64);
        self.bytes.set(left.unwrap_or(0));
        left.map(drop).ok_or(Fail::Spent("it makes too much text"))
    }

    /// Pays for looking at `bytes`.
    pub(crate) fn read(&self, bytes: usize) -> Answer<()> {
        const BYTES_PER_STEP: usize = 256;
        self.work(bytes / BYTES_PER_STEP)
    }

    /// Refuses to go deeper than [`DEPTH`].
    pub(crate) fn deeper(depth: u32) -> Answer<u32> {
        if depth < DEPTH { Ok(depth + 1) } else { Err(Fail::Spent("it nests too deeply")) }
    }

    pub(crate) fn text(&self, bytes: impl Into<Text>) -> Answer {
        let text = bytes.into();
        self.room(text.len())?;
        Ok(Value::Text(text))
    }

    pub(crate) fn list(&self, items: Vec<Value>) -> Answer {
        self.list_of(Element::Any, items)
    }

    pub(crate) fn list_of(&self, element: Element, items: Vec<Value>) -> Answer {
        self.room(items.len().saturating_mul(size_of::<Value>()))?;
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

    pub(crate) fn texts<T: Into<Text>>(&self, texts: impl IntoIterator<Item = T>) -> Answer {
        let mut items = Vec::new();
        for text in texts {
            items.push(self.text(text)?);
        }
        self.list_of(Element::Text, items)
    }

    pub(crate) fn map(&self, entries: BTreeMap<Text, Value>) -> Answer {
        self.map_of(Element::Any, entries)
    }

    pub(crate) fn map_of(&self, element: Element, entries: BTreeMap<Text, Value>) -> Answer {
        const ENTRY: usize = 64;
        self.room(entries.len().saturating_add(1).saturating_mul(ENTRY))?;
        let map = Rc::new(Map { element, entries: RefCell::new(entries) });
        self.maps.borrow_mut().push(Rc::clone(&map));
        Ok(Value::Map(map))
    }

    /// Random bytes.
    pub(crate) fn random<const N: usize>(&self) -> Answer<[u8; N]> {
        let mut bytes = [0; N];
        let Some(fill) = self.cx.random else {
            return Err(Fail::new("there is no source of randomness here"));
        };
        self.work(1)?;
        fill(&mut bytes);
        Ok(bytes)
    }

    /// A random number below `bound`, every one as likely as the others.
    pub(crate) fn below(&self, bound: u64) -> Answer<u64> {
        let bound = bound.max(1);
        // The last, incomplete cycle of `bound` would favour small numbers: it is thrown away.
        let complete = u64::MAX - u64::MAX % bound;
        loop {
            let n = u64::from_le_bytes(self.random()?);
            if n < complete {
                return Ok(n % bound);
            }
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // While `maps` still holds all of them, emptying one never frees another.
        for map in self.maps.borrow().iter() {
            map.entries.borrow_mut().clear();
        }
    }
}
