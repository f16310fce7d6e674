//! Go methods of values: times, durations, months and versions.

use std::rc::Rc;

use super::{
    format::stringer_text,
    functions::{Args, Call, Function, ParamType},
    semver::Version,
    state::{EvalError, EvalResult, RenderState},
    time::{Civil, Time, Zone, duration, layout},
    value::{IntKind, UintKind, Value},
};

/// The method `name` of `receiver`; it takes the receiver as its first argument.
pub(crate) fn find(receiver: &Value, name: &str) -> Option<&'static Function> {
    let methods = match receiver {
        Value::Time(_) => TIME,
        Value::Version(version) if version.by_value => VERSION,
        Value::Version(_) => {
            let pointers = POINTED_VERSION.iter().find(|method| method.name == name);
            return pointers.or_else(|| VERSION.iter().find(|method| method.name == name));
        }
        Value::Int(_, IntKind::Duration) => DURATION,
        Value::Int(_, IntKind::Month | IntKind::Weekday) => NAMED,
        _ => return None,
    };
    methods.iter().find(|method| method.name == name)
}

type Method = fn(&RenderState<'_>, Args<'_>) -> EvalResult;

const fn method(name: &'static str, takes: &'static [ParamType], call: Method) -> Function {
    Function { name, takes, rest: None, call: Call::Plain(call) }
}

const NAMED: &[Function] = &[method("String", &[], words)];

const DURATION: &[Function] = &[
    method("String", &[], words),
    method("Hours", &[], |_, args| Ok(Value::Float(args.int(0) as f64 / 3.6e12))),
    method("Minutes", &[], |_, args| Ok(Value::Float(args.int(0) as f64 / 6e10))),
    method("Seconds", &[], |_, args| Ok(Value::Float(args.int(0) as f64 / 1e9))),
    method("Milliseconds", &[], |_, args| Ok(Value::int64(args.int(0) / 1_000_000))),
    method("Microseconds", &[], |_, args| Ok(Value::int64(args.int(0) / 1_000))),
    method("Nanoseconds", &[], |_, args| Ok(Value::int64(args.int(0)))),
    method("Abs", &[], |_, args| Ok(Value::Int(args.int(0).saturating_abs(), IntKind::Duration))),
    method("Round", &[ParamType::Duration], |_, args| {
        Ok(Value::Int(duration::round(args.int(0), args.int(1)), IntKind::Duration))
    }),
    method("Truncate", &[ParamType::Duration], |_, args| {
        let (n, to) = (args.int(0), args.int(1));
        Ok(Value::Int(if to <= 0 { n } else { n - n % to }, IntKind::Duration))
    }),
];

const TIME: &[Function] = &[
    method("String", &[], words),
    method("Format", &[ParamType::Text], |state, args| {
        state.charge_scan(args.bytes(1).len().saturating_mul(32))?;
        on_time(args, |time| state.text(layout::format(time, args.bytes(1))))
    }),
    method("Unix", &[], |_, args| on_time(args, |time| Ok(Value::int64(time.seconds)))),
    method("UnixMilli", &[], |_, args| since_1970(args, 1_000_000)),
    method("UnixMicro", &[], |_, args| since_1970(args, 1_000)),
    method("UnixNano", &[], |_, args| since_1970(args, 1)),
    method("Year", &[], |_, args| civil(args, |civil| civil.year)),
    method("Month", &[], |_, args| {
        on_time(args, |time| Ok(Value::Int(time.civil().month, IntKind::Month)))
    }),
    method("Day", &[], |_, args| civil(args, |civil| civil.day)),
    method("Weekday", &[], |_, args| {
        on_time(args, |time| Ok(Value::Int(time.civil().weekday, IntKind::Weekday)))
    }),
    method("YearDay", &[], |_, args| civil(args, |civil| civil.year_day)),
    method("Hour", &[], |_, args| civil(args, |civil| civil.hour)),
    method("Minute", &[], |_, args| civil(args, |civil| civil.minute)),
    method("Second", &[], |_, args| civil(args, |civil| civil.second)),
    method("Nanosecond", &[], |_, args| on_time(args, |time| Ok(Value::int(time.nanos.into())))),
    method("UTC", &[], |_, args| on_time(args, |time| Ok(made(time.within(Zone::Utc))))),
    method("Local", &[], |state, args| {
        let local = Zone::named(state.cx.zone).unwrap_or(Zone::Utc);
        on_time(args, |time| Ok(made(time.within(local.clone()))))
    }),
    method("IsZero", &[], |_, args| on_time(args, |time| Ok(time.is_zero().into()))),
    method("Before", &[ParamType::Time], |_, args| compared(args, |difference| difference < 0)),
    method("After", &[ParamType::Time], |_, args| compared(args, |difference| difference > 0)),
    method("Equal", &[ParamType::Time], |_, args| compared(args, |difference| difference == 0)),
    method("Compare", &[ParamType::Time], |_, args| {
        on_times(args, |one, other| Value::int(one.nanoseconds().cmp(&other.nanoseconds()) as i64))
    }),
    method("Sub", &[ParamType::Time], |_, args| {
        on_times(args, |one, other| Value::Int(one.since(other), IntKind::Duration))
    }),
    method("Add", &[ParamType::Duration], |_, args| {
        on_time(args, |time| Ok(made(time.plus(args.int(1)))))
    }),
    method("AddDate", &[ParamType::Int; 3], |_, args| {
        on_time(args, |time| Ok(add_date(time, args)))
    }),
    method("Truncate", &[ParamType::Duration], |_, args| rounded(args, false)),
    method("Round", &[ParamType::Duration], |_, args| rounded(args, true)),
];

const VERSION: &[Function] = &[
    method("String", &[], words),
    method("Major", &[], |_, args| number(args, |v| v.major)),
    method("Minor", &[], |_, args| number(args, |v| v.minor)),
    method("Patch", &[], |_, args| number(args, |v| v.patch)),
    method("Prerelease", &[], |state, args| on_version(args, |v| state.text(&*v.pre))),
    method("Metadata", &[], |state, args| on_version(args, |v| state.text(&*v.metadata))),
    method("IncMajor", &[], |_, args| {
        derived(args, |v| v.derived((v.major.saturating_add(1), 0, 0), "", ""))
    }),
    method("IncMinor", &[], |_, args| {
        derived(args, |v| v.derived((v.major, v.minor.saturating_add(1), 0), "", ""))
    }),
    method("IncPatch", &[], |_, args| {
        let step = |v: &Version| u64::from(v.pre.is_empty());
        derived(args, |v| v.derived((v.major, v.minor, v.patch.saturating_add(step(v))), "", ""))
    }),
    method("SetPrerelease", &[ParamType::Text], |_, args| {
        derived(args, |v| v.derived((v.major, v.minor, v.patch), &args.str(1), &v.metadata))
    }),
    method("SetMetadata", &[ParamType::Text], |_, args| {
        derived(args, |v| v.derived((v.major, v.minor, v.patch), &v.pre, &args.str(1)))
    }),
];

/// Methods of `*semver.Version`, which derived versions lack.
const POINTED_VERSION: &[Function] = &[
    method("Original", &[], |state, args| on_version(args, |v| state.text(&*v.original))),
    method("Compare", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| Value::int(one.compare(other) as i64))
    }),
    method("Equal", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| one.compare(other).is_eq().into())
    }),
    method("LessThan", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| one.compare(other).is_lt().into())
    }),
    method("LessThanEqual", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| one.compare(other).is_le().into())
    }),
    method("GreaterThan", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| one.compare(other).is_gt().into())
    }),
    method("GreaterThanEqual", &[ParamType::Version], |_, args| {
        on_versions(args, |one, other| one.compare(other).is_ge().into())
    }),
];

fn words(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    state.text(stringer_text(args.any(0)).unwrap_or_default())
}

fn made(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

fn on_time(args: Args<'_>, answer: impl FnOnce(&Time) -> EvalResult) -> EvalResult {
    if let Value::Time(time) = args.any(0) { answer(time) } else { Ok(Value::Nil) }
}

fn on_times(args: Args<'_>, answer: fn(&Time, &Time) -> Value) -> EvalResult {
    match (args.any(0), args.any(1)) {
        (Value::Time(one), Value::Time(other)) => Ok(answer(one, other)),
        _ => Ok(Value::Nil),
    }
}

fn compared(args: Args<'_>, answer: fn(i128) -> bool) -> EvalResult {
    match (args.any(0), args.any(1)) {
        (Value::Time(one), Value::Time(other)) => {
            Ok(answer(one.nanoseconds() - other.nanoseconds()).into())
        }
        _ => Ok(Value::Nil),
    }
}

fn since_1970(args: Args<'_>, unit: i128) -> EvalResult {
    on_time(args, |time| Ok(Value::int64(time.nanoseconds().div_euclid(unit) as i64)))
}

fn civil(args: Args<'_>, part: fn(&Civil) -> i64) -> EvalResult {
    on_time(args, |time| Ok(Value::int(part(&time.civil()))))
}

fn add_date(time: &Time, args: Args<'_>) -> Value {
    let civil = time.civil();
    let date = (
        civil.year.saturating_add(args.int(1)),
        civil.month.saturating_add(args.int(2)),
        civil.day.saturating_add(args.int(3)),
    );
    made(Time::of(date, (civil.hour, civil.minute, civil.second), time.nanos, time.zone.clone()))
}

/// Go rounds relative to the year 1, not to 1970.
fn rounded(args: Args<'_>, nearest: bool) -> EvalResult {
    on_time(args, |time| {
        let to = i128::from(args.int(1));
        if to <= 0 {
            return Ok(args.any(0).clone());
        }
        let nanoseconds = time.nanoseconds();
        let rest = (nanoseconds - Time::zero().nanoseconds()).rem_euclid(to);
        let up = nearest && rest * 2 >= to;
        Ok(made(time.at_nanoseconds(nanoseconds - rest + if up { to } else { 0 })))
    })
}

fn on_version(args: Args<'_>, answer: impl FnOnce(&Version) -> EvalResult) -> EvalResult {
    if let Value::Version(version) = args.any(0) { answer(version) } else { Ok(Value::Nil) }
}

fn number(args: Args<'_>, part: fn(&Version) -> u64) -> EvalResult {
    on_version(args, |version| Ok(Value::Uint(part(version), UintKind::Uint64)))
}

fn derived(args: Args<'_>, derive: impl FnOnce(&Version) -> Version) -> EvalResult {
    on_version(args, |version| {
        let next = derive(version);
        // Reject parts that are not valid in a version.
        Version::parse(&next.to_string()).map_err(EvalError::new)?;
        Ok(Value::Version(Rc::new(next)))
    })
}

fn on_versions(args: Args<'_>, answer: fn(&Version, &Version) -> Value) -> EvalResult {
    match (args.any(0), args.any(1)) {
        (Value::Version(one), Value::Version(other)) => Ok(answer(one, other)),
        _ => {
            Err(EvalError::new("runtime error: invalid memory address or nil pointer dereference"))
        }
    }
}
