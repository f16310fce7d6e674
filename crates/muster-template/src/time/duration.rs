//! Go's `time.Duration`: nanoseconds, written `1h2m3.5s`.

use crate::quote::quote;

const SECOND: u64 = 1_000_000_000;

/// `Duration.String`.
pub fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let n = nanoseconds.unsigned_abs();
    let text = match n {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{n}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(n, 1_000, 3)),
        1_000_000..SECOND => format!("{}ms", fraction(n, 1_000_000, 6)),
        _ => {
            let (hours, minutes) = (n / SECOND / 3600, n / SECOND / 60 % 60);
            let seconds = fraction(n % (60 * SECOND), SECOND, 9);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, _) => format!("{minutes}m{seconds}s"),
                _ => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// `n / unit` in decimal, without trailing zeros.
fn fraction(n: u64, unit: u64, digits: usize) -> String {
    let (whole, rest) = (n / unit, n % unit);
    let rest = format!("{rest:0digits$}");
    let rest = rest.trim_end_matches('0');
    if rest.is_empty() { whole.to_string() } else { format!("{whole}.{rest}") }
}

/// `time.ParseDuration`, with its error messages.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text.as_bytes(), false));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end).unwrap_or((after, ""));
        let scale = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "" => {
                let text = quote(text.as_bytes(), false);
                return Err(format!("time: missing unit in duration {text}"));
            }
            _ => {
                let (unit, text) = (quote(unit.as_bytes(), false), quote(text.as_bytes(), false));
                return Err(format!("time: unknown unit {unit} in duration {text}"));
            }
        };
        let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
        let whole = whole.and_then(|n| n.checked_mul(scale)).ok_or_else(invalid)?;
        let sum = total.checked_add(whole).and_then(|n| n.checked_add(part_of(part, scale)));
        total = sum.filter(|n| *n <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    let total = if negative { -i128::from(total) } else { i128::from(total) };
    i64::try_from(total).map_err(|_| invalid())
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `0.part` times `scale`, truncated as in Go.
fn part_of(part: &str, scale: u64) -> u64 {
    let (mut n, mut power) = (0u64, 1.0);
    for digit in part.bytes() {
        let next = n.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|n| *n <= 1 << 63) else { break };
        n = next;
        power *= 10.0;
    }
    (n as f64 * (scale as f64 / power)) as u64
}

/// `Duration.Round`.
pub fn round(n: i64, to: i64) -> i64 {
    if to <= 0 {
        return n;
    }
    let (n, to) = (i128::from(n), i128::from(to));
    let rest = n.abs() % to;
    let down = n.abs() - rest;
    let rounded = if rest * 2 < to { down } else { down + to };
    let rounded = if n < 0 { -rounded } else { rounded };
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}
