//! Dates and timestamps of YAML 1.1.

use muster_core::value::YamlTimestamp;

/// Parses a date or a timestamp; `None` if the text is neither, an error message if it is out of range.
pub(super) fn read(text: &str) -> Option<Result<YamlTimestamp, String>> {
    let mut cursor = Cursor(text);
    let year = cursor.digits(4, 4)?;
    cursor.take('-')?;
    let month = cursor.digits(1, 2)?;
    cursor.take('-')?;
    let day = cursor.digits(1, 2)?;
    if cursor.0.is_empty() {
        // A date without a time needs all its digits.
        return (text.len() == 10).then(|| Ok(date(year, month, day)?.stamp()));
    }
    let clock = clock(&mut cursor)?;
    let zone = zone(&mut cursor)?;
    cursor.0.is_empty().then(|| moment(&date(year, month, day)?, &clock, &zone))
}

struct Date {
    year: u32,
    month: u32,
    day: u32,
}

struct Clock {
    hour: u32,
    minute: u32,
    second: u32,
    micros: u32,
}

enum Zone {
    Unknown,
    /// The offset from UTC.
    Offset {
        sign: char,
        minutes: u32,
    },
}

fn clock(cursor: &mut Cursor<'_>) -> Option<Clock> {
    if cursor.take('T').or_else(|| cursor.take('t')).is_none() && !cursor.blanks() {
        return None;
    }
    let hour = cursor.digits(1, 2)?;
    cursor.take(':')?;
    let minute = cursor.digits(2, 2)?;
    cursor.take(':')?;
    let second = cursor.digits(2, 2)?;
    let micros = match cursor.take('.') {
        Some(()) => cursor.micros(),
        None => 0,
    };
    Some(Clock { hour, minute, second, micros })
}

fn zone(cursor: &mut Cursor<'_>) -> Option<Zone> {
    if cursor.0.is_empty() {
        return Some(Zone::Unknown);
    }
    cursor.blanks();
    if cursor.take('Z').is_some() {
        return Some(Zone::Offset { sign: '+', minutes: 0 });
    }
    let sign = match cursor.take('-') {
        Some(()) => '-',
        None => cursor.take('+').map(|()| '+')?,
    };
    let hours = cursor.digits(1, 2)?;
    let minutes = match cursor.take(':') {
        Some(()) => cursor.digits(2, 2)?,
        None => 0,
    };
    Some(Zone::Offset { sign, minutes: hours * 60 + minutes })
}

fn date(year: u32, month: u32, day: u32) -> Result<Date, String> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err("month must be in 1..12".to_owned()),
    };
    if year == 0 {
        return Err("year 0 is out of range".to_owned());
    }
    if !(1..=days).contains(&day) {
        return Err("day is out of range for month".to_owned());
    }
    Ok(Date { year, month, day })
}

impl Date {
    fn stamp(&self) -> YamlTimestamp {
        let text = self.to_string();
        YamlTimestamp { iso: text.clone(), text, date_only: true }
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

fn moment(date: &Date, clock: &Clock, zone: &Zone) -> Result<YamlTimestamp, String> {
    for (name, value, limit) in
        [("hour", clock.hour, 23), ("minute", clock.minute, 59), ("second", clock.second, 59)]
    {
        if value > limit {
            return Err(format!("{name} must be in 0..{limit}"));
        }
    }
    let mut time = format!("{:02}:{:02}:{:02}", clock.hour, clock.minute, clock.second);
    if clock.micros > 0 {
        time = format!("{time}.{:06}", clock.micros);
    }
    let (text_zone, iso_zone) = match zone {
        Zone::Unknown => (String::new(), String::new()),
        Zone::Offset { minutes: 0, .. } => ("+00:00".to_owned(), "Z".to_owned()),
        Zone::Offset { minutes, .. } if *minutes >= 24 * 60 => {
            return Err("a time zone is less than a day from UTC".to_owned());
        }
        Zone::Offset { sign, minutes } => {
            let zone = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            (zone.clone(), zone)
        }
    };
    Ok(YamlTimestamp {
        text: format!("{date} {time}{text_zone}"),
        iso: format!("{date}T{time}{iso_zone}"),
        date_only: false,
    })
}

/// The unparsed text.
struct Cursor<'t>(&'t str);

impl Cursor<'_> {
    fn take(&mut self, expected: char) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Skips blanks; returns whether there were any.
    fn blanks(&mut self) -> bool {
        let rest = self.0.trim_start_matches([' ', '\t']);
        let any = rest.len() < self.0.len();
        self.0 = rest;
        any
    }

    /// Reads digits, at least `least` and at most `most`.
    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        if count < least { None } else { digits.parse().ok() }
    }

    /// A fraction of a second, truncated to microseconds.
    fn micros(&mut self) -> u32 {
        let mut micros = 0;
        let mut place = 100_000;
        while let Some(digit) = self.digits(1, 1) {
            micros += digit * place;
            place /= 10;
        }
        micros
    }
}
