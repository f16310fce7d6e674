//! Flags, width and precision of a verb, applied to digits and text.

use super::Printer;
use crate::{
    quote::{can_backquote, quote, quote_rune},
    state::EvalResult,
    text::{lossy, runes},
    unicode::is_print,
};

/// The flags of one verb.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the five flags of printf and two of %v"
)]
pub(super) struct Flags {
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%+v`
    pub(super) plus_v: bool,
    /// `%#v`
    pub(super) sharp_v: bool,
}

impl Printer<'_> {
    fn padding(&mut self, n: usize) -> EvalResult<()> {
        let byte = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.state.charge_bytes(n)?;
        self.out.extend(std::iter::repeat_n(byte, n));
        Ok(())
    }

    /// Writes `bytes`, padded to the width.
    pub(super) fn pad(&mut self, bytes: &[u8]) -> EvalResult<()> {
        let width = self.flags.width.unwrap_or(0);
        let missing = if width == 0 { 0 } else { width.saturating_sub(runes(bytes).count()) };
        if self.flags.minus {
            self.write(bytes)?;
            self.padding(missing)
        } else {
            self.padding(missing)?;
            self.write(bytes)
        }
    }

    /// Writes `bytes`, padded to the width with spaces even under the `0` flag.
    pub(super) fn pad_with_spaces(&mut self, bytes: &[u8]) -> EvalResult<()> {
        let zero = std::mem::take(&mut self.flags.zero);
        let padded = self.pad(bytes);
        self.flags.zero = zero;
        padded
    }

    fn truncated<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(precision) = self.flags.precision else { return bytes };
        let kept = runes(bytes).take(precision).map(|(_, width)| width).sum();
        bytes.get(..kept).unwrap_or(bytes)
    }

    pub(super) fn string(&mut self, bytes: &[u8], verb: char) -> EvalResult<bool> {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes)?,
            'v' | 's' => self.pad(self.truncated(bytes))?,
            'x' | 'X' => self.hex(bytes, verb == 'X')?,
            'q' => self.quoted(bytes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn quoted(&mut self, bytes: &[u8]) -> EvalResult<()> {
        let bytes = self.truncated(bytes);
        let backquoted = std::str::from_utf8(bytes).is_ok_and(can_backquote);
        if self.flags.sharp && backquoted {
            return self.pad(format!("`{}`", lossy(bytes)).as_bytes());
        }
        self.pad(quote(bytes, self.flags.plus).as_bytes())
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) -> EvalResult<()> {
        let length = bytes.len().min(self.flags.precision.unwrap_or(usize::MAX));
        self.state.charge_bytes(length.saturating_mul(5))?;
        let (prefix, between) = match (self.flags.sharp, self.flags.space) {
            (true, true) => ("0x", " 0x"),
            (true, false) => ("0x", ""),
            (false, true) => ("", " "),
            (false, false) => ("", ""),
        };
        let mut text = String::new();
        for (i, byte) in bytes.iter().take(length).enumerate() {
            text.push_str(if i == 0 { prefix } else { between });
            let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
            text.extend(digits.into_iter().flatten());
        }
        if upper {
            text.make_ascii_uppercase();
        }
        self.pad(text.as_bytes())
    }

    /// An integer in any verb that takes one.
    pub(super) fn integer(&mut self, negative: bool, n: u64, verb: char) -> EvalResult<bool> {
        let text = match verb {
            'v' | 'd' => n.to_string(),
            'b' => format!("{n:b}"),
            'o' | 'O' => format!("{n:o}"),
            'x' => format!("{n:x}"),
            'X' => format!("{n:X}"),
            'c' | 'q' | 'U' => return self.rune(negative, n, verb),
            _ => return Ok(false),
        };
        let prefix = match verb {
            'b' if self.flags.sharp => "0b",
            'o' if self.flags.sharp && !text.starts_with('0') => "0",
            'O' if self.flags.sharp && !text.starts_with('0') => "0o0",
            'O' => "0o",
            'x' if self.flags.sharp => "0x",
            'X' if self.flags.sharp => "0X",
            _ => "",
        };
        let sign = match (negative, self.flags.plus, self.flags.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        let digits = match (self.flags.precision, self.flags.width) {
            (Some(0), _) if n == 0 => {
                let zero = std::mem::take(&mut self.flags.zero);
                self.padding(self.flags.width.unwrap_or(0))?;
                self.flags.zero = zero;
                return Ok(true);
            }
            (Some(precision), _) => precision,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => {
                width.saturating_sub(sign.len())
            }
            _ => 0,
        };
        let zeros = digits.saturating_sub(text.len());
        self.state.charge_bytes(zeros)?;
        let zeros = "0".repeat(zeros);
        // A leading zero from the precision already satisfies the prefix of `%#o`.
        let prefix = if prefix == "0" && !zeros.is_empty() { "" } else { prefix };
        self.pad_with_spaces(format!("{sign}{prefix}{zeros}{text}").as_bytes())?;
        Ok(true)
    }

    fn rune(&mut self, negative: bool, n: u64, verb: char) -> EvalResult<bool> {
        let valid = u32::try_from(n).ok().filter(|_| !negative).and_then(char::from_u32);
        let c = valid.unwrap_or(char::REPLACEMENT_CHARACTER);
        match verb {
            'c' => self.pad(c.encode_utf8(&mut [0; 4]).as_bytes())?,
            'q' => self.pad(quote_rune(c, self.flags.plus).as_bytes())?,
            _ => {
                let n = if negative { n.wrapping_neg() } else { n };
                let precision = self.flags.precision.unwrap_or(4).max(4);
                self.state.charge_bytes(precision)?;
                let mut text = format!("{n:X}");
                text.insert_str(0, &"0".repeat(precision.saturating_sub(text.len())));
                text.insert_str(0, "U+");
                if let Some(c) = valid.filter(|c| self.flags.sharp && is_print(*c)) {
                    text.extend([' ', '\'', c, '\'']);
                }
                self.pad_with_spaces(text.as_bytes())?;
            }
        }
        Ok(true)
    }

    /// A float in any verb that takes one.
    pub(super) fn float(&mut self, n: f64, verb: char) -> EvalResult<bool> {
        let (verb, precision) = match verb {
            'v' => (b'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb as u8, None),
            'f' | 'F' => (b'f', Some(6)),
            'e' | 'E' => (verb as u8, Some(6)),
            _ => return Ok(false),
        };
        let precision = self.flags.precision.or(precision);
        self.state.charge_bytes(precision.unwrap_or(0))?;
        let mut text = super::float::format_float(n, verb, precision);
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if self.flags.space && text.starts_with('+') && !self.flags.plus {
            text.replace_range(..1, " ");
        }
        if !n.is_finite() {
            let bare = n.is_nan() && !self.flags.space && !self.flags.plus;
            self.pad_with_spaces(if bare { b"NaN" } else { text.as_bytes() })?;
            return Ok(true);
        }
        if self.flags.sharp && verb != b'b' {
            text = with_all_digits(&text, verb, precision);
        }
        if !self.flags.plus && text.starts_with('+') {
            text.remove(0);
            self.pad(text.as_bytes())?;
            return Ok(true);
        }
        let width = self.flags.width.unwrap_or(0);
        if self.flags.zero && !self.flags.minus && width > text.len() {
            let sign = text.remove(0);
            self.write(sign.encode_utf8(&mut [0; 4]).as_bytes())?;
            self.padding(width - text.len() - 1)?;
            self.write(text.as_bytes())?;
            return Ok(true);
        }
        self.pad(text.as_bytes())?;
        Ok(true)
    }
}

/// `%#g` and similar: always a decimal point, with trailing zeros restored.
fn with_all_digits(text: &str, verb: u8, precision: Option<usize>) -> String {
    let mut missing = match verb {
        b'g' | b'G' | b'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let hex = matches!(verb, b'x' | b'X');
    let tail = text.find(|c| matches!(c, 'p' | 'P') || !hex && matches!(c, 'e' | 'E'));
    let (number, tail) = tail.and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""));
    let mut seen = false;
    for c in number.chars().skip(1).filter(|c| *c != '.') {
        seen |= c != '0';
        missing = missing.saturating_sub(usize::from(seen));
    }
    let mut number = number.to_owned();
    if !number.contains('.') {
        if number.get(1..) == Some("0") {
            missing = missing.saturating_sub(1);
        }
        number.push('.');
    }
    number.extend(std::iter::repeat_n('0', missing));
    number + tail
}
