//! Emptiness, choices, and what a value is.

use super::{Function, Type, compare::deep_equal, plain, variadic};
use crate::{
    run::{Answer, Fail, Run},
    value::{List, Map, Value},
};

const ANY: Type = Type::Any;
const TEXT: Type = Type::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("default", &[ANY], ANY, |_, args| {
        let given = args.any(1);
        Ok(if given.truth() { given } else { args.any(0) }.clone())
    }),
    plain("empty", &[ANY], |_, args| Ok(Value::Bool(!args.any(0).truth()))),
    variadic("coalesce", &[], ANY, |_, args| {
        let first = args.rest(0).iter().find(|value| value.truth());
        Ok(first.cloned().unwrap_or(Value::Nil))
    }),
    variadic("all", &[], ANY, |_, args| Ok(args.rest(0).iter().all(Value::truth).into())),
    variadic("any", &[], ANY, |_, args| Ok(args.rest(0).iter().any(Value::truth).into())),
    plain("ternary", &[ANY, ANY, Type::Bool], |_, args| {
        let yes = matches!(args.any(2), Value::Bool(true));
        Ok(args.any(usize::from(!yes)).clone())
    }),
    plain("fail", &[TEXT], |_, args| Err(Fail::new(args.str(0)))),
    plain("deepCopy", &[ANY], |run, args| deep_copy(run, args.any(0))),
    plain("mustDeepCopy", &[ANY], |run, args| deep_copy(run, args.any(0))),
    plain("deepEqual", &[ANY; 2], |run, args| {
        deep_equal(run, args.any(0), args.any(1)).map(Value::Bool)
    }),
    plain("typeOf", &[ANY], |run, args| run.text(args.any(0).type_name())),
    plain("typeIs", &[TEXT, ANY], |_, args| Ok((args.str(0) == args.any(1).type_name()).into())),
    plain("typeIsLike", &[TEXT, ANY], |_, args| {
        let (wanted, name) = (args.str(0), args.any(1).type_name());
        Ok((wanted == name || name.strip_prefix('*') == Some(&*wanted)).into())
    }),
    plain("kindOf", &[ANY], |run, args| run.text(args.any(0).kind_name())),
    plain("kindIs", &[TEXT, ANY], |_, args| Ok((args.str(0) == args.any(1).kind_name()).into())),
];

fn deep_copy(run: &Run<'_>, value: &Value) -> Answer {
    if matches!(value, Value::Nil) {
        return Err(Fail::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(run, value, 0)
}

fn copy(run: &Run<'_>, value: &Value, depth: u32) -> Answer {
    run.work(1)?;
    let depth = Run::deeper(depth)?;
    match value {
        Value::List(list) => {
            let List { element, nil, items, .. } = &**list;
            if *nil {
                return Ok(value.clone());
            }
            let items = items.iter().map(|item| copy(run, item, depth));
            run.list_of(*element, items.collect::<Answer<_>>()?)
        }
        Value::Map(map) => {
            let Map { element, entries } = &**map;
            let entries = entries.borrow();
            let entries =
                entries.iter().map(|(key, item)| Ok((key.clone(), copy(run, item, depth)?)));
            run.map_of(*element, entries.collect::<Answer<_>>()?)
        }
        other => Ok(other.clone()),
    }
}
