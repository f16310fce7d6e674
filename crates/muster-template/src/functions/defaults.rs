//! Defaults, conditionals, copies and type tests.

use super::{Function, ParamType, compare::deep_equal, plain, variadic};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    value::{List, Map, Value},
};

const ANY: ParamType = ParamType::Any;
const TEXT: ParamType = ParamType::Text;

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
    plain("ternary", &[ANY, ANY, ParamType::Bool], |_, args| {
        let yes = matches!(args.any(2), Value::Bool(true));
        Ok(args.any(usize::from(!yes)).clone())
    }),
    plain("fail", &[TEXT], |_, args| Err(EvalError::new(args.str(0)))),
    plain("deepCopy", &[ANY], |state, args| deep_copy(state, args.any(0))),
    plain("mustDeepCopy", &[ANY], |state, args| deep_copy(state, args.any(0))),
    plain("deepEqual", &[ANY; 2], |state, args| {
        deep_equal(state, args.any(0), args.any(1)).map(Value::Bool)
    }),
    plain("typeOf", &[ANY], |state, args| state.text(args.any(0).type_name())),
    plain("typeIs", &[TEXT, ANY], |_, args| Ok((args.str(0) == args.any(1).type_name()).into())),
    plain("typeIsLike", &[TEXT, ANY], |_, args| {
        let (wanted, name) = (args.str(0), args.any(1).type_name());
        Ok((wanted == name || name.strip_prefix('*') == Some(&*wanted)).into())
    }),
    plain("kindOf", &[ANY], |state, args| state.text(args.any(0).kind_name())),
    plain("kindIs", &[TEXT, ANY], |_, args| Ok((args.str(0) == args.any(1).kind_name()).into())),
];

fn deep_copy(state: &RenderState<'_>, value: &Value) -> EvalResult {
    if matches!(value, Value::Nil) {
        return Err(EvalError::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(state, value, 0)
}

fn copy(state: &RenderState<'_>, value: &Value, depth: u32) -> EvalResult {
    state.charge_steps(1)?;
    let depth = RenderState::deeper(depth)?;
    match value {
        Value::List(list) => {
            let List { element, nil, items, .. } = &**list;
            if *nil {
                return Ok(value.clone());
            }
            let items = items.iter().map(|item| copy(state, item, depth));
            state.list_of(*element, items.collect::<EvalResult<_>>()?)
        }
        Value::Map(map) => {
            let Map { element, entries } = &**map;
            let entries = entries.borrow();
            let entries =
                entries.iter().map(|(key, item)| Ok((key.clone(), copy(state, item, depth)?)));
            state.map_of(*element, entries.collect::<EvalResult<_>>()?)
        }
        other => Ok(other.clone()),
    }
}
