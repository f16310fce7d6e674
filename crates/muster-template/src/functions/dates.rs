//! Dates and durations.

use std::rc::Rc;

use super::{Args, Function, ParamType, plain};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    time::{Time, Zone, duration, layout, parse},
    value::{IntKind, Value},
};

const ANY: ParamType = ParamType::Any;
const TEXT: ParamType = ParamType::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("now", &[], |state, _| Ok(value(now(state)))),
    plain("ago", &[ANY], |state, args| {
        let since = now(state).since(&moment(state, args.any(0)));
        state.text(duration::format(duration::round(since, 1_000_000_000)))
    }),
    plain("date", &[TEXT, ANY], |state, args| {
        formatted(state, args.bytes(0), args.any(1), "Local")
    }),
    plain("dateInZone", &[TEXT, ANY, TEXT], in_zone),
    plain("date_in_zone", &[TEXT, ANY, TEXT], in_zone),
    plain("htmlDate", &[ANY], |state, args| formatted(state, HTML, args.any(0), "Local")),
    plain("htmlDateInZone", &[ANY, TEXT], |state, args| {
        formatted(state, HTML, args.any(0), &args.str(1))
    }),
    plain("dateModify", &[TEXT, ParamType::Time], modify_if_possible),
    plain("date_modify", &[TEXT, ParamType::Time], modify_if_possible),
    plain("mustDateModify", &[TEXT, ParamType::Time], modify),
    plain("must_date_modify", &[TEXT, ParamType::Time], modify),
    plain("toDate", &[TEXT; 2], |state, args| {
        let time = parse::parse(args.bytes(0), args.bytes(1), &local(state));
        Ok(value(time.unwrap_or_else(|_| Time::zero())))
    }),
    plain("mustToDate", &[TEXT; 2], |state, args| {
        let time = parse::parse(args.bytes(0), args.bytes(1), &local(state));
        time.map(value).map_err(EvalError::new)
    }),
    plain("unixEpoch", &[ParamType::Time], |state, args| {
        state.text(time(args, 0).map_or(0, |time| time.seconds).to_string())
    }),
    plain("duration", &[ANY], |state, args| {
        let seconds = match args.any(0) {
            Value::Int(n, IntKind::Int64) => *n,
            Value::Text(text) => decimal(&text.to_str()),
            _ => 0,
        };
        state.text(duration::format(seconds.wrapping_mul(1_000_000_000)))
    }),
    plain("durationRound", &[ANY], |state, args| {
        let nanoseconds = match args.any(0) {
            Value::Int(n, IntKind::Int64) => *n,
            Value::Text(text) => duration::parse(&text.to_str()).unwrap_or(0),
            Value::Time(time) => now(state).since(time),
            _ => 0,
        };
        state.text(rounded(nanoseconds.unsigned_abs()))
    }),
];

const HTML: &[u8] = b"2006-01-02";

fn value(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

fn time(args: Args<'_>, i: usize) -> Option<&Time> {
    if let Value::Time(time) = args.any(i) { Some(time) } else { None }
}

/// Go's `Local` zone.
pub(crate) fn local(state: &RenderState<'_>) -> Zone {
    Zone::named(state.cx.zone).unwrap_or(Zone::Utc)
}

fn now(state: &RenderState<'_>) -> Time {
    let (seconds, nanos) = state.cx.now;
    Time::new(seconds, nanos.min(999_999_999), local(state))
}

/// Converts a time or Unix seconds; anything else gives the current time.
fn moment(state: &RenderState<'_>, value: &Value) -> Time {
    match value {
        Value::Time(time) => Time::clone(time),
        Value::Int(seconds, IntKind::Int | IntKind::Int64) => Time::new(*seconds, 0, local(state)),
        _ => now(state),
    }
}

fn in_zone(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    formatted(state, args.bytes(0), args.any(1), &args.str(2))
}

fn formatted(state: &RenderState<'_>, format: &[u8], date: &Value, zone: &str) -> EvalResult {
    let zone = if zone == "Local" { local(state) } else { Zone::named(zone).unwrap_or(Zone::Utc) };
    // Formatting searches for every layout element at each position of the layout.
    state.charge_scan(format.len().saturating_mul(32))?;
    state.text(layout::format(&moment(state, date).within(zone), format))
}

fn modify(_: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let change = duration::parse(&args.str(0)).map_err(EvalError::new)?;
    Ok(time(args, 1).map_or(Value::Nil, |time| value(time.plus(change))))
}

fn modify_if_possible(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    match modify(state, args) {
        Err(EvalError::Message(_)) => Ok(args.any(1).clone()),
        answer => answer,
    }
}

/// `strconv.ParseInt(text, 10, 64)`, saturating on overflow.
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
