//! Integers and floats of YAML 1.1.

use muster_core::value::Value;

/// The maximum number of digits that Python reads.
const MAX_DIGITS: usize = 4300;

/// Parses an integer; `None` if the text is not an integer, an error message if it is too long.
///
/// Binary `0b1`, octal `017`, decimal, hexadecimal `0xF` and base sixty `1:30`, with `_` anywhere
/// after the first digit.
pub(super) fn integer(text: &str) -> Option<Result<Value, String>> {
    let (negative, body) = sign(text);
    let (first, radix, sixtieths) = match body.split_once(':') {
        Some((first, rest)) => (decimal(first)?, 10, sixtieths(rest)?),
        None => {
            let (radix, digits) = radix(body)?;
            (digits, radix, Vec::new())
        }
    };
    if !first.chars().all(|digit| digit == '_' || digit.is_digit(radix)) {
        return None;
    }
    if first.chars().all(|digit| digit == '_') {
        return Some(Err(format!("`{text}` has no digits")));
    }
    let big = Big::new(first, radix)
        .and_then(|big| sixtieths.into_iter().try_fold(big, |big, part| big.push(60, part)))
        .map(|big| big.decimal())
        .filter(|digits| digits.len() <= MAX_DIGITS);
    Some(match big {
        Some(digits) if negative => Ok(Value::integer(&format!("-{digits}"))),
        Some(digits) => Ok(Value::integer(&digits)),
        None => Err(format!("a number has at most {MAX_DIGITS} digits")),
    })
}

/// Parses a float; `None` if the text is not a float: it needs a dot, and a sign in the exponent.
pub(super) fn float(text: &str) -> Option<f64> {
    let (negative, body) = sign(text);
    let signed = body.len() < text.len();
    let size = match body {
        ".inf" | ".Inf" | ".INF" => f64::INFINITY,
        ".nan" | ".NaN" | ".NAN" if !signed => f64::NAN,
        _ => {
            let (whole, rest) = body.split_once('.')?;
            match whole.split_once(':') {
                _ if whole.is_empty() && signed => return None,
                Some((first, minutes)) => float_base_sixty(first, minutes, rest)?,
                None => decimal_float(whole, rest)?,
            }
        }
    };
    Some(if negative { -size } else { size })
}

/// Parses a number in any notation, as the tag `!!float` allows.
pub(super) fn any_float(text: &str) -> Option<f64> {
    float(text).or_else(|| text.replace('_', "").parse().ok())
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn radix(body: &str) -> Option<(u32, &str)> {
    if let Some(digits) = body.strip_prefix("0b").filter(|digits| !digits.is_empty()) {
        return Some((2, digits));
    }
    if let Some(digits) = body.strip_prefix("0x").filter(|digits| !digits.is_empty()) {
        return Some((16, digits));
    }
    if body.starts_with('0') {
        return Some((8, body));
    }
    decimal(body).map(|digits| (10, digits))
}

/// Digits that do not begin with zero.
fn decimal(text: &str) -> Option<&str> {
    match text.as_bytes() {
        [b'1'..=b'9', ..] => Some(text),
        _ => None,
    }
}

/// The numbers of `30:00`, each below sixty.
fn sixtieths(rest: &str) -> Option<Vec<u64>> {
    rest.split(':')
        .map(|part| match part.as_bytes() {
            [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => part.parse().ok(),
            _ => None,
        })
        .collect()
}

fn float_base_sixty(first: &str, minutes: &str, rest: &str) -> Option<f64> {
    if !starts_with_digit(first) || !are_digits(first) || !are_digits(rest) {
        return None;
    }
    sixtieths(minutes)?;
    let text = format!("{first}:{minutes}.{rest}").replace('_', "");
    // Summed from the right as in PyYAML, so that the last bit agrees.
    let (mut sum, mut base) = (0.0, 1.0);
    for part in text.rsplit(':') {
        sum += part.parse::<f64>().ok()? * base;
        base *= 60.0;
    }
    Some(sum)
}

fn decimal_float(whole: &str, rest: &str) -> Option<f64> {
    let (fraction, exponent) = match rest.find(['e', 'E']).and_then(|at| rest.split_at_checked(at))
    {
        Some((fraction, exponent)) => (fraction, exponent),
        None => (rest, ""),
    };
    let digits_fit = match whole {
        "" => starts_with_digit(fraction),
        whole => starts_with_digit(whole) && are_digits(whole),
    };
    let exponent_fits = match exponent.as_bytes() {
        [] => true,
        [b'e' | b'E', b'+' | b'-', digits @ ..] => {
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    if !digits_fit || !are_digits(fraction) || !exponent_fits {
        return None;
    }
    format!("{whole}.{fraction}{exponent}").replace('_', "").parse().ok()
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

fn are_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'_' || byte.is_ascii_digit())
}

/// A whole number of any size, in groups of nine decimal digits, least significant first.
struct Big(Vec<u64>);

impl Big {
    const GROUP: u64 = 1_000_000_000;

    /// Parses digits; `None` if there are too many.
    fn new(digits: &str, radix: u32) -> Option<Self> {
        digits
            .chars()
            .filter_map(|digit| digit.to_digit(radix))
            .try_fold(Self(Vec::new()), |big, digit| big.push(u64::from(radix), u64::from(digit)))
    }

    /// This number times `radix` plus `digit`.
    fn push(mut self, radix: u64, digit: u64) -> Option<Self> {
        let mut carry = digit;
        for group in &mut self.0 {
            let sum = *group * radix + carry;
            *group = sum % Self::GROUP;
            carry = sum / Self::GROUP;
        }
        if carry > 0 {
            self.0.push(carry);
        }
        (self.0.len() <= MAX_DIGITS / 9 + 1).then_some(self)
    }

    fn decimal(&self) -> String {
        let digits: String = self.0.iter().rev().map(|group| format!("{group:09}")).collect();
        digits.trim_start_matches('0').to_owned()
    }
}
