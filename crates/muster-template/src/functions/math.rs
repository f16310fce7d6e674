//! Arithmetic: `int64` throughout, or exact decimals in the functions that end in `f`.

use super::{
    Args, Function, ParamType, builtin,
    cast::{to_float, to_int},
    decimal::Decimal,
    plain, variadic,
};
use crate::{
    state::{EvalError, EvalResult, RenderState},
    value::{Element, Value},
};

const ANY: ParamType = ParamType::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("int", &[ANY], |_, args| Ok(Value::int(to_int(args.any(0))))),
    plain("int64", &[ANY], |_, args| Ok(Value::int64(to_int(args.any(0))))),
    plain("float64", &[ANY], |_, args| Ok(Value::Float(to_float(args.any(0))))),
    plain("atoi", &[ParamType::Text], |_, args| Ok(Value::int(atoi(&args.str(0))))),
    plain("toDecimal", &[ANY], |state, args| to_decimal(state, args.any(0))),
    plain("add1", &[ANY], |_, args| Ok(Value::int64(to_int(args.any(0)).wrapping_add(1)))),
    variadic("add", &[], ANY, |_, args| folded(args, 0, i64::wrapping_add)),
    plain("sub", &[ANY; 2], |_, args| folded(args, 1, i64::wrapping_sub)),
    variadic("mul", &[ANY], ANY, |_, args| folded(args, 1, i64::wrapping_mul)),
    plain("div", &[ANY; 2], |_, args| divided(args, i64::wrapping_div)),
    plain("mod", &[ANY; 2], |_, args| divided(args, i64::wrapping_rem)),
    variadic("max", &[ANY], ANY, |_, args| folded(args, 1, i64::max)),
    variadic("biggest", &[ANY], ANY, |_, args| folded(args, 1, i64::max)),
    variadic("min", &[ANY], ANY, |_, args| folded(args, 1, i64::min)),
    variadic("maxf", &[ANY], ANY, |_, args| folded_floats(args, go_max)),
    variadic("minf", &[ANY], ANY, |_, args| folded_floats(args, |a, b| -go_max(-a, -b))),
    plain("add1f", &[ANY], |state, args| {
        decimals(state, args.any(0), &[Value::int(1)], |a, b| Ok(a.add(b)))
    }),
    variadic("addf", &[], ANY, |state, args| {
        decimals(state, &Value::Float(0.0), args.rest(0), |a, b| Ok(a.add(b)))
    }),
    variadic("subf", &[ANY], ANY, |state, args| {
        decimals(state, args.any(0), args.rest(1), |a, b| Ok(a.sub(b)))
    }),
    variadic("mulf", &[ANY], ANY, |state, args| {
        decimals(state, args.any(0), args.rest(1), |a, b| Ok(a.mul(b)))
    }),
    variadic("divf", &[ANY], ANY, |state, args| {
        decimals(state, args.any(0), args.rest(1), Decimal::div)
    }),
    plain("ceil", &[ANY], |_, args| Ok(Value::Float(to_float(args.any(0)).ceil()))),
    plain("floor", &[ANY], |_, args| Ok(Value::Float(to_float(args.any(0)).floor()))),
    variadic("round", &[ANY, ParamType::Int], ParamType::Float, |_, args| Ok(round(args))),
    plain("until", &[ParamType::Int], |state, args| {
        let count = args.int(0);
        numbers(state, 0, count, if count < 0 { -1 } else { 1 })
    }),
    plain("untilStep", &[ParamType::Int; 3], |state, args| {
        numbers(state, args.int(0), args.int(1), args.int(2))
    }),
    variadic("seq", &[], ParamType::Int, seq),
];

/// Folds the arguments, starting with the first, or with 0 when `fixed` allows none.
fn folded(args: Args<'_>, fixed: usize, fold: fn(i64, i64) -> i64) -> EvalResult {
    let first = if fixed == 0 { 0 } else { to_int(args.any(0)) };
    let folded = args.rest(fixed).iter().map(to_int).fold(first, fold);
    Ok(Value::int64(folded))
}

fn divided(args: Args<'_>, divide: fn(i64, i64) -> i64) -> EvalResult {
    match to_int(args.any(1)) {
        0 => Err(EvalError::new("runtime error: integer divide by zero")),
        divisor => Ok(Value::int64(divide(to_int(args.any(0)), divisor))),
    }
}

fn folded_floats(args: Args<'_>, fold: fn(f64, f64) -> f64) -> EvalResult {
    let folded = args.rest(1).iter().map(to_float).fold(to_float(args.any(0)), fold);
    Ok(Value::Float(folded))
}

/// Go's `math.Max`: NaN wins, unless the other is infinite.
fn go_max(a: f64, b: f64) -> f64 {
    let infinite = a == f64::INFINITY || b == f64::INFINITY;
    if !infinite && (a.is_nan() || b.is_nan()) { f64::NAN } else { a.max(b) }
}

fn decimals(
    state: &RenderState<'_>,
    first: &Value,
    others: &[Value],
    fold: fn(&Decimal, &Decimal) -> EvalResult<Decimal>,
) -> EvalResult {
    let mut result = Decimal::new(to_float(first))?;
    for (i, other) in others.iter().enumerate() {
        // The digits of a product grow with every factor.
        state.charge_steps(i + 1)?;
        result = fold(&result, &Decimal::new(to_float(other))?)?;
    }
    Ok(Value::Float(result.to_float()))
}

fn round(args: Args<'_>) -> Value {
    let up_from = if let Some(Value::Float(n)) = args.rest(2).first() { *n } else { 0.5 };
    let power = 10f64.powf(args.int(1) as f64);
    let digit = power * to_float(args.any(0));
    let rounded = if digit.fract() >= up_from { digit.ceil() } else { digit.floor() };
    Value::Float(rounded / power)
}

fn atoi(text: &str) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // Overflow saturates, as in Go.
        let too_large = if text.starts_with('-') { i64::MIN } else { i64::MAX };
        return if digits.is_empty() { 0 } else { text.parse().unwrap_or(too_large) };
    }
    0
}

/// A number written in octal, such as a file mode.
fn to_decimal(state: &RenderState<'_>, value: &Value) -> EvalResult {
    let text = builtin::string(state, value)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let plain = !digits.starts_with(['+', '-']);
    let n = i64::from_str_radix(&text, 8).ok().filter(|_| plain);
    Ok(Value::int64(n.unwrap_or(0)))
}

/// The numbers `start`, `start + step`, … before `stop`.
fn count(start: i64, stop: i64, step: i64) -> u64 {
    let (distance, step) = (i128::from(stop) - i128::from(start), i128::from(step));
    if step == 0 || distance == 0 || (distance < 0) != (step < 0) {
        return 0;
    }
    let count = (distance.abs() + step.abs() - 1) / step.abs();
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn steps(
    state: &RenderState<'_>,
    start: i64,
    stop: i64,
    step: i64,
) -> EvalResult<impl Iterator<Item = i64>> {
    let count = count(start, stop, step);
    state.charge_steps(usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut next = Some(start);
    Ok((0..count).filter_map(move |_| {
        let n = next?;
        next = n.checked_add(step);
        Some(n)
    }))
}

fn numbers(state: &RenderState<'_>, start: i64, stop: i64, step: i64) -> EvalResult {
    let items = steps(state, start, stop, step)?.map(Value::int).collect();
    state.list_of(Element::Int, items)
}

fn seq(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let direction = |start, end| if end < start { -1 } else { 1 };
    let (start, step, end) = match *args.rest(0) {
        [_] => (1, direction(1, args.int(0)), args.int(0)),
        [_, _] => (args.int(0), direction(args.int(0), args.int(1)), args.int(1)),
        [_, _, _] => (args.int(0), args.int(1), args.int(2)),
        _ => return state.text(""),
    };
    if end < start && step > 0 {
        return state.text("");
    }
    let stop = end.saturating_add(direction(start, end));
    let words: Vec<_> = steps(state, start, stop, step)?.map(|n| n.to_string()).collect();
    state.text(words.join(" "))
}
