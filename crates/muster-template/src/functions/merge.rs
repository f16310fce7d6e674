//! `merge` and `mergeOverwrite` with mergo's rules: the first dict is modified and returned.

use std::{collections::BTreeMap, rc::Rc};

use super::Args;
use crate::{
    state::{EvalResult, RenderState},
    value::{Element, Map, Value},
};

pub(super) fn merge(state: &RenderState<'_>, args: Args<'_>, overwrite: bool) -> EvalResult {
    let target = match args.any(0) {
        Value::Nil => state.map(BTreeMap::new())?,
        target => target.clone(),
    };
    for source in args.rest(1) {
        if let (Value::Map(target), Value::Map(source)) = (&target, source) {
            merge_into(state, target, source, overwrite, 0)?;
        }
    }
    Ok(target)
}

fn merge_into(
    state: &RenderState<'_>,
    target: &Rc<Map>,
    source: &Rc<Map>,
    overwrite: bool,
    depth: u32,
) -> EvalResult<()> {
    const ENTRY: usize = 64;
    let depth = RenderState::deeper(depth)?;
    if Rc::ptr_eq(target, source) {
        return Ok(());
    }
    // The source may be reachable from the target: copy its entries, so that no borrow is held.
    let entries = source.entries.borrow().clone();
    state.charge_bytes(entries.len().saturating_mul(ENTRY))?;
    for (key, value) in entries {
        state.charge_steps(1)?;
        let known = target.entries.borrow().get(&key).cloned();
        if let (Some(Value::Map(known)), Value::Map(inner)) = (&known, &value) {
            if known.element == Element::Any && inner.element == Element::Any {
                merge_into(state, known, inner, overwrite, depth)?;
            }
            if !known.entries.borrow().is_empty() {
                continue;
            }
        }
        let kept = known.is_some_and(|known| known.truth());
        let replaces = match &value {
            Value::Nil => overwrite,
            _ => overwrite || !kept,
        };
        if replaces {
            target.entries.borrow_mut().insert(key, value);
        }
    }
    Ok(())
}
