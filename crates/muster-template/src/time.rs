//! Go's `time.Time`: an instant and the zone it is shown in.
//!
//! The zone database is linked in: no file is read, and `Local` is the zone of the context.

use std::{fmt, sync::LazyLock};

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

pub mod duration;
pub(crate) mod layout;
pub(crate) mod parse;

/// An instant, shown in a zone.
#[derive(Debug, Clone)]
pub(crate) struct Time {
    /// Unix time, within some hundred million years of 1970.
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    pub(crate) zone: Zone,
}

/// A time zone.
#[derive(Debug, Clone)]
pub(crate) enum Zone {
    Utc,
    Fixed { name: String, offset: i64 },
    Named(TimeZone),
}

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const DAY: i64 = 86_400;
/// Unix time of Go's zero time, the start of the year 1.
const ZERO: i64 = -62_135_596_800;
/// The bound of calendar arithmetic.
const FAR: i64 = 1 << 54;

impl Zone {
    /// The zone of that IANA name; `None` if there is none.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if matches!(name, "" | "UTC") {
            return Some(Self::Utc);
        }
        let zone = ZONES.get(name).ok()?;
        // Go looks names up as files, so they are case-sensitive.
        (zone.iana_name() == Some(name)).then_some(Self::Named(zone))
    }

    /// The abbreviation and the offset in effect at `seconds`.
    pub(crate) fn at(&self, seconds: i64) -> (String, i64) {
        match self {
            Self::Utc => ("UTC".to_owned(), 0),
            Self::Fixed { name, offset } => (name.clone(), *offset),
            Self::Named(zone) => {
                let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let known = Timestamp::from_second(seconds.clamp(first, last));
                let info = zone.to_offset_info(known.unwrap_or_default());
                (info.abbreviation().to_owned(), info.offset().seconds().into())
            }
        }
    }

    /// The instant of the wall-clock time `wall` in this zone.
    fn instant(&self, wall: i64) -> i64 {
        let (_, guess) = self.at(wall);
        let (_, offset) = self.at(wall - guess);
        wall - offset
    }
}

/// A civil date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    /// From 1.
    pub(crate) year_day: i64,
    /// From 0, Sunday.
    pub(crate) weekday: i64,
}

impl Time {
    pub(crate) fn new(seconds: i64, nanos: u32, zone: Zone) -> Self {
        Self { seconds: seconds.clamp(-FAR, FAR), nanos, zone }
    }

    /// The instant of a date and time; parts out of range are normalised.
    pub(crate) fn of(
        date: (i64, i64, i64),
        clock: (i64, i64, i64),
        nanos: u32,
        zone: Zone,
    ) -> Self {
        let (year, month, day) = date;
        let year = year.clamp(-FAR / DAY / 400, FAR / DAY / 400);
        let months = month.clamp(-FAR / DAY, FAR / DAY) - 1;
        let (year, month) = (year + months.div_euclid(12), months.rem_euclid(12) + 1);
        let days = days_of(year, month) + day.clamp(-FAR / DAY, FAR / DAY) - 1;
        let (hour, minute, second) = clock;
        let wall = days * DAY + hour * 3600 + minute * 60 + second;
        let seconds = zone.instant(wall);
        Self::new(seconds, nanos, zone)
    }

    /// Go's zero time.
    pub(crate) fn zero() -> Self {
        Self::new(ZERO, 0, Zone::Utc)
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.seconds == ZERO && self.nanos == 0
    }

    pub(crate) fn civil(&self) -> Civil {
        let (_, offset) = self.zone.at(self.seconds);
        let wall = self.seconds + offset;
        let (days, clock) = (wall.div_euclid(DAY), wall.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            hour: clock / 3600,
            minute: clock / 60 % 60,
            second: clock % 60,
            year_day: days - days_of(year, 1) + 1,
            // 1 January 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// Nanoseconds since 1970, for comparing and subtracting.
    pub(crate) fn nanoseconds(&self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// This instant plus some nanoseconds.
    pub(crate) fn plus(&self, nanoseconds: i64) -> Self {
        self.at_nanoseconds(self.nanoseconds() + i128::from(nanoseconds))
    }

    /// Another instant in the same zone.
    pub(crate) fn at_nanoseconds(&self, nanoseconds: i128) -> Self {
        let seconds = nanoseconds.div_euclid(1_000_000_000);
        let nanos = nanoseconds.rem_euclid(1_000_000_000);
        let seconds = i64::try_from(seconds).unwrap_or(if seconds < 0 { -FAR } else { FAR });
        Self::new(seconds, u32::try_from(nanos).unwrap_or(0), self.zone.clone())
    }

    /// The duration since `other`, saturating.
    pub(crate) fn since(&self, other: &Self) -> i64 {
        let difference = self.nanoseconds() - other.nanoseconds();
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    pub(crate) fn within(&self, zone: Zone) -> Self {
        Self { zone, ..self.clone() }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = layout::format(self, b"2006-01-02 15:04:05.999999999 -0700 MST");
        f.write_str(&super::text::lossy(&bytes))
    }
}

/// Days from 1970 to the first of a month, in the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(crate) fn month_name(n: i64) -> String {
    let name = usize::try_from(n - 1).ok().and_then(|i| MONTHS.get(i));
    name.map_or_else(|| format!("%!Month({n})"), |name| (*name).to_owned())
}

pub(crate) fn weekday_name(n: i64) -> String {
    let name = usize::try_from(n).ok().and_then(|i| WEEKDAYS.get(i));
    name.map_or_else(|| format!("%!Weekday({n})"), |name| (*name).to_owned())
}
