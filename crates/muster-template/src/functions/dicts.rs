//! Dictionaries; `set` and `unset` modify them in place.

use std::collections::BTreeMap;

use super::{Args, Function, ParamType, builtin::strval, merge::merge, plain, variadic};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    text::Text,
    value::{Map, Value},
};

const ANY: ParamType = ParamType::Any;
const TEXT: ParamType = ParamType::Text;
const MAP: ParamType = ParamType::Map;

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("dict", &[], ANY, dict),
    plain("get", &[MAP, TEXT], |_, args| {
        Ok(lookup(args.map(0).map(|map| &**map), args.bytes(1)).unwrap_or(Value::text("")))
    }),
    plain("set", &[MAP, TEXT, ANY], set),
    plain("unset", &[MAP, TEXT], |state, args| {
        let Some(map) = args.map(0) else { return state.map(BTreeMap::new()) };
        map.entries.borrow_mut().remove(&Text::from(args.bytes(1)));
        Ok(args.any(0).clone())
    }),
    plain("hasKey", &[MAP, TEXT], |_, args| {
        Ok(lookup(args.map(0).map(|map| &**map), args.bytes(1)).is_some().into())
    }),
    variadic("pluck", &[TEXT], MAP, |state, args| {
        let values = args.rest(1).iter().filter_map(|map| match map {
            Value::Map(map) => lookup(Some(&**map), args.bytes(0)),
            _ => None,
        });
        state.list(values.collect())
    }),
    variadic("keys", &[], MAP, |state, args| {
        let mut keys = Vec::new();
        for map in args.rest(0) {
            if let Value::Map(map) = map {
                keys.extend(map.entries.borrow().keys().cloned());
            }
        }
        state.texts(keys)
    }),
    plain("values", &[MAP], |state, args| {
        state.list(
            args.map(0).map_or(Vec::new(), |map| map.entries.borrow().values().cloned().collect()),
        )
    }),
    variadic("pick", &[MAP], TEXT, |state, args| chosen(state, args, true)),
    variadic("omit", &[MAP], TEXT, |state, args| chosen(state, args, false)),
    variadic("dig", &[], ANY, |_, args| dig(args)),
    variadic("merge", &[MAP], MAP, |state, args| merge(state, args, false)),
    variadic("mustMerge", &[MAP], MAP, |state, args| merge(state, args, false)),
    variadic("mergeOverwrite", &[MAP], MAP, |state, args| merge(state, args, true)),
    variadic("mustMergeOverwrite", &[MAP], MAP, |state, args| merge(state, args, true)),
];

fn lookup(map: Option<&Map>, key: &[u8]) -> Option<Value> {
    map?.entries.borrow().get(&Text::from(key)).cloned()
}

fn dict(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut entries = BTreeMap::new();
    for pair in args.rest(0).chunks(2) {
        if let [key, rest @ ..] = pair {
            let value = rest.first().cloned().unwrap_or(Value::text(""));
            entries.insert(strval(state, key)?, value);
        }
    }
    state.map(entries)
}

fn set(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    const ENTRY: usize = 64;
    let Some(map) = args.map(0) else {
        return Err(EvalError::new("assignment to entry in nil map"));
    };
    state.charge_bytes(ENTRY + args.bytes(1).len())?;
    map.entries.borrow_mut().insert(args.bytes(1).into(), args.any(2).clone());
    Ok(args.any(0).clone())
}

fn chosen(state: &RenderState<'_>, args: Args<'_>, wanted: bool) -> EvalResult {
    let mut entries = BTreeMap::new();
    if let Some(map) = args.map(0) {
        for (key, value) in map.entries.borrow().iter() {
            state.charge_steps(args.rest(1).len() / 8)?;
            let named =
                args.rest(1).iter().any(|name| matches!(name, Value::Text(name) if name == key));
            if named == wanted {
                entries.insert(key.clone(), value.clone());
            }
        }
    }
    state.map(entries)
}

/// `dig "a" "b" default dict`
fn dig(args: Args<'_>) -> EvalResult {
    let [path @ .., default, dict] = args.rest(0) else {
        return Err(EvalError::new("dig needs at least three arguments"));
    };
    if path.is_empty() {
        return Err(EvalError::new("dig needs at least three arguments"));
    }
    let mut value = dict.clone();
    for key in path {
        let (Value::Map(map), Value::Text(key)) = (&value, key) else {
            let (kind, key) = (value.type_name(), key.type_name());
            return Err(EvalError::new(format!(
                "interface conversion: dig goes through dicts by strings, not through {kind} by {key}"
            )));
        };
        let Some(next) = lookup(Some(&**map), key) else { return Ok(default.clone()) };
        value = next;
    }
    Ok(value)
}
