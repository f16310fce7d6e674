//! Queries of events.

use std::time::Duration;

use jiff::{Timestamp, civil};
use thiserror::Error;

use super::Event;
use crate::handle::VisibleServers;

/// A filter of events. An empty field matches everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The kind of the resource.
    pub kind: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// `Normal` or `Warning`.
    pub severity: Option<String>,
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Not after this time.
    pub until: Option<Timestamp>,
    /// The maximum number of events; the newest are returned.
    pub limit: Option<usize>,
    /// Only events of these servers, and all that are not about a server.
    pub(crate) visible: Option<VisibleServers>,
}

impl Filter {
    pub(crate) fn takes(&self, event: &Event) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.kind, &event.involved_object.kind)
            && is(&self.name, &event.involved_object.name)
            && is(&self.namespace, &event.namespace)
            && is(&self.severity, &event.severity)
            && self.since.is_none_or(|since| event.timestamp >= since)
            && self.until.is_none_or(|until| event.timestamp <= until)
            && self.visible.as_ref().is_none_or(|visible| visible.has_event(event))
    }
}

/// A text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "unsupported time format '{0}'. Supported formats: a duration before now (30m, 1h30m), RFC 3339 (2026-02-04T10:00:00Z), YYYY-MM-DD, YYYY-MM-DD HH:MM:SS"
)]
pub struct TimeError(String);

/// Parses a time: a duration before `now`, RFC 3339, or a date with or without a time of day.
pub fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, TimeError> {
    let utc = |moment: civil::DateTime| {
        moment.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    let ago = || now.checked_sub(duration(text)?).ok();
    let date = || utc(civil::Date::strptime("%Y-%m-%d", text).ok()?.at(0, 0, 0, 0));
    let moment = || utc(civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", text).ok()?);
    ago()
        .or_else(|| text.parse().ok())
        .or_else(date)
        .or_else(moment)
        .ok_or_else(|| TimeError(text.to_owned()))
}

/// A duration in Go's notation: `1h30m`, `1.5s`, `300ms`.
pub fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, behind) = rest.split_at(digits);
        let end = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let (_, worth) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * worth;
        rest = next;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(seconds).ok() }
}
