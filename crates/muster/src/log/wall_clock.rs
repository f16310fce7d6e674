//! The local time of log lines, formatted once a second.
//!
//! Every call writes a line, and time zone arithmetic would cost as much as the rest of it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The last second that was formatted.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    last: Option<(u64, LocalTime)>,
}

/// A local time, in seconds: `2026-11-18 09:05:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalTime([u8; LENGTH]);

const LENGTH: usize = 19;
/// The length of the date.
const DATE: usize = 10;

impl WallClock {
    pub(super) fn now(&mut self) -> LocalTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        self.at(since_epoch.map_or(0, |since| since.as_secs()))
    }

    fn at(&mut self, second: u64) -> LocalTime {
        match self.last {
            Some((last, time)) if last == second => time,
            _ => {
                let time = LocalTime::of(second);
                self.last = Some((second, time));
                time
            }
        }
    }
}

impl LocalTime {
    fn of(second: u64) -> Self {
        let timestamp =
            i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
        let local = timestamp.unwrap_or_default().to_zoned(jiff::tz::TimeZone::system());
        let text = local.strftime("%Y-%m-%d %H:%M:%S").to_string();
        // Truncate longer text, such as a five-digit year.
        let mut bytes = [b' '; LENGTH];
        for (to, byte) in bytes.iter_mut().zip(text.bytes()) {
            *to = byte;
        }
        Self(bytes)
    }

    pub(super) fn date(&self) -> &str {
        self.part(0, DATE)
    }

    pub(super) fn time(&self) -> &str {
        self.part(DATE + 1, LENGTH)
    }

    fn part(&self, from: usize, to: usize) -> &str {
        self.0.get(from..to).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalTime, WallClock};

    #[test]
    fn each_second_is_formatted_once() {
        let mut clock = WallClock::default();
        let (first, same, next) =
            (clock.at(1_800_000_000), clock.at(1_800_000_000), clock.at(1_800_000_001));
        assert_eq!(first, same);
        assert_ne!(first, next);
        assert_eq!((first.date().len(), first.time().len()), (10, 8));
        assert_eq!(next, LocalTime::of(1_800_000_001));
        let zoned = jiff::Timestamp::from_second(1_800_000_001).unwrap();
        let zoned = zoned.to_zoned(jiff::tz::TimeZone::system());
        let expected = zoned.strftime("%Y-%m-%d %H:%M:%S").to_string();
        assert_eq!(format!("{} {}", next.date(), next.time()), expected);
    }
}
