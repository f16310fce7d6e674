//! The format string of `printf`.

use super::{Flags, Printer};
use crate::{
    state::EvalResult,
    text::runes,
    value::{IntKind, Value},
};

/// Go rejects a greater width or precision as well.
const TOO_LARGE: usize = 1_000_000;

/// The position in a format string and in its arguments.
#[expect(clippy::struct_excessive_bools, reason = "three facts about `[n]` that vary freely")]
struct FormatReader<'a> {
    rest: &'a [u8],
    args: &'a [Value],
    next: usize,
    /// Whether `[n]` was used; unused arguments are then no error.
    reordered: bool,
    /// Whether every `[n]` of this verb was valid.
    good: bool,
    after_index: bool,
}

impl Printer<'_> {
    pub(super) fn printf(&mut self, format: &[u8], args: &[Value]) -> EvalResult<()> {
        let (reordered, good) = (false, true);
        let mut walk =
            FormatReader { rest: format, args, next: 0, reordered, good, after_index: false };
        while !walk.rest.is_empty() {
            let literal = walk.rest.iter().position(|byte| *byte == b'%');
            let literal = literal.unwrap_or(walk.rest.len());
            let (text, rest) = walk.rest.split_at_checked(literal).unwrap_or((walk.rest, &[]));
            self.write(text)?;
            walk.rest = rest;
            if walk.eat(b'%') {
                self.state.charge_steps(1)?;
                self.verb(&mut walk)?;
            }
        }
        let unused = args.get(walk.next..).unwrap_or_default();
        if walk.reordered || unused.is_empty() {
            return Ok(());
        }
        self.flags = Flags::default();
        self.write(b"%!(EXTRA ")?;
        for (i, arg) in unused.iter().enumerate() {
            self.write(if i > 0 { b", " } else { b"" })?;
            if !matches!(arg, Value::Nil) {
                self.write(format!("{}=", arg.type_name()).as_bytes())?;
            }
            self.argument(arg, 'v')?;
        }
        self.write(b")")
    }

    fn verb(&mut self, walk: &mut FormatReader<'_>) -> EvalResult<()> {
        self.flags = Flags::default();
        walk.good = true;
        walk.after_index = false;
        self.read_flags(walk);
        walk.index();
        self.read_width(walk)?;
        self.read_precision(walk)?;
        if !walk.after_index {
            walk.index();
        }
        let Some((verb, width)) = runes(walk.rest).next() else {
            return self.write(b"%!(NOVERB)");
        };
        walk.skip(width);
        if verb == '%' {
            return self.write(b"%");
        }
        if !walk.good {
            return self.write(format!("%!{verb}(BADINDEX)").as_bytes());
        }
        let Some(arg) = walk.args.get(walk.next) else {
            return self.write(format!("%!{verb}(MISSING)").as_bytes());
        };
        walk.next += 1;
        if verb == 'v' {
            self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
            self.flags.plus_v = std::mem::take(&mut self.flags.plus);
        }
        self.argument(arg, verb)
    }

    fn read_flags(&mut self, walk: &mut FormatReader<'_>) {
        while let Some((flag, rest)) = walk.rest.split_first() {
            match flag {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => break,
            }
            walk.rest = rest;
        }
    }

    fn read_width(&mut self, walk: &mut FormatReader<'_>) -> EvalResult<()> {
        if !walk.eat(b'*') {
            self.flags.width = walk.number();
            if walk.after_index && self.flags.width.is_some() {
                walk.good = false;
            }
            return Ok(());
        }
        walk.after_index = false;
        let Some(width) = walk.int_argument() else {
            return self.write(b"%!(BADWIDTH)");
        };
        if width < 0 {
            self.flags.minus = true;
            self.flags.zero = false;
        }
        self.flags.width = usize::try_from(width.unsigned_abs()).ok();
        Ok(())
    }

    fn read_precision(&mut self, walk: &mut FormatReader<'_>) -> EvalResult<()> {
        // A point at the very end is read as the verb, an invalid one.
        if walk.rest.len() < 2 || !walk.eat(b'.') {
            return Ok(());
        }
        if walk.after_index {
            walk.good = false;
        }
        walk.index();
        if !walk.eat(b'*') {
            self.flags.precision = Some(walk.number().unwrap_or(0));
            return Ok(());
        }
        walk.after_index = false;
        let precision = walk.int_argument();
        self.flags.precision = precision.and_then(|n| usize::try_from(n).ok());
        if self.flags.precision.is_none() {
            self.write(b"%!(BADPREC)")?;
        }
        Ok(())
    }
}

impl FormatReader<'_> {
    fn skip(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    fn eat(&mut self, byte: u8) -> bool {
        let here = self.rest.first() == Some(&byte);
        if here {
            self.skip(1);
        }
        here
    }

    /// Reads a number; `None` without digits or when it is too large.
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (mut n, mut read) = (0usize, 0);
        for byte in self.rest.iter().take(digits) {
            if n > TOO_LARGE {
                self.skip(read);
                return None;
            }
            n = n * 10 + usize::from(byte - b'0');
            read += 1;
        }
        self.skip(digits);
        (digits > 0).then_some(n)
    }

    /// Reads `[n]`, the index of the next argument.
    fn index(&mut self) {
        self.after_index = false;
        if self.rest.first() != Some(&b'[') {
            return;
        }
        self.reordered = true;
        let Some(end) = self.rest.iter().position(|byte| *byte == b']').filter(|end| *end > 0)
        else {
            self.good = false;
            self.skip(1);
            return;
        };
        let digits = self.rest.get(1..end).and_then(|digits| std::str::from_utf8(digits).ok());
        let plain = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let index = plain.and_then(|digits| digits.parse::<usize>().ok());
        self.skip(end + 1);
        match index.and_then(|index| index.checked_sub(1)) {
            Some(index) if index < self.args.len() => {
                self.next = index;
                self.after_index = true;
            }
            _ => {
                self.good = false;
                self.after_index = plain.is_some();
            }
        }
    }

    /// Takes the next argument as the value of `*`.
    fn int_argument(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        let n = match arg {
            Value::Int(n, IntKind::Int | IntKind::Int64 | IntKind::Duration) => *n,
            Value::Int(n, IntKind::Month | IntKind::Weekday) => *n,
            Value::Uint(n, _) => i64::try_from(*n).ok()?,
            _ => return None,
        };
        (n.unsigned_abs() <= TOO_LARGE as u64).then_some(n)
    }
}
