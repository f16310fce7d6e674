//! Chance, from the source the context gives.

use super::{Args, Function, Type, encoding::BASE64, plain};
use crate::{
    run::{Answer, Fail, Run},
    value::Value,
};

const INT: &[Type] = &[Type::Int];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("randAlphaNum", INT, |run, args| letters(run, args, |c| c.is_ascii_alphanumeric())),
    plain("randAlpha", INT, |run, args| letters(run, args, |c| c.is_ascii_alphabetic())),
    plain("randNumeric", INT, |run, args| letters(run, args, |c| c.is_ascii_digit())),
    plain("randAscii", INT, |run, args| letters(run, args, |c| c == b' ' || c.is_ascii_graphic())),
    plain("randBytes", INT, |run, args| {
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(Fail::new("runtime error: makeslice: len out of range"));
        };
        run.text(BASE64.encode(&bytes(run, count)?))
    }),
    plain("randInt", &[Type::Int; 2], |run, args| {
        let (low, high) = (args.int(0), args.int(1));
        let span = high.checked_sub(low).and_then(|span| u64::try_from(span).ok());
        let Some(span) = span.filter(|span| *span > 0) else {
            return Err(Fail::new("invalid argument to Intn"));
        };
        Ok(Value::int(low.wrapping_add_unsigned(run.below(span)?)))
    }),
    plain("uuidv4", &[], |run, _| {
        let bytes: [u8; 16] = run.random()?;
        let n = u128::from_be_bytes(bytes);
        // Version 4, variant 10.
        let n = n & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let mut text = format!("{n:032x}");
        for at in [20, 16, 12, 8] {
            text.insert(at, '-');
        }
        run.text(text)
    }),
    plain("shuffle", &[Type::Text], |run, args| {
        let mut chars: Vec<char> = args.str(0).chars().collect();
        for i in (1..chars.len()).rev() {
            let other = usize::try_from(run.below(i as u64 + 1)?).unwrap_or(0);
            chars.swap(i, other);
        }
        run.text(chars.into_iter().collect::<String>())
    }),
];

/// Random bytes, paid for.
pub(super) fn bytes(run: &Run<'_>, count: usize) -> Answer<Vec<u8>> {
    run.room(count)?;
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        bytes.extend_from_slice(&run.random::<16>()?);
    }
    bytes.truncate(count);
    Ok(bytes)
}

fn letters(run: &Run<'_>, args: Args<'_>, allowed: fn(u8) -> bool) -> Answer {
    let alphabet: Vec<u8> = (0..0x80).filter(|byte| allowed(*byte)).collect();
    let count = usize::try_from(args.int(0)).unwrap_or(0);
    run.work(count)?;
    let mut text = Vec::new();
    for _ in 0..count {
        let at = usize::try_from(run.below(alphabet.len() as u64)?).unwrap_or(0);
        text.extend(alphabet.get(at));
    }
    run.text(text)
}
