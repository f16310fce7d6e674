//! The functions that a template can call: parameters and implementations.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc, sync::LazyLock};

use super::{
    state::{EvalResult, RenderState},
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
    pub(crate) takes: &'static [ParamType],
    /// The type of further arguments, if it is variadic.
    pub(crate) rest: Option<ParamType>,
    pub(crate) call: Call,
}

/// The implementation of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Plain(fn(&RenderState<'_>, Args<'_>) -> EvalResult),
    /// Short-circuit: the first argument with this truth, or the last one.
    Until(bool),
    /// Refused, for this reason.
    Refused(&'static str),
}

/// The Go type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamType {
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

impl ParamType {
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

/// Arguments whose types were checked. Reading one as another type gives an empty value; the check
/// rules that out.
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
    takes: &'static [ParamType],
    call: fn(&RenderState<'_>, Args<'_>) -> EvalResult,
) -> Function {
    Function { name, takes, rest: None, call: Call::Plain(call) }
}

const fn variadic(
    name: &'static str,
    takes: &'static [ParamType],
    rest: ParamType,
    call: fn(&RenderState<'_>, Args<'_>) -> EvalResult,
) -> Function {
    Function { name, takes, rest: Some(rest), call: Call::Plain(call) }
}

/// The function called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.get(name).copied()
}

/// All functions by name, with the reason where one is refused.
pub(crate) fn all() -> BTreeMap<&'static str, Option<&'static str>> {
    let reason = |function: &Function| match function.call {
        Call::Refused(reason) => Some(reason),
        Call::Plain(_) | Call::Until(_) => None,
    };
    BY_NAME.iter().map(|(name, function)| (*name, reason(function))).collect()
}

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static Function>> = LazyLock::new(|| {
    // Later entries win: sprig replaces some of Go's own functions.
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
