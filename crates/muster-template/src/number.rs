//! Number literals, with the value in every type that can hold them.

use super::{lex::TokenKind, quote::unquote_rune};

/// A number literal with its value in every type that can hold it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

impl Number {
    /// Reads a token of `kind`; the error is Go's.
    pub(crate) fn read(text: &str, kind: TokenKind) -> Result<Self, String> {
        let none =
            Self { text: text.to_owned(), int: None, uint: None, float: None, complex: None };
        if kind == TokenKind::CharConstant {
            let Some(rune) = unquote_rune(text) else {
                return Err(format!("malformed character constant: {text}"));
            };
            let (int, uint, float) = (Some(rune.into()), Some(rune.into()), Some(rune.into()));
            return Ok(Self { int, uint, float, ..none });
        }
        let imaginary = text.strip_suffix('i');
        if kind == TokenKind::Complex {
            let parts = imaginary.and_then(split_complex).ok_or_else(|| illegal(text))?;
            return Ok(none.complex(parts));
        }
        if let Some(im) = imaginary.and_then(parse_float) {
            return Ok(none.complex((0.0, im)));
        }
        none.real()
    }

    fn complex(self, (re, im): (f64, f64)) -> Self {
        let real = (im == 0.0).then_some(re);
        let (int, uint) = (real.and_then(whole), real.and_then(unsigned));
        Self { int, uint, float: real, complex: Some((re, im)), ..self }
    }

    fn real(self) -> Result<Self, String> {
        let (int, uint) = (parse_int(&self.text), parse_uint(&self.text));
        let uint = if int == Some(0) { Some(0) } else { uint };
        if let Some(float) = int.map(|n| n as f64).or(uint.map(|n| n as f64)) {
            return Ok(Self { int, uint, float: Some(float), ..self });
        }
        let float = parse_float(&self.text).ok_or_else(|| illegal(&self.text))?;
        if !self.text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {:?}", self.text));
        }
        Ok(Self { int: whole(float), uint: unsigned(float), float: Some(float), ..self })
    }

    /// Whether it is a float where no type is required.
    pub(crate) fn is_float(&self) -> bool {
        let hex = self.text.starts_with("0x") || self.text.starts_with("0X");
        let hex_int = hex && !self.text.contains(['p', 'P']);
        self.float.is_some()
            && !hex_int
            && !self.text.starts_with('\'')
            && self.text.contains(['.', 'e', 'E', 'p', 'P'])
    }
}

fn illegal(text: &str) -> String {
    format!("illegal number syntax: {text:?}")
}

fn whole(n: f64) -> Option<i64> {
    let int = n as i64;
    (int as f64 == n && int != i64::MAX).then_some(int)
}

fn unsigned(n: f64) -> Option<u64> {
    let uint = n as u64;
    (uint as f64 == n && uint != u64::MAX).then_some(uint)
}

/// The real and imaginary parts of `1+2`.
fn split_complex(text: &str) -> Option<(f64, f64)> {
    let at = text.rfind(['+', '-'])?;
    let (re, im) = text.split_at_checked(at)?;
    Some((parse_float(re)?, parse_float(im)?))
}

/// `strconv.ParseInt(text, 0, 64)`: with a prefix for the base, and `_` between digits.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let n = i128::from(parse_uint(digits)?);
    i64::try_from(if negative { -n } else { n }).ok()
}

/// `strconv.ParseUint(text, 0, 64)`.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix, prefixed) = if let Some(hex) = lower.strip_prefix("0x") {
        (hex, 16, true)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (octal, 8, true)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (binary, 2, true)
    } else if let Some(octal) = lower.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        (octal, 8, true)
    } else {
        (lower.as_str(), 10, false)
    };
    let digits = without_underscores(digits, prefixed)?;
    let plain = digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(&digits, radix).ok().filter(|_| plain)
}

/// `strconv.ParseFloat(text, 64)`; overflow is an error.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        let n = parse_hex_float(&without_underscores(hex, true)?)?;
        return Some(if text.starts_with('-') { -n } else { n });
    }
    if matches!(&*lower, "inf" | "infinity" | "nan") {
        return text.parse().ok();
    }
    let digits = without_underscores(&lower, false)?;
    let plain = digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-'));
    let n: f64 = digits.parse().ok().filter(|n: &f64| plain && n.is_finite())?;
    Some(if text.starts_with('-') { -n } else { n })
}

fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut n = 0.0;
    for c in whole.chars().chain(fraction.chars()) {
        n = n * 16.0 + f64::from(c.to_digit(16)?);
    }
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let n = n * 2f64.powi(shift);
    n.is_finite().then_some(n)
}

/// Removes underscores, which are valid between digits and after a base prefix.
fn without_underscores(digits: &str, prefixed: bool) -> Option<String> {
    let mut before = prefixed;
    for (at, c) in digits.char_indices() {
        let next = digits.get(at + 1..).and_then(|rest| rest.chars().next());
        if c == '_' && !(before && next.is_some_and(|c| c.is_ascii_hexdigit())) {
            return None;
        }
        before = c.is_ascii_hexdigit();
    }
    Some(digits.replace('_', ""))
}
