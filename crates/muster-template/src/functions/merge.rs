//! `merge` and `mergeOverwrite`, as mergo does them: the first dict is changed and returned.

use std::{collections::BTreeMap, rc::Rc};

use super::Args;
use crate::{
    run::{Answer, Run},
    value::{Element, Map, Value},
};

pub(super) fn merge(run: &Run<'_>, args: Args<'_>, overwrite: bool) -> Answer {
    let target = match args.any(0) {
        Value::Nil => run.map(BTreeMap::new())?,
        target => target.clone(),
    };
    for source in args.rest(1) {
        if let (Value::Map(target), Value::Map(source)) = (&target, source) {
            merge_into(run, target, source, overwrite, 0)?;
        }
    }
    Ok(target)
}

fn merge_into(
    run: &Run<'_>,
    target: &Rc<Map>,
    source: &Rc<Map>,
    overwrite: bool,
    depth: u32,
) -> Answer<()> {
    const ENTRY: usize = 64;
    let depth = Run::deeper(depth)?;
    if Rc::ptr_eq(target, source) {
        return Ok(());
    }
    // The source may be reachable from the target, so nothing stays borrowed while it is walked.
    let entries = source.entries.borrow().clone();
    run.room(entries.len().saturating_mul(ENTRY))?;
    for (key, value) in entries {
        run.work(1)?;
        let known = target.entries.borrow().get(&key).cloned();
        if let (Some(Value::Map(known)), Value::Map(inner)) = (&known, &value) {
            if known.element == Element::Any && inner.element == Element::Any {
                merge_into(run, known, inner, overwrite, depth)?;
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
