//! Every function a template can call: what it takes, and what answers.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc, sync::LazyLock};

use super::{
    run::{Answer, Run},
    text::lossy,
    value::{IntKind, Map, Value},
};

mod builtin;
mod cast;
mod compare;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod json;
mod lists;
mod math;
mod merge;
mod paths;
mod random;
mod refused;
mod regexes;
mod strings;
mod urls;
mod versions;
mod words;

pub use refused::REFUSED;

/// A function, or a method (whose receiver is its first argument, and not in `takes`).
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) takes: &'static [Type],
    /// What any further arguments must be.
    pub(crate) rest: Option<Type>,
    pub(crate) call: Call,
}

/// How a function is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Plain(fn(&Run<'_>, Args<'_>) -> Answer),
    /// The first argument whose truth is this, or the last one; the others are not evaluated.
    Until(bool),
    /// Not on a server; the reason.
    Refused(&'static str),
}

/// The Go type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Text,
    Bool,
    Int,
    Float,
    /// `map[string]interface {}`
    Map,
    Time,
    Duration,
    Version,
}

impl Type {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Text => "string",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Map => "map[string]interface {}",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Version => "*semver.Version",
        }
    }

    pub(crate) const fn can_be_nil(self) -> bool {
        matches!(self, Self::Any | Self::Map | Self::Version)
    }

    pub(crate) const fn int_kind(self) -> IntKind {
        match self {
            Self::Duration => IntKind::Duration,
            _ => IntKind::Int,
        }
    }

    pub(crate) fn fits(self, value: &Value) -> bool {
        match value {
            Value::Nil => self.can_be_nil(),
            _ => self == Self::Any || self.name() == value.type_name(),
        }
    }
}

/// Checked arguments. What is asked for in the wrong type is empty, which the check rules out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a>(&'a [Value]);

impl<'a> From<&'a [Value]> for Args<'a> {
    fn from(values: &'a [Value]) -> Self {
        Self(values)
    }
}

impl<'a> Args<'a> {
    pub(crate) fn any(self, i: usize) -> &'a Value {
        self.0.get(i).unwrap_or(&Value::Nil)
    }

    pub(crate) fn bytes(self, i: usize) -> &'a [u8] {
        if let Value::Text(text) = self.any(i) { text } else { &[] }
    }

    pub(crate) fn str(self, i: usize) -> Cow<'a, str> {
        lossy(self.bytes(i))
    }

    pub(crate) fn int(self, i: usize) -> i64 {
        if let Value::Int(n, _) = self.any(i) { *n } else { 0 }
    }

    pub(crate) fn map(self, i: usize) -> Option<&'a Rc<Map>> {
        if let Value::Map(map) = self.any(i) { Some(map) } else { None }
    }

    pub(crate) fn rest(self, i: usize) -> &'a [Value] {
        self.0.get(i..).unwrap_or_default()
    }
}

const fn plain(
    name: &'static str,
    takes: &'static [Type],
    call: fn(&Run<'_>, Args<'_>) -> Answer,
) -> Function {
    Function { name, takes, rest: None, call: Call::Plain(call) }
}

const fn variadic(
    name: &'static str,
    takes: &'static [Type],
    rest: Type,
    call: fn(&Run<'_>, Args<'_>) -> Answer,
) -> Function {
    Function { name, takes, rest: Some(rest), call: Call::Plain(call) }
}

/// The function called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.get(name).copied()
}

/// Every function: its name, and the reason if it is refused.
pub(crate) fn all() -> BTreeMap<&'static str, Option<&'static str>> {
    let reason = |function: &Function| match function.call {
        Call::Refused(reason) => Some(reason),
        Call::Plain(_) | Call::Until(_) => None,
    };
    BY_NAME.iter().map(|(name, function)| (*name, reason(function))).collect()
}

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static Function>> = LazyLock::new(|| {
    // Sprig stands after Go's own functions, some of which it replaces.
    let families: [&[Function]; _] = [
        builtin::FUNCTIONS,
        compare::FUNCTIONS,
        crypto::FUNCTIONS,
        dates::FUNCTIONS,
        defaults::FUNCTIONS,
        dicts::FUNCTIONS,
        encoding::FUNCTIONS,
        json::FUNCTIONS,
        lists::FUNCTIONS,
        math::FUNCTIONS,
        paths::FUNCTIONS,
        random::FUNCTIONS,
        regexes::FUNCTIONS,
        strings::FUNCTIONS,
        urls::FUNCTIONS,
        versions::FUNCTIONS,
        words::FUNCTIONS,
        &refused::FUNCTIONS,
    ];
    families.into_iter().flatten().map(|function| (function.name, function)).collect()
});
