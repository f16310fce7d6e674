//! Durations as Go writes them: `30s`, `1m30s`, `1.5h`, `300ms`.

use std::time::Duration;

const UNITS: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Parses a duration. `None` for text that Go refuses, and for negative durations.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * factor;
        rest = next;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Formats a duration for display: `12ms`, `1.2s`, `2m05s`.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        _ => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse, short};

    #[test]
    fn go_durations_are_parsed() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("300ms", Some(300)),
            ("0", Some(0)),
            ("2h45m", Some(9_900_000)),
            ("1500us", Some(1)),
            ("", None),
            ("5", None),
            ("-1s", None),
            ("1x", None),
            ("s", None),
            ("1.2.3s", None),
        ] {
            let parsed = parse(text).map(|duration| duration.as_millis());
            assert_eq!(parsed, millis, "{text}");
        }
    }

    #[test]
    fn durations_are_formatted() {
        assert_eq!(short(Duration::from_millis(12)), "12ms");
        assert_eq!(short(Duration::from_millis(1234)), "1.2s");
        assert_eq!(short(Duration::from_secs(125)), "2m05s");
    }
}
