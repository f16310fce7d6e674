//! Parsing of times by a Go layout.

use super::{
    MONTHS, Time, WEEKDAYS, Zone, days_of,
    layout::{Chunk, OffsetFormat, next_chunk},
};
use crate::{quote::quote, text::lossy};

/// `time.ParseInLocation`.
pub(crate) fn parse(layout: &[u8], text: &[u8], local: &Zone) -> Result<Time, String> {
    let mut reading = PartialTime { rest: text, ..PartialTime::default() };
    let mut layout_rest = layout;
    let message = |problem: &str| format!("parsing time {}{problem}", quote(text, false));
    let cannot = |what: &[u8], rest: &[u8]| {
        let (layout, what, rest) = (quote(layout, false), quote(what, false), quote(rest, false));
        message(&format!(" as {layout}: cannot parse {rest} as {what}"))
    };
    loop {
        let (before, chunk, after) = next_chunk(layout_rest);
        if !reading.skip(before) {
            return Err(cannot(before, reading.rest));
        }
        let Some(chunk) = chunk else { break };
        let spelled = layout_rest.get(before.len()..layout_rest.len() - after.len());
        layout_rest = after;
        let hold = reading.rest;
        match reading.chunk(chunk, after) {
            Ok(()) => {}
            Err(FieldError::Value) => return Err(cannot(spelled.unwrap_or_default(), hold)),
            Err(FieldError::Range(what)) => return Err(message(&format!(": {what} out of range"))),
        }
    }
    if !reading.rest.is_empty() {
        return Err(message(&format!(": extra text: {}", quote(reading.rest, false))));
    }
    reading.time(local).map_err(|problem| message(&format!(": {problem}")))
}

enum FieldError {
    Value,
    Range(&'static str),
}

/// The elements parsed so far.
#[derive(Default)]
struct PartialTime<'a> {
    rest: &'a [u8],
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    clock: (i64, i64, i64),
    nanos: u32,
    pm: Option<bool>,
    zone: Option<ReadZone>,
}

enum ReadZone {
    Utc,
    Offset(i64),
    Name(String),
}

impl<'a> PartialTime<'a> {
    /// Skips literal text; a space in it matches any number of spaces.
    fn skip(&mut self, mut literal: &[u8]) -> bool {
        while let Some((first, rest)) = literal.split_first() {
            if *first == b' ' {
                if self.rest.first().is_some_and(|byte| *byte != b' ') {
                    return false;
                }
                literal = without_spaces(literal);
                self.rest = without_spaces(self.rest);
                continue;
            }
            let Some(after) = self.rest.strip_prefix(&[*first]) else { return false };
            self.rest = after;
            literal = rest;
        }
        true
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], FieldError> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(FieldError::Value)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a number of at most two digits, or of exactly two when `fixed`.
    fn number(&mut self, fixed: bool) -> Result<i64, FieldError> {
        let digits = self.rest.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || fixed && digits != 2 {
            return Err(FieldError::Value);
        }
        decimal(self.take(digits)?)
    }

    fn range(
        n: i64,
        range: std::ops::RangeInclusive<i64>,
        what: &'static str,
    ) -> Result<i64, FieldError> {
        if range.contains(&n) { Ok(n) } else { Err(FieldError::Range(what)) }
    }

    fn lookup(&mut self, names: &[&str], length: usize) -> Result<i64, FieldError> {
        for (i, name) in (0..).zip(names) {
            let name = name.get(..length.min(name.len())).unwrap_or(name);
            let here = self.rest.get(..name.len());
            if here.is_some_and(|here| here.eq_ignore_ascii_case(name.as_bytes())) {
                self.take(name.len())?;
                return Ok(i);
            }
        }
        Err(FieldError::Value)
    }

    fn chunk(&mut self, chunk: Chunk, after: &[u8]) -> Result<(), FieldError> {
        match chunk {
            Chunk::Year => {
                let year = signed(self.take(2)?)?;
                self.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            Chunk::LongYear => {
                if !self.rest.first().is_some_and(u8::is_ascii_digit) {
                    return Err(FieldError::Value);
                }
                self.year = decimal(self.take(4)?)?;
            }
            Chunk::Month => self.month = Some(self.lookup(&MONTHS, 3)? + 1),
            Chunk::LongMonth => self.month = Some(self.lookup(&MONTHS, 9)? + 1),
            Chunk::NumMonth | Chunk::ZeroMonth => {
                let month = self.number(chunk == Chunk::ZeroMonth)?;
                self.month = Some(Self::range(month, 1..=12, "month")?);
            }
            Chunk::Weekday => drop(self.lookup(&WEEKDAYS, 3)?),
            Chunk::LongWeekday => drop(self.lookup(&WEEKDAYS, 9)?),
            Chunk::Day | Chunk::UnderDay | Chunk::ZeroDay => {
                if chunk == Chunk::UnderDay {
                    self.rest = self.rest.strip_prefix(b" ").unwrap_or(self.rest);
                }
                self.day = Some(self.number(chunk == Chunk::ZeroDay)?);
            }
            Chunk::UnderYearDay | Chunk::ZeroYearDay => self.read_year_day(chunk)?,
            Chunk::Hour => self.clock.0 = Self::range(self.number(false)?, 0..=23, "hour")?,
            Chunk::Hour12 | Chunk::ZeroHour12 => {
                let hour = self.number(chunk == Chunk::ZeroHour12)?;
                self.clock.0 = Self::range(hour, 0..=12, "hour")?;
            }
            Chunk::Minute | Chunk::ZeroMinute => {
                let minute = self.number(chunk == Chunk::ZeroMinute)?;
                self.clock.1 = Self::range(minute, 0..=59, "minute")?;
            }
            Chunk::Second | Chunk::ZeroSecond => {
                let second = self.number(chunk == Chunk::ZeroSecond)?;
                self.clock.2 = Self::range(second, 0..=59, "second")?;
                // A fraction may follow even if the layout has none.
                if !matches!(next_chunk(after).1, Some(Chunk::Fraction { .. })) {
                    self.read_fraction()?;
                }
            }
            Chunk::Pm => self.pm = Some(self.either(b"AM", b"PM")?),
            Chunk::LowerPm => self.pm = Some(self.either(b"am", b"pm")?),
            Chunk::ZoneName => self.read_zone_name()?,
            Chunk::Offset { iso: true, .. } if self.rest.first() == Some(&b'Z') => {
                self.take(1)?;
                self.zone = Some(ReadZone::Utc);
            }
            Chunk::Offset { form, .. } => self.read_offset(form)?,
            Chunk::Fraction { trim: true, .. } => self.read_fraction()?,
            Chunk::Fraction { digits, .. } => {
                let text = self.take(digits + 1)?;
                self.nanos = nanoseconds(text)?;
            }
        }
        Ok(())
    }

    fn either(&mut self, am: &[u8], pm: &[u8]) -> Result<bool, FieldError> {
        match self.take(2)? {
            half if half == pm => Ok(true),
            half if half == am => Ok(false),
            _ => Err(FieldError::Value),
        }
    }

    fn read_year_day(&mut self, chunk: Chunk) -> Result<(), FieldError> {
        let fixed = chunk == Chunk::ZeroYearDay;
        if !fixed {
            let spaces = self.rest.iter().take(2).take_while(|byte| **byte == b' ').count();
            self.take(spaces)?;
        }
        let digits = self.rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || fixed && digits != 3 {
            return Err(FieldError::Value);
        }
        self.year_day = Some(decimal(self.take(digits)?)?);
        Ok(())
    }

    fn read_fraction(&mut self) -> Result<(), FieldError> {
        let Some(([b'.' | b',', b'0'..=b'9'], _)) = self.rest.split_at_checked(2) else {
            return Ok(());
        };
        let digits = self.rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        self.nanos = nanoseconds(self.take(digits + 1)?)?;
        Ok(())
    }

    fn read_offset(&mut self, form: OffsetFormat) -> Result<(), FieldError> {
        let (length, colons) = match form {
            OffsetFormat::Hours => (3, false),
            OffsetFormat::Minutes => (5, false),
            OffsetFormat::Seconds => (7, false),
            OffsetFormat::ColonMinutes => (6, true),
            OffsetFormat::ColonSeconds => (9, true),
        };
        let text = self.take(length)?;
        let (sign, text) = text.split_first().ok_or(FieldError::Value)?;
        let mut parts = [0; 3];
        let step = if colons { 3 } else { 2 };
        for (part, piece) in parts.iter_mut().zip(text.chunks(step)) {
            let (digits, colon) = piece.split_at_checked(2).ok_or(FieldError::Value)?;
            if !matches!(colon, b"" | b":") {
                return Err(FieldError::Value);
            }
            *part = decimal(digits)?;
        }
        let [hours, minutes, seconds] = parts;
        Self::range(hours, 0..=24, "time zone offset hour")?;
        Self::range(minutes, 0..=60, "time zone offset minute")?;
        Self::range(seconds, 0..=60, "time zone offset second")?;
        let offset = (hours * 60 + minutes) * 60 + seconds;
        self.zone = Some(ReadZone::Offset(match sign {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(FieldError::Value),
        }));
        Ok(())
    }

    fn read_zone_name(&mut self) -> Result<(), FieldError> {
        if let Some(rest) = self.rest.strip_prefix(b"UTC") {
            self.rest = rest;
            self.zone = Some(ReadZone::Utc);
            return Ok(());
        }
        let length = zone_name_length(self.rest).ok_or(FieldError::Value)?;
        self.zone = Some(ReadZone::Name(lossy(self.take(length)?).into_owned()));
        Ok(())
    }

    fn time(self, local: &Zone) -> Result<Time, &'static str> {
        let (hour, minute, second) = self.clock;
        let hour = match self.pm {
            Some(true) if hour < 12 => hour + 12,
            Some(false) if hour == 12 => 0,
            _ => hour,
        };
        let (month, day) = match self.year_day {
            Some(year_day) => self.month_and_day(year_day)?,
            None => (self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        let month_length =
            days_of(self.year + month / 12, month % 12 + 1) - days_of(self.year, month);
        if !(1..=month_length).contains(&day) {
            return Err("day out of range");
        }
        let (date, clock, nanos) = ((self.year, month, day), (hour, minute, second), self.nanos);
        let utc = Time::of(date, clock, nanos, Zone::Utc);
        Ok(match self.zone {
            None => Time::of(date, clock, nanos, local.clone()),
            Some(ReadZone::Utc) => utc,
            Some(ReadZone::Offset(offset)) => {
                let seconds = utc.seconds - offset;
                let here = local.at(seconds).1 == offset;
                let fixed = Zone::Fixed { name: String::new(), offset };
                Time::new(seconds, nanos, if here { local.clone() } else { fixed })
            }
            Some(ReadZone::Name(name)) => in_zone_called(name, &utc, local),
        })
    }

    fn month_and_day(&self, year_day: i64) -> Result<(i64, i64), &'static str> {
        let year_length = days_of(self.year + 1, 1) - days_of(self.year, 1);
        if !(1..=year_length).contains(&year_day) {
            return Err("day-of-year out of range");
        }
        let first = days_of(self.year, 1);
        let (_, month, day) = super::date_of(first + year_day - 1);
        if self.month.is_some_and(|known| known != month) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|known| known != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }
}

/// The wall-clock time `utc` in a zone known only by its abbreviation.
fn in_zone_called(name: String, utc: &Time, local: &Zone) -> Time {
    const HALF_YEAR: i64 = 182 * 86_400;
    for distance in [0, HALF_YEAR, -HALF_YEAR] {
        let (known, offset) = local.at(utc.seconds + distance);
        if known == name {
            return Time::new(utc.seconds - offset, utc.nanos, local.clone());
        }
    }
    let hours = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i64>().ok());
    // As in Go, the time is taken as UTC and shown in a fabricated zone.
    utc.within(Zone::Fixed { name, offset: hours.unwrap_or(0) * 3600 })
}

fn zone_name_length(text: &[u8]) -> Option<usize> {
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_length(rest));
    }
    if text.len() >= 3 && matches!(text.first(), Some(b'+' | b'-')) {
        return Some(signed_offset_length(text)).filter(|length| *length > 0);
    }
    let letters = text.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    match letters {
        3 => Some(3),
        4 if text.get(3) == Some(&b'T') || text.starts_with(b"WITA") => Some(4),
        5 if text.get(4) == Some(&b'T') => Some(5),
        _ => None,
    }
}

fn signed_offset_length(text: &[u8]) -> usize {
    let Some((b'+' | b'-', rest)) = text.split_first() else { return 0 };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let hours = rest.get(..digits).and_then(|digits| decimal(digits).ok());
    if digits > 0 && hours.is_some_and(|hours| hours <= 23) { digits + 1 } else { 0 }
}

fn decimal(digits: &[u8]) -> Result<i64, FieldError> {
    let plain = digits.iter().all(u8::is_ascii_digit);
    lossy(digits).parse().ok().filter(|_| plain).ok_or(FieldError::Value)
}

fn signed(text: &[u8]) -> Result<i64, FieldError> {
    lossy(text).parse().map_err(|_| FieldError::Value)
}

/// `.5` or `,5`.
fn nanoseconds(text: &[u8]) -> Result<u32, FieldError> {
    let Some((b'.' | b',', digits)) = text.split_first() else { return Err(FieldError::Value) };
    let digits = digits.get(..9).unwrap_or(digits);
    let n = decimal(digits)?;
    let scale = 10i64.pow(u32::try_from(9 - digits.len()).unwrap_or(0));
    u32::try_from(n * scale).map_err(|_| FieldError::Value)
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    text.get(spaces..).unwrap_or_default()
}
