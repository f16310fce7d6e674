//! Template values: the Go types that templates can produce.
//!
//! JSON numbers are `float64`, literals are `int`, arithmetic yields `int64`: comparisons, `printf` and
//! `typeOf` depend on the difference.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use super::{semver::Version, text::Text, time::Time};

/// A value inside a running template.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Int(i64, IntKind),
    Uint(u64, UintKind),
    Float(f64),
    Complex(f64, f64),
    Text(Text),
    List(Rc<List>),
    Map(Rc<Map>),
    Time(Rc<Time>),
    Version(Rc<Version>),
}

/// Go's signed integer types; the named ones have a `String` method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntKind {
    Int,
    Int64,
    Duration,
    Month,
    Weekday,
}

/// Go's unsigned integer types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UintKind {
    Byte,
    Uint64,
}

/// The declared element type of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Any,
    Text,
    Int,
    /// A list of anything, as `chunk` yields.
    List,
}

/// A slice. `nil` slices print like empty ones, but are `null` in JSON.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) element: Element,
    pub(crate) nil: bool,
    pub(crate) items: Vec<Value>,
    /// The nesting depth of lists; maps count as leaves.
    pub(crate) depth: u32,
}

/// A map from strings, with reference semantics: a change by `set` is visible through every reference.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) element: Element,
    pub(crate) entries: RefCell<BTreeMap<Text, Value>>,
}

impl Value {
    pub(crate) fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) const fn int(n: i64) -> Self {
        Self::Int(n, IntKind::Int)
    }

    pub(crate) const fn int64(n: i64) -> Self {
        Self::Int(n, IntKind::Int64)
    }

    pub(crate) fn count(n: usize) -> Self {
        Self::int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// Its truth in `if`; sprig's `empty` is the opposite.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(yes) => *yes,
            Self::Int(n, _) => *n != 0,
            Self::Uint(n, _) => *n != 0,
            Self::Float(n) => *n != 0.0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.entries.borrow().is_empty(),
            Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// Go's name of its type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, IntKind::Int) => "int",
            Self::Int(_, IntKind::Int64) => "int64",
            Self::Int(_, IntKind::Duration) => "time.Duration",
            Self::Int(_, IntKind::Month) => "time.Month",
            Self::Int(_, IntKind::Weekday) => "time.Weekday",
            Self::Uint(_, UintKind::Byte) => "uint8",
            Self::Uint(_, UintKind::Uint64) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Text(_) => "string",
            Self::List(list) => match list.element {
                Element::Any => "[]interface {}",
                Element::Text => "[]string",
                Element::Int => "[]int",
                Element::List => "[][]interface {}",
            },
            Self::Map(map) => match map.element {
                Element::Text => "map[string]string",
                Element::Any | Element::Int | Element::List => "map[string]interface {}",
            },
            Self::Time(_) => "time.Time",
            Self::Version(version) if version.by_value => "semver.Version",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// Go's name of its kind.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::Int(_, IntKind::Int | IntKind::Month | IntKind::Weekday) => "int",
            Self::Int(_, IntKind::Int64 | IntKind::Duration) => "int64",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(version) if version.by_value => "struct",
            Self::Version(_) => "ptr",
            Self::Bool(_) | Self::Uint(..) | Self::Float(_) | Self::Complex(..) | Self::Text(_) => {
                self.type_name()
            }
        }
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}
