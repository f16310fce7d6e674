//! Lists. They are immutable: every function returns a new one.

use super::{Args, Function, ParamType, cast::to_int, compare::deep_equal, plain, variadic};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    value::{Element, List, Value},
};

const ANY: ParamType = ParamType::Any;
const TWO: &[ParamType] = &[ANY; 2];

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("list", &[], ANY, |state, args| state.list(args.rest(0).to_vec())),
    variadic("tuple", &[], ANY, |state, args| state.list(args.rest(0).to_vec())),
    plain("append", TWO, push),
    plain("push", TWO, push),
    plain("mustAppend", TWO, push),
    plain("mustPush", TWO, push),
    plain("prepend", TWO, prepend),
    plain("mustPrepend", TWO, prepend),
    plain("first", &[ANY], first),
    plain("mustFirst", &[ANY], first),
    plain("last", &[ANY], last),
    plain("mustLast", &[ANY], last),
    plain("rest", &[ANY], rest),
    plain("mustRest", &[ANY], rest),
    plain("initial", &[ANY], initial),
    plain("mustInitial", &[ANY], initial),
    plain("reverse", &[ANY], reverse),
    plain("mustReverse", &[ANY], reverse),
    plain("compact", &[ANY], compact),
    plain("mustCompact", &[ANY], compact),
    plain("uniq", &[ANY], uniq),
    plain("mustUniq", &[ANY], uniq),
    variadic("without", &[ANY], ANY, without),
    variadic("mustWithout", &[ANY], ANY, without),
    plain("has", TWO, has),
    plain("mustHas", TWO, has),
    variadic("slice", &[ANY], ANY, slice),
    variadic("mustSlice", &[ANY], ANY, slice),
    plain("chunk", &[ParamType::Int, ANY], chunk),
    plain("mustChunk", &[ParamType::Int, ANY], chunk),
    variadic("concat", &[], ANY, concat),
];

/// The list argument at `i`, or an error that ends with the kind found.
fn list<'a>(
    state: &RenderState<'_>,
    args: Args<'a>,
    i: usize,
    complaint: &str,
) -> EvalResult<&'a List> {
    match args.any(i) {
        Value::List(list) => {
            state.charge_steps(list.items.len() / 8)?;
            Ok(list)
        }
        Value::Nil => {
            Err(EvalError::new("runtime error: invalid memory address or nil pointer dereference"))
        }
        other => Err(EvalError::new(format!("{complaint} {}", other.kind_name()))),
    }
}

fn push(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut items = list(state, args, 0, "Cannot push on type")?.items.clone();
    items.push(args.any(1).clone());
    state.list(items)
}

fn prepend(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut items = vec![args.any(1).clone()];
    items.extend_from_slice(&list(state, args, 0, "Cannot prepend on type")?.items);
    state.list(items)
}

fn first(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 0, "Cannot find first on type")?;
    Ok(list.items.first().cloned().unwrap_or(Value::Nil))
}

fn last(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 0, "Cannot find last on type")?;
    Ok(list.items.last().cloned().unwrap_or(Value::Nil))
}

fn rest(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    match list(state, args, 0, "Cannot find rest on type")?.items.split_first() {
        Some((_, rest)) => state.list(rest.to_vec()),
        None => Ok(RenderState::nil_list(Element::Any)),
    }
}

fn initial(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    match list(state, args, 0, "Cannot find initial on type")?.items.split_last() {
        Some((_, initial)) => state.list(initial.to_vec()),
        None => Ok(RenderState::nil_list(Element::Any)),
    }
}

fn reverse(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 0, "Cannot find reverse on type")?;
    state.list(list.items.iter().rev().cloned().collect())
}

fn compact(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 0, "Cannot compact on type")?;
    state.list(list.items.iter().filter(|item| item.truth()).cloned().collect())
}

fn contains(state: &RenderState<'_>, items: &[Value], wanted: &Value) -> EvalResult<bool> {
    for item in items {
        if deep_equal(state, wanted, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut kept = Vec::new();
    for item in &list(state, args, 0, "Cannot find uniq on type")?.items {
        if !contains(state, &kept, item)? {
            kept.push(item.clone());
        }
    }
    state.list(kept)
}

fn without(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut kept = Vec::new();
    for item in &list(state, args, 0, "Cannot find without on type")?.items {
        if !contains(state, args.rest(1), item)? {
            kept.push(item.clone());
        }
    }
    state.list(kept)
}

fn has(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    if matches!(args.any(1), Value::Nil) {
        return Ok(Value::Bool(false));
    }
    let list = list(state, args, 1, "Cannot find has on type")?;
    contains(state, &list.items, args.any(0)).map(Value::Bool)
}

fn slice(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 0, "list should be type of slice or array but")?;
    let length = list.items.len();
    if length == 0 {
        return Ok(Value::Nil);
    }
    let index = |i, otherwise| match args.rest(i).first() {
        Some(value) => usize::try_from(to_int(value)).unwrap_or(usize::MAX),
        None => otherwise,
    };
    match list.items.get(index(1, 0)..index(2, length)) {
        Some(items) => state.list_of(list.element, items.to_vec()),
        None => Err(EvalError::new("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn chunk(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let list = list(state, args, 1, "Cannot chunk type")?;
    let Some(size) = usize::try_from(args.int(0)).ok().filter(|size| *size > 0) else {
        // As in sprig, a size of -1 gives no chunks rather than an error.
        let last = i64::try_from(list.items.len()).unwrap_or(i64::MAX) - 1;
        if args.int(0) < 0 && last > 0 && last <= args.int(0).saturating_neg() {
            return state.list_of(Element::List, Vec::new());
        }
        return Err(EvalError::new("runtime error: makeslice: len out of range"));
    };
    let chunks = list.items.chunks(size).map(|chunk| state.list(chunk.to_vec()));
    state.list_of(Element::List, chunks.collect::<EvalResult<_>>()?)
}

fn concat(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let mut items = Vec::new();
    for value in args.rest(0) {
        match value {
            Value::List(list) => {
                state.charge_steps(list.items.len() / 8)?;
                items.extend_from_slice(&list.items);
            }
            other => {
                let kind = other.kind_name();
                return Err(EvalError::new(format!("Cannot concat type {kind} as list")));
            }
        }
    }
    if items.is_empty() { Ok(RenderState::nil_list(Element::Any)) } else { state.list(items) }
}
