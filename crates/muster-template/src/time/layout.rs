//! Go's time layouts: formats written as the reference time, 2006-01-02 15:04:05 -0700 MST.

use std::fmt::Write as _;

use super::{Civil, MONTHS, Time, WEEKDAYS};

/// An element of a layout that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    LowerPm,
    ZoneName,
    /// A numeric zone.
    Offset {
        form: OffsetFormat,
        /// `Z` for UTC.
        iso: bool,
    },
    /// A fraction of a second: number of digits, and separator.
    Fraction {
        digits: usize,
        separator: u8,
        trim: bool,
    },
}

/// How a numeric zone is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetFormat {
    Hours,
    Minutes,
    Seconds,
    ColonMinutes,
    ColonSeconds,
}

/// The elements by their text, longest first where one is a prefix of another.
const SPELLINGS: &[(&[u8], Chunk)] = &[
    (b"January", Chunk::LongMonth),
    (b"Jan", Chunk::Month),
    (b"Monday", Chunk::LongWeekday),
    (b"Mon", Chunk::Weekday),
    (b"MST", Chunk::ZoneName),
    (b"01", Chunk::ZeroMonth),
    (b"02", Chunk::ZeroDay),
    (b"03", Chunk::ZeroHour12),
    (b"04", Chunk::ZeroMinute),
    (b"05", Chunk::ZeroSecond),
    (b"06", Chunk::Year),
    (b"002", Chunk::ZeroYearDay),
    (b"15", Chunk::Hour),
    (b"1", Chunk::NumMonth),
    (b"2006", Chunk::LongYear),
    (b"2", Chunk::Day),
    (b"_2", Chunk::UnderDay),
    (b"__2", Chunk::UnderYearDay),
    (b"3", Chunk::Hour12),
    (b"4", Chunk::Minute),
    (b"5", Chunk::Second),
    (b"PM", Chunk::Pm),
    (b"pm", Chunk::LowerPm),
];

const OFFSETS: &[(&[u8], OffsetFormat)] = &[
    (b"070000", OffsetFormat::Seconds),
    (b"07:00:00", OffsetFormat::ColonSeconds),
    (b"0700", OffsetFormat::Minutes),
    (b"07:00", OffsetFormat::ColonMinutes),
    (b"07", OffsetFormat::Hours),
];

/// The text before the next chunk, the chunk, and what follows it.
pub(crate) fn next_chunk(layout: &[u8]) -> (&[u8], Option<Chunk>, &[u8]) {
    for at in 0..layout.len() {
        let Some((before, here)) = layout.split_at_checked(at) else { break };
        if here.starts_with(b"_2006") {
            // The underscore is literal text before the year.
            let before = layout.get(..=at).unwrap_or(before);
            return (before, Some(Chunk::LongYear), here.get(5..).unwrap_or_default());
        }
        if let Some((chunk, length)) = chunk_at(here) {
            return (before, Some(chunk), here.get(length..).unwrap_or_default());
        }
    }
    (layout, None, &[])
}

fn chunk_at(here: &[u8]) -> Option<(Chunk, usize)> {
    for (spelling, chunk) in SPELLINGS {
        let Some(after) = here.strip_prefix(*spelling) else { continue };
        let goes_on = after.first().is_some_and(u8::is_ascii_lowercase);
        if goes_on && matches!(chunk, Chunk::Month | Chunk::Weekday) {
            continue;
        }
        return Some((*chunk, spelling.len()));
    }
    let (first, after) = here.split_first()?;
    match first {
        b'-' | b'Z' => {
            let (spelling, form) =
                OFFSETS.iter().find(|(spelling, _)| after.starts_with(spelling))?;
            let chunk = Chunk::Offset { form: *form, iso: *first == b'Z' };
            Some((chunk, spelling.len() + 1))
        }
        b'.' | b',' => {
            let digit = *after.first().filter(|digit| matches!(digit, b'0' | b'9'))?;
            let digits = after.iter().take_while(|byte| **byte == digit).count();
            if after.get(digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let chunk = Chunk::Fraction { digits, separator: *first, trim: digit == b'9' };
            Some((chunk, digits + 1))
        }
        _ => None,
    }
}

/// `Time.Format`.
pub(crate) fn format(time: &Time, layout: &[u8]) -> Vec<u8> {
    let civil = time.civil();
    let (name, offset) = time.zone.at(time.seconds);
    let (mut out, mut rest) = (Vec::with_capacity(layout.len() + 10), layout);
    loop {
        let (before, chunk, after) = next_chunk(rest);
        out.extend_from_slice(before);
        let Some(chunk) = chunk else { return out };
        rest = after;
        match chunk {
            Chunk::ZoneName if name.is_empty() => {
                write_offset(&mut out, offset, OffsetFormat::Minutes);
            }
            Chunk::ZoneName => out.extend_from_slice(name.as_bytes()),
            Chunk::Offset { iso: true, .. } if offset == 0 => out.push(b'Z'),
            Chunk::Offset { form, .. } => write_offset(&mut out, offset, form),
            Chunk::Fraction { digits, separator, trim } => {
                write_fraction(&mut out, time.nanos, (digits, separator, trim));
            }
            _ => out.extend_from_slice(civil_text(&civil, chunk).as_bytes()),
        }
    }
}

fn civil_text(civil: &Civil, chunk: Chunk) -> String {
    let mut out = String::new();
    let hour12 = if civil.hour % 12 == 0 { 12 } else { civil.hour % 12 };
    let pm = civil.hour >= 12;
    let month = name(&MONTHS, civil.month - 1);
    let weekday = name(&WEEKDAYS, civil.weekday);
    _ = match chunk {
        Chunk::LongMonth => write!(out, "{month}"),
        Chunk::Month => write!(out, "{month:.3}"),
        Chunk::LongWeekday => write!(out, "{weekday}"),
        Chunk::Weekday => write!(out, "{weekday:.3}"),
        Chunk::NumMonth => write!(out, "{}", civil.month),
        Chunk::ZeroMonth => write!(out, "{:02}", civil.month),
        Chunk::Day => write!(out, "{}", civil.day),
        Chunk::UnderDay => write!(out, "{:2}", civil.day),
        Chunk::ZeroDay => write!(out, "{:02}", civil.day),
        Chunk::UnderYearDay => write!(out, "{:3}", civil.year_day),
        Chunk::ZeroYearDay => write!(out, "{:03}", civil.year_day),
        Chunk::Hour => write!(out, "{:02}", civil.hour),
        Chunk::Hour12 => write!(out, "{hour12}"),
        Chunk::ZeroHour12 => write!(out, "{hour12:02}"),
        Chunk::Minute => write!(out, "{}", civil.minute),
        Chunk::ZeroMinute => write!(out, "{:02}", civil.minute),
        Chunk::Second => write!(out, "{}", civil.second),
        Chunk::ZeroSecond => write!(out, "{:02}", civil.second),
        Chunk::LongYear if civil.year < 0 => write!(out, "-{:04}", -civil.year),
        Chunk::LongYear => write!(out, "{:04}", civil.year),
        Chunk::Year => write!(out, "{:02}", civil.year.abs() % 100),
        Chunk::Pm => write!(out, "{}", if pm { "PM" } else { "AM" }),
        Chunk::LowerPm => write!(out, "{}", if pm { "pm" } else { "am" }),
        Chunk::ZoneName | Chunk::Offset { .. } | Chunk::Fraction { .. } => Ok(()),
    };
    out
}

fn name<'a>(names: &[&'a str], i: i64) -> &'a str {
    usize::try_from(i).ok().and_then(|i| names.get(i)).copied().unwrap_or_default()
}

fn write_offset(out: &mut Vec<u8>, offset: i64, form: OffsetFormat) {
    let sign = if offset / 60 < 0 { '-' } else { '+' };
    let (hours, minutes, seconds) =
        (offset.abs() / 3600, offset.abs() / 60 % 60, offset.abs() % 60);
    let text = match form {
        OffsetFormat::Hours => format!("{sign}{hours:02}"),
        OffsetFormat::Minutes => format!("{sign}{hours:02}{minutes:02}"),
        OffsetFormat::Seconds => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        OffsetFormat::ColonMinutes => format!("{sign}{hours:02}:{minutes:02}"),
        OffsetFormat::ColonSeconds => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_fraction(out: &mut Vec<u8>, nanos: u32, (digits, separator, trim): (usize, u8, bool)) {
    let all = format!("{nanos:09}");
    let kept = all.get(..digits.min(9)).unwrap_or(&all);
    let kept = if trim { kept.trim_end_matches('0') } else { kept };
    if !kept.is_empty() {
        out.push(separator);
        out.extend_from_slice(kept.as_bytes());
    }
}
