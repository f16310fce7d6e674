//! Dates and durations.

use std::rc::Rc;

use super::{Args, Function, Type, plain};
use crate::{
    run::{Answer, Fail, Run},
    time::{Time, Zone, duration, layout, parse},
    value::{IntKind, Value},
};

const ANY: Type = Type::Any;
const TEXT: Type = Type::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("now", &[], |run, _| Ok(value(now(run)))),
    plain("ago", &[ANY], |run, args| {
        let since = now(run).since(&moment(run, args.any(0)));
        run.text(duration::shown(duration::round(since, 1_000_000_000)))
    }),
    plain("date", &[TEXT, ANY], |run, args| formatted(run, args.bytes(0), args.any(1), "Local")),
    plain("dateInZone", &[TEXT, ANY, TEXT], in_zone),
    plain("date_in_zone", &[TEXT, ANY, TEXT], in_zone),
    plain("htmlDate", &[ANY], |run, args| formatted(run, HTML, args.any(0), "Local")),
    plain("htmlDateInZone", &[ANY, TEXT], |run, args| {
        formatted(run, HTML, args.any(0), &args.str(1))
    }),
    plain("dateModify", &[TEXT, Type::Time], modify_if_possible),
    plain("date_modify", &[TEXT, Type::Time], modify_if_possible),
    plain("mustDateModify", &[TEXT, Type::Time], modify),
    plain("must_date_modify", &[TEXT, Type::Time], modify),
    plain("toDate", &[TEXT; 2], |run, args| {
        let time = parse::parse(args.bytes(0), args.bytes(1), &local(run));
        Ok(value(time.unwrap_or_else(|_| Time::zero())))
    }),
    plain("mustToDate", &[TEXT; 2], |run, args| {
        let time = parse::parse(args.bytes(0), args.bytes(1), &local(run));
        time.map(value).map_err(Fail::new)
    }),
    plain("unixEpoch", &[Type::Time], |run, args| {
        run.text(time(args, 0).map_or(0, |time| time.seconds).to_string())
    }),
    plain("duration", &[ANY], |run, args| {
        let seconds = match args.any(0) {
            Value::Int(n, IntKind::Int64) => *n,
            Value::Text(text) => decimal(&text.to_str()),
            _ => 0,
        };
        run.text(duration::shown(seconds.wrapping_mul(1_000_000_000)))
    }),
    plain("durationRound", &[ANY], |run, args| {
        let nanoseconds = match args.any(0) {
            Value::Int(n, IntKind::Int64) => *n,
            Value::Text(text) => duration::parse(&text.to_str()).unwrap_or(0),
            Value::Time(time) => now(run).since(time),
            _ => 0,
        };
        run.text(rounded(nanoseconds.unsigned_abs()))
    }),
];

const HTML: &[u8] = b"2006-01-02";

fn value(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

fn time(args: Args<'_>, i: usize) -> Option<&Time> {
    if let Value::Time(time) = args.any(i) { Some(time) } else { None }
}

/// What Go calls `Local`.
pub(crate) fn local(run: &Run<'_>) -> Zone {
    Zone::named(run.cx.zone).unwrap_or(Zone::Utc)
}

fn now(run: &Run<'_>) -> Time {
    let (seconds, nanos) = run.cx.now;
    Time::new(seconds, nanos.min(999_999_999), local(run))
}

/// A time, seconds since 1970, or now.
fn moment(run: &Run<'_>, value: &Value) -> Time {
    match value {
        Value::Time(time) => Time::clone(time),
        Value::Int(seconds, IntKind::Int | IntKind::Int64) => Time::new(*seconds, 0, local(run)),
        _ => now(run),
    }
}

fn in_zone(run: &Run<'_>, args: Args<'_>) -> Answer {
    formatted(run, args.bytes(0), args.any(1), &args.str(2))
}

fn formatted(run: &Run<'_>, format: &[u8], date: &Value, zone: &str) -> Answer {
    let zone = if zone == "Local" { local(run) } else { Zone::named(zone).unwrap_or(Zone::Utc) };
    // Every letter of a layout is looked at as the start of every chunk.
    run.read(format.len().saturating_mul(32))?;
    run.text(layout::format(&moment(run, date).within(zone), format))
}

fn modify(_: &Run<'_>, args: Args<'_>) -> Answer {
    let change = duration::parse(&args.str(0)).map_err(Fail::new)?;
    Ok(time(args, 1).map_or(Value::Nil, |time| value(time.plus(change))))
}

fn modify_if_possible(run: &Run<'_>, args: Args<'_>) -> Answer {
    match modify(run, args) {
        Err(Fail::Said(_)) => Ok(args.any(1).clone()),
        answer => answer,
    }
}

/// `strconv.ParseInt(text, 10, 64)`, where too large is the largest.
fn decimal(text: &str) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    let too_large = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    text.parse().unwrap_or(too_large)
}

fn rounded(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let unit = units.iter().find(|(unit, _)| nanoseconds > *unit);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", nanoseconds / unit))
}
