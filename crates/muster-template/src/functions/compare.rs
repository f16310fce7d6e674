//! Go's comparisons, which never mix integers with floats.

use std::{cmp::Ordering, rc::Rc};

use super::{Args, Function, ParamType, plain, variadic};
use crate::{
    format::shown,
    state::{EvalError, EvalResult, RenderState},
    value::Value,
};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("eq", &[ParamType::Any], ParamType::Any, |state, args| {
        eq(state, args).map(Value::Bool)
    }),
    plain("ne", &[ParamType::Any; 2], |state, args| {
        eq(state, args).map(|equal| Value::Bool(!equal))
    }),
    plain("lt", &[ParamType::Any; 2], |_, args| less(args).map(Value::Bool)),
    plain("le", &[ParamType::Any; 2], |state, args| less_or_equal(state, args).map(Value::Bool)),
    plain("gt", &[ParamType::Any; 2], |state, args| {
        less_or_equal(state, args).map(|not_greater| Value::Bool(!not_greater))
    }),
    plain("ge", &[ParamType::Any; 2], |_, args| less(args).map(|less| Value::Bool(!less))),
];

fn incompatible(one: &Value, other: &Value) -> EvalError {
    let (one, other) = (one.type_name(), other.type_name());
    EvalError::new(format!("incompatible types for comparison: {one} and {other}"))
}

fn eq(state: &RenderState<'_>, args: Args<'_>) -> EvalResult<bool> {
    let one = args.any(0);
    if args.rest(1).is_empty() {
        return Err(EvalError::new("missing argument for comparison"));
    }
    for other in args.rest(1) {
        if equal(state, one, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(state: &RenderState<'_>, one: &Value, other: &Value) -> EvalResult<bool> {
    Ok(match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(one, _), Value::Int(other, _)) => one == other,
        (Value::Uint(one, _), Value::Uint(other, _)) => one == other,
        (Value::Int(int, _), Value::Uint(uint, _)) | (Value::Uint(uint, _), Value::Int(int, _)) => {
            u64::try_from(*int) == Ok(*uint)
        }
        (Value::Float(one), Value::Float(other)) => one == other,
        (Value::Complex(a, b), Value::Complex(c, d)) => a == c && b == d,
        (Value::Text(one), Value::Text(other)) => {
            state.charge_scan(one.len().min(other.len()))?;
            one == other
        }
        (Value::Nil, Value::Nil) => true,
        (Value::Nil, Value::List(list)) | (Value::List(list), Value::Nil) => list.nil,
        (Value::Nil, _) | (_, Value::Nil) => false,
        (Value::List(one), Value::List(other)) if one.nil || other.nil => one.nil == other.nil,
        (Value::Map(_), Value::Map(_)) | (Value::List(_), Value::List(_)) => {
            let (value, kind) = (shown(state, other)?, other.type_name());
            return Err(EvalError::new(format!("non-comparable type {value}: {kind}")));
        }
        (Value::Time(one), Value::Time(other)) => one.nanoseconds() == other.nanoseconds(),
        (Value::Version(one), Value::Version(other)) => Rc::ptr_eq(one, other),
        (
            Value::Map(_) | Value::List(_) | Value::Time(_) | Value::Version(_),
            Value::Map(_) | Value::List(_) | Value::Time(_) | Value::Version(_),
        ) => {
            let (value, kind) = (shown(state, one)?, one.type_name());
            return Err(EvalError::new(format!("non-comparable types {value}: {kind}")));
        }
        _ => return Err(incompatible(one, other)),
    })
}

fn less(args: Args<'_>) -> EvalResult<bool> {
    let (one, other) = (args.any(0), args.any(1));
    let order = match (one, other) {
        (Value::Int(one, _), Value::Int(other, _)) => one.cmp(other),
        (Value::Uint(one, _), Value::Uint(other, _)) => one.cmp(other),
        (Value::Int(int, _), Value::Uint(uint, _)) => i128::from(*int).cmp(&i128::from(*uint)),
        (Value::Uint(uint, _), Value::Int(int, _)) => i128::from(*uint).cmp(&i128::from(*int)),
        (Value::Float(one), Value::Float(other)) => {
            return Ok(one < other);
        }
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        _ => {
            let basic = |value: &Value| {
                !matches!(
                    value,
                    Value::Nil
                        | Value::List(_)
                        | Value::Map(_)
                        | Value::Time(_)
                        | Value::Version(_)
                )
            };
            let same = one.type_name() == other.type_name();
            if same || !basic(one) || !basic(other) {
                return Err(EvalError::new("invalid type for comparison"));
            }
            return Err(incompatible(one, other));
        }
    };
    Ok(order == Ordering::Less)
}

fn less_or_equal(state: &RenderState<'_>, args: Args<'_>) -> EvalResult<bool> {
    Ok(less(args)? || equal(state, args.any(0), args.any(1))?)
}

/// `reflect.DeepEqual`: types count, and nil slices differ from empty ones.
pub(super) fn deep_equal(state: &RenderState<'_>, one: &Value, other: &Value) -> EvalResult<bool> {
    deep(state, one, other, 0)
}

fn deep(state: &RenderState<'_>, one: &Value, other: &Value, depth: u32) -> EvalResult<bool> {
    state.charge_steps(1)?;
    let depth = RenderState::deeper(depth)?;
    if one.type_name() != other.type_name() {
        return Ok(false);
    }
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            if one.nil != other.nil || one.items.len() != other.items.len() {
                return Ok(false);
            }
            for (one, other) in one.items.iter().zip(&other.items) {
                if !deep(state, one, other, depth)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(one), Value::Map(other)) => {
            if Rc::ptr_eq(one, other) {
                return Ok(true);
            }
            let (one, other) = (one.entries.borrow(), other.entries.borrow());
            if one.len() != other.len() {
                return Ok(false);
            }
            for ((key, one), (other_key, other)) in one.iter().zip(other.iter()) {
                if key != other_key || !deep(state, one, other, depth)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Version(one), Value::Version(other)) => {
            Ok(one.original == other.original && one.compare(other) == Ordering::Equal)
        }
        _ => equal(state, one, other),
    }
}
