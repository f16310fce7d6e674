//! Lists. None is ever changed: every function answers a new one.

use super::{Args, Function, Type, cast::to_int, compare::deep_equal, plain, variadic};
use crate::{
    run::{Answer, Fail, Run},
    value::{Element, List, Value},
};

const ANY: Type = Type::Any;
const TWO: &[Type] = &[ANY; 2];

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("list", &[], ANY, |run, args| run.list(args.rest(0).to_vec())),
    variadic("tuple", &[], ANY, |run, args| run.list(args.rest(0).to_vec())),
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
    plain("chunk", &[Type::Int, ANY], chunk),
    plain("mustChunk", &[Type::Int, ANY], chunk),
    variadic("concat", &[], ANY, concat),
];

/// The list at `i`; otherwise the complaint, which ends with the kind that was found.
fn list<'a>(run: &Run<'_>, args: Args<'a>, i: usize, complaint: &str) -> Answer<&'a List> {
    match args.any(i) {
        Value::List(list) => {
            run.work(list.items.len() / 8)?;
            Ok(list)
        }
        Value::Nil => {
            Err(Fail::new("runtime error: invalid memory address or nil pointer dereference"))
        }
        other => Err(Fail::new(format!("{complaint} {}", other.kind_name()))),
    }
}

fn push(run: &Run<'_>, args: Args<'_>) -> Answer {
    let mut items = list(run, args, 0, "Cannot push on type")?.items.clone();
    items.push(args.any(1).clone());
    run.list(items)
}

fn prepend(run: &Run<'_>, args: Args<'_>) -> Answer {
    let mut items = vec![args.any(1).clone()];
    items.extend_from_slice(&list(run, args, 0, "Cannot prepend on type")?.items);
    run.list(items)
}

fn first(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 0, "Cannot find first on type")?;
    Ok(list.items.first().cloned().unwrap_or(Value::Nil))
}

fn last(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 0, "Cannot find last on type")?;
    Ok(list.items.last().cloned().unwrap_or(Value::Nil))
}

fn rest(run: &Run<'_>, args: Args<'_>) -> Answer {
    match list(run, args, 0, "Cannot find rest on type")?.items.split_first() {
        Some((_, rest)) => run.list(rest.to_vec()),
        None => Ok(Run::nil_list(Element::Any)),
    }
}

fn initial(run: &Run<'_>, args: Args<'_>) -> Answer {
    match list(run, args, 0, "Cannot find initial on type")?.items.split_last() {
        Some((_, initial)) => run.list(initial.to_vec()),
        None => Ok(Run::nil_list(Element::Any)),
    }
}

fn reverse(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 0, "Cannot find reverse on type")?;
    run.list(list.items.iter().rev().cloned().collect())
}

fn compact(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 0, "Cannot compact on type")?;
    run.list(list.items.iter().filter(|item| item.truth()).cloned().collect())
}

fn contains(run: &Run<'_>, items: &[Value], wanted: &Value) -> Answer<bool> {
    for item in items {
        if deep_equal(run, wanted, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(run: &Run<'_>, args: Args<'_>) -> Answer {
    let mut kept = Vec::new();
    for item in &list(run, args, 0, "Cannot find uniq on type")?.items {
        if !contains(run, &kept, item)? {
            kept.push(item.clone());
        }
    }
    run.list(kept)
}

fn without(run: &Run<'_>, args: Args<'_>) -> Answer {
    let mut kept = Vec::new();
    for item in &list(run, args, 0, "Cannot find without on type")?.items {
        if !contains(run, args.rest(1), item)? {
            kept.push(item.clone());
        }
    }
    run.list(kept)
}

fn has(run: &Run<'_>, args: Args<'_>) -> Answer {
    if matches!(args.any(1), Value::Nil) {
        return Ok(Value::Bool(false));
    }
    let list = list(run, args, 1, "Cannot find has on type")?;
    contains(run, &list.items, args.any(0)).map(Value::Bool)
}

fn slice(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 0, "list should be type of slice or array but")?;
    let length = list.items.len();
    if length == 0 {
        return Ok(Value::Nil);
    }
    let index = |i, otherwise| match args.rest(i).first() {
        Some(value) => usize::try_from(to_int(value)).unwrap_or(usize::MAX),
        None => otherwise,
    };
    match list.items.get(index(1, 0)..index(2, length)) {
        Some(items) => run.list_of(list.element, items.to_vec()),
        None => Err(Fail::new("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn chunk(run: &Run<'_>, args: Args<'_>) -> Answer {
    let list = list(run, args, 1, "Cannot chunk type")?;
    let Some(size) = usize::try_from(args.int(0)).ok().filter(|size| *size > 0) else {
        // One size below zero comes out even, and makes no chunks.
        let last = i64::try_from(list.items.len()).unwrap_or(i64::MAX) - 1;
        if args.int(0) < 0 && last > 0 && last <= args.int(0).saturating_neg() {
            return run.list_of(Element::List, Vec::new());
        }
        return Err(Fail::new("runtime error: makeslice: len out of range"));
    };
    let chunks = list.items.chunks(size).map(|chunk| run.list(chunk.to_vec()));
    run.list_of(Element::List, chunks.collect::<Answer<_>>()?)
}

fn concat(run: &Run<'_>, args: Args<'_>) -> Answer {
    let mut items = Vec::new();
    for value in args.rest(0) {
        match value {
            Value::List(list) => {
                run.work(list.items.len() / 8)?;
                items.extend_from_slice(&list.items);
            }
            other => {
                let kind = other.kind_name();
                return Err(Fail::new(format!("Cannot concat type {kind} as list")));
            }
        }
    }
    if items.is_empty() { Ok(Run::nil_list(Element::Any)) } else { run.list(items) }
}
