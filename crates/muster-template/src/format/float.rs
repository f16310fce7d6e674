//! Floats as Go's `strconv.FormatFloat` writes them.

use std::fmt::Write as _;

/// The number of digits of an `f64` that can differ from zero; further ones are zeros.
const DIGITS: usize = 1_100;

/// Formats `n` with `verb` (one of `e E f g G b x X`); without a precision, with the fewest digits that
/// read back as `n`.
pub(crate) fn format_float(n: f64, verb: u8, precision: Option<usize>) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match verb {
        b'f' => fixed(n, precision),
        b'g' => general(n, b'e', precision),
        b'G' => general(n, b'E', precision),
        b'b' => binary(n),
        b'x' | b'X' => hexadecimal(n, verb, precision),
        _ => exponential(n, verb, precision),
    }
}

fn fixed(n: f64, precision: Option<usize>) -> String {
    let Some(precision) = precision else { return format!("{n}") };
    let mut text = format!("{n:.*}", precision.min(DIGITS));
    text.extend(std::iter::repeat_n('0', precision.saturating_sub(DIGITS)));
    text
}

fn exponential(n: f64, verb: u8, precision: Option<usize>) -> String {
    let text = match precision {
        Some(precision) => format!("{n:.*e}", precision.min(DIGITS)),
        None => format!("{n:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut text = mantissa.to_owned();
    text.extend(std::iter::repeat_n('0', precision.unwrap_or(0).saturating_sub(DIGITS)));
    write_exponent(&mut text, verb, exponent.parse().unwrap_or(0));
    text
}

/// Writes the exponent with a sign and at least two digits.
fn write_exponent(text: &mut String, verb: u8, exponent: i32) {
    let sign = if exponent < 0 { '-' } else { '+' };
    _ = write!(text, "{}{sign}{:02}", char::from(verb), exponent.unsigned_abs());
}

fn general(n: f64, verb: u8, precision: Option<usize>) -> String {
    let wanted = precision.map(|precision| precision.max(1));
    let text = match wanted {
        Some(digits) => format!("{n:.*e}", (digits - 1).min(DIGITS)),
        None => format!("{n:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let count = digits.len() as i64;
    let mut limit = wanted.map_or(6, |wanted| wanted as i64);
    if wanted.is_some() && limit > count && count > i64::from(exponent) {
        limit = count;
    }
    if exponent < -4 || i64::from(exponent) >= limit {
        let mut text = format!("{sign}{}", digits.get(..1).unwrap_or("0"));
        if let Some(rest) = digits.get(1..).filter(|rest| !rest.is_empty()) {
            text.push('.');
            text.push_str(rest);
        }
        write_exponent(&mut text, verb, exponent);
        return text;
    }
    let point = usize::try_from(exponent + 1).unwrap_or(0);
    let mut whole = digits.get(..point).unwrap_or(digits).to_owned();
    whole.extend(std::iter::repeat_n('0', point.saturating_sub(digits.len())));
    if whole.is_empty() {
        whole.push('0');
    }
    let zeros = "0".repeat(usize::try_from(-1 - exponent).unwrap_or(0));
    match digits.get(point..).filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("{sign}{whole}.{zeros}{rest}"),
        None => format!("{sign}{whole}"),
    }
}

const MANTISSA_BITS: i32 = 52;
const BIAS: i32 = 1023;

/// The mantissa with its hidden bit, and the exponent of its lowest bit.
fn parts(n: f64) -> (u64, i32) {
    let bits = n.abs().to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    match i32::try_from(bits >> MANTISSA_BITS).unwrap_or(0) {
        0 => (mantissa, 1 - BIAS - MANTISSA_BITS),
        exponent => (mantissa | 1 << MANTISSA_BITS, exponent - BIAS - MANTISSA_BITS),
    }
}

fn binary(n: f64) -> String {
    let (mantissa, exponent) = parts(n);
    let sign = if n.is_sign_negative() { "-" } else { "" };
    format!("{sign}{mantissa}p{exponent:+}")
}

fn hexadecimal(n: f64, verb: u8, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = parts(n);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // The leading bit moves to bit 60, so that each hexadecimal digit is four whole bits.
        let shift = mantissa.leading_zeros().saturating_sub(3);
        mantissa <<= shift;
        exponent += 60 - i32::try_from(shift).unwrap_or(0);
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let shift = u32::try_from(60 - 4 * precision).unwrap_or(0);
        let half = 1u64 << shift >> 1;
        let extra = mantissa & ((1 << shift) - 1);
        mantissa >>= shift;
        if extra > half || extra == half && mantissa & 1 == 1 {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa >> 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        Some(precision) => {
            digits.truncate(precision);
            digits.extend(std::iter::repeat_n('0', precision.saturating_sub(15)));
        }
        None => digits.truncate(digits.trim_end_matches('0').len()),
    }
    let sign = if n.is_sign_negative() { "-" } else { "" };
    let point = if digits.is_empty() { "" } else { "." };
    let mut text = format!("{sign}0x{}{point}{digits}", mantissa >> 60);
    write_exponent(&mut text, b'p', exponent);
    if verb == b'X' { text.to_ascii_uppercase() } else { text }
}
