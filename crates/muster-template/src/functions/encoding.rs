//! Base64 and base32. Sprig returns decoding errors as text, so their messages are Go's.

use super::{Function, ParamType, plain};
use crate::state::EvalError;

const TEXT: &[ParamType] = &[ParamType::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("b64enc", TEXT, |state, args| {
        state.charge_bytes(args.bytes(0).len())?;
        state.text(BASE64.encode(args.bytes(0)))
    }),
    plain("b64dec", TEXT, |state, args| match BASE64.decode(args.bytes(0)) {
        Ok(bytes) => state.text(bytes),
        Err(EvalError::Message(problem)) => state.text(problem),
        Err(spent) => Err(spent),
    }),
    plain("b32enc", TEXT, |state, args| {
        state.charge_bytes(args.bytes(0).len())?;
        state.text(BASE32.encode(args.bytes(0)))
    }),
    plain("b32dec", TEXT, |state, args| match BASE32.decode(&without_breaks(args.bytes(0))) {
        Ok(bytes) => state.text(bytes),
        Err(EvalError::Message(problem)) => state.text(problem),
        Err(spent) => Err(spent),
    }),
];

/// Go's error positions skip line breaks in base32, and count them in base64.
fn without_breaks(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
}

/// An encoding with a power of two as its base.
pub(super) struct BaseEncoding {
    name: &'static str,
    digits: &'static [u8],
    /// Bits in a digit.
    bits: u32,
    /// Digits in a group of whole bytes.
    group: usize,
}

pub(super) const BASE64: BaseEncoding = BaseEncoding {
    name: "base64",
    digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    bits: 6,
    group: 4,
};

const BASE32: BaseEncoding =
    BaseEncoding { name: "base32", digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", bits: 5, group: 8 };

impl BaseEncoding {
    pub(super) fn encode(&self, bytes: &[u8]) -> String {
        let Self { digits, bits, group, .. } = self;
        let digit = |n: u64| {
            let at = usize::try_from(n & ((1 << bits) - 1)).unwrap_or(0);
            char::from(digits.get(at).copied().unwrap_or_default())
        };
        let mut text = String::with_capacity(bytes.len() * 2);
        for chunk in bytes.chunks(group * *bits as usize / 8) {
            let mut buffer = 0u64;
            for byte in chunk {
                buffer = buffer << 8 | u64::from(*byte);
            }
            let used = chunk.len() as u32 * 8;
            let count = used.div_ceil(*bits);
            buffer <<= count * bits - used;
            text.extend((0..count).rev().map(|i| digit(buffer >> (i * bits))));
            text.extend(std::iter::repeat_n('=', group - count as usize));
        }
        text
    }

    /// Decodes `text`. Line breaks are skipped, padding is required.
    pub(super) fn decode(&self, text: &[u8]) -> Result<Vec<u8>, EvalError> {
        let Self { name, digits, bits, group } = self;
        let corrupt = |at: usize| EvalError::new(format!("illegal {name} data at input byte {at}"));
        let visible = || text.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
        let mut bytes = Vec::with_capacity(text.len());
        let (mut buffer, mut count) = (0u64, 0usize);
        let mut rest = visible();
        while let Some((at, byte)) = rest.next() {
            // In base32 only the last group may be padded, and not after a single digit.
            let padded = self.bits == 6 || count > 1 && text.len() - at <= *group;
            if *byte == b'=' && padded {
                self.check_padding(count, at, rest, text.len())?;
                let used = count as u32 * bits;
                let whole = used / 8;
                buffer >>= used % 8;
                bytes.extend((0..whole).rev().map(|i| (buffer >> (8 * i)) as u8));
                return Ok(bytes);
            }
            let digit = digits.iter().position(|digit| digit == byte).ok_or_else(|| corrupt(at))?;
            buffer = buffer << bits | digit as u64;
            count += 1;
            if count == *group {
                let whole = *group as u32 * bits / 8;
                bytes.extend((0..whole).rev().map(|i| (buffer >> (8 * i)) as u8));
                (buffer, count) = (0, 0);
            }
        }
        if count == 0 { Ok(bytes) } else { Err(corrupt(text.len() - count)) }
    }

    /// The padding that begins at `at`, after `count` digits, must fill the group and end the text.
    fn check_padding<'a>(
        &self,
        count: usize,
        at: usize,
        mut rest: impl Iterator<Item = (usize, &'a u8)>,
        end: usize,
    ) -> Result<(), EvalError> {
        let corrupt = |at: usize| {
            Err(EvalError::new(format!("illegal {} data at input byte {at}", self.name)))
        };
        let used = count as u32 * self.bits;
        let whole = used >= 8 && used % 8 < self.bits;
        if !whole && self.bits == 6 {
            return corrupt(at);
        }
        for _ in count + 1..self.group {
            match rest.next() {
                Some((_, b'=')) => {}
                Some((at, _)) => return corrupt(at - 1),
                None => return corrupt(end),
            }
        }
        match rest.next() {
            Some((at, _)) => corrupt(at),
            None if !whole => corrupt(at),
            None => Ok(()),
        }
    }
}
