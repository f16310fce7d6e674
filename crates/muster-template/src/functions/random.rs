//! RandomSource values, from the source in the context.

use super::{Args, Function, ParamType, encoding::BASE64, plain};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    value::Value,
};

const INT: &[ParamType] = &[ParamType::Int];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("randAlphaNum", INT, |state, args| letters(state, args, |c| c.is_ascii_alphanumeric())),
    plain("randAlpha", INT, |state, args| letters(state, args, |c| c.is_ascii_alphabetic())),
    plain("randNumeric", INT, |state, args| letters(state, args, |c| c.is_ascii_digit())),
    plain("randAscii", INT, |state, args| {
        letters(state, args, |c| c == b' ' || c.is_ascii_graphic())
    }),
    plain("randBytes", INT, |state, args| {
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(EvalError::new("runtime error: makeslice: len out of range"));
        };
        state.text(BASE64.encode(&bytes(state, count)?))
    }),
    plain("randInt", &[ParamType::Int; 2], |state, args| {
        let (low, high) = (args.int(0), args.int(1));
        let span = high.checked_sub(low).and_then(|span| u64::try_from(span).ok());
        let Some(span) = span.filter(|span| *span > 0) else {
            return Err(EvalError::new("invalid argument to Intn"));
        };
        Ok(Value::int(low.wrapping_add_unsigned(state.below(span)?)))
    }),
    plain("uuidv4", &[], |state, _| {
        let bytes: [u8; 16] = state.random()?;
        let n = u128::from_be_bytes(bytes);
        // Version 4, variant 10.
        let n = n & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let mut text = format!("{n:032x}");
        for at in [20, 16, 12, 8] {
            text.insert(at, '-');
        }
        state.text(text)
    }),
    plain("shuffle", &[ParamType::Text], |state, args| {
        let mut chars: Vec<char> = args.str(0).chars().collect();
        for i in (1..chars.len()).rev() {
            let other = usize::try_from(state.below(i as u64 + 1)?).unwrap_or(0);
            chars.swap(i, other);
        }
        state.text(chars.into_iter().collect::<String>())
    }),
];

/// RandomSource bytes, charged against the limits.
pub(super) fn bytes(state: &RenderState<'_>, count: usize) -> EvalResult<Vec<u8>> {
    state.charge_bytes(count)?;
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        bytes.extend_from_slice(&state.random::<16>()?);
    }
    bytes.truncate(count);
    Ok(bytes)
}

fn letters(state: &RenderState<'_>, args: Args<'_>, allowed: fn(u8) -> bool) -> EvalResult {
    let alphabet: Vec<u8> = (0..0x80).filter(|byte| allowed(*byte)).collect();
    let count = usize::try_from(args.int(0)).unwrap_or(0);
    state.charge_steps(count)?;
    let mut text = Vec::new();
    for _ in 0..count {
        let at = usize::try_from(state.below(alphabet.len() as u64)?).unwrap_or(0);
        text.extend(alphabet.get(at));
    }
    state.text(text)
}
