//! Go's `fmt`: `print`, `println`, `printf` and the text form of every value.

use super::{
    state::{EvalResult, RenderState},
    text::lossy,
    time,
    value::{IntKind, Value},
};

pub(crate) mod float;
mod pad;
mod verbs;

use pad::Flags;

/// Writes `value` the way an action prints it.
pub(crate) fn print_value(
    state: &RenderState<'_>,
    out: &mut Vec<u8>,
    value: &Value,
) -> EvalResult<()> {
    match value {
        Value::Nil => {
            state.charge_bytes(10)?;
            out.extend_from_slice(b"<no value>");
        }
        Value::Text(text) => {
            state.charge_bytes(text.len())?;
            out.extend_from_slice(text);
        }
        _ => {
            let mut printer = Printer { state, out: std::mem::take(out), ..Printer::new(state) };
            let printed = printer.argument(value, 'v');
            *out = printer.out;
            printed?;
        }
    }
    Ok(())
}

/// Formats `value` with `%v`.
pub(crate) fn display(state: &RenderState<'_>, value: &Value) -> EvalResult<Vec<u8>> {
    let mut printer = Printer::new(state);
    printer.argument(value, 'v')?;
    Ok(printer.out)
}

/// Formats `value` with `%v`, for error messages.
pub(crate) fn shown(state: &RenderState<'_>, value: &Value) -> EvalResult<String> {
    Ok(lossy(&display(state, value)?).into_owned())
}

/// `fmt.Sprint`: spaces only between operands of which neither is a string.
pub(crate) fn sprint(state: &RenderState<'_>, args: &[Value]) -> EvalResult<Vec<u8>> {
    let mut printer = Printer::new(state);
    let mut after_text = true;
    for (i, arg) in args.iter().enumerate() {
        let is_text = matches!(arg, Value::Text(_));
        if i > 0 && !is_text && !after_text {
            printer.write(b" ")?;
        }
        printer.argument(arg, 'v')?;
        after_text = is_text;
    }
    Ok(printer.out)
}

/// `fmt.Sprintln`.
pub(crate) fn sprintln(state: &RenderState<'_>, args: &[Value]) -> EvalResult<Vec<u8>> {
    let mut printer = Printer::new(state);
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.write(b" ")?;
        }
        printer.argument(arg, 'v')?;
    }
    printer.write(b"\n")?;
    Ok(printer.out)
}

/// `fmt.Sprintf`.
pub(crate) fn sprintf(
    state: &RenderState<'_>,
    format: &[u8],
    args: &[Value],
) -> EvalResult<Vec<u8>> {
    let mut printer = Printer::new(state);
    printer.printf(format, args)?;
    Ok(printer.out)
}

struct Printer<'r> {
    state: &'r RenderState<'r>,
    out: Vec<u8>,
    flags: Flags,
    /// Inside `%!d(…)`, where `String` methods are not called.
    erroring: bool,
}

impl<'r> Printer<'r> {
    fn new(state: &'r RenderState<'_>) -> Self {
        Self { state, out: Vec::new(), flags: Flags::default(), erroring: false }
    }

    fn write(&mut self, bytes: &[u8]) -> EvalResult<()> {
        self.state.charge_bytes(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn argument(&mut self, value: &Value, verb: char) -> EvalResult<()> {
        match (value, verb) {
            (Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (_, 'T') => {
                self.string(value.type_name().as_bytes(), 's')?;
                Ok(())
            }
            _ => self.value(value, verb, 0),
        }
    }

    fn value(&mut self, value: &Value, verb: char, depth: u32) -> EvalResult<()> {
        self.state.charge_steps(1)?;
        let depth = RenderState::deeper(depth)?;
        if !self.erroring && self.words(value, verb)? {
            return Ok(());
        }
        let done = match value {
            Value::Nil if depth > 1 => {
                let sharp = self.flags.sharp_v;
                self.write(if sharp { b"interface {}(nil)" } else { b"<nil>" })?;
                true
            }
            Value::Nil => false,
            Value::Bool(yes) if matches!(verb, 't' | 'v') => {
                self.pad(if *yes { b"true" } else { b"false" })?;
                true
            }
            Value::Bool(_) => false,
            Value::Int(n, _) => self.integer(*n < 0, n.unsigned_abs(), verb)?,
            Value::Uint(n, _) if verb == 'v' && self.flags.sharp_v => {
                self.write(format!("{n:#x}").as_bytes())?;
                true
            }
            Value::Uint(n, _) => self.integer(false, *n, verb)?,
            Value::Float(n) => self.float(*n, verb)?,
            Value::Complex(re, im) => self.complex(*re, *im, verb)?,
            Value::Text(text) => self.string(text, verb)?,
            Value::List(list) if self.flags.sharp_v && list.nil => {
                self.write(value.type_name().as_bytes())?;
                self.write(b"(nil)")?;
                true
            }
            Value::List(list) => {
                self.open(value, b"[")?;
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(i)?;
                    self.value(item, verb, depth)?;
                }
                self.close()?;
                true
            }
            Value::Map(map) => {
                self.open(value, b"map[")?;
                for (i, (key, item)) in map.entries.borrow().iter().enumerate() {
                    self.separate(i)?;
                    self.value(&Value::Text(key.clone()), verb, depth)?;
                    self.write(b":")?;
                    self.value(item, verb, depth)?;
                }
                self.close()?;
                true
            }
            // Structs print through their `String` methods only.
            Value::Time(_) | Value::Version(_) => false,
        };
        if done { Ok(()) } else { self.bad_verb(value, verb) }
    }

    fn open(&mut self, value: &Value, bracket: &[u8]) -> EvalResult<()> {
        if !self.flags.sharp_v {
            return self.write(bracket);
        }
        self.write(value.type_name().as_bytes())?;
        self.write(b"{")
    }

    fn separate(&mut self, i: usize) -> EvalResult<()> {
        match (i, self.flags.sharp_v) {
            (0, _) => Ok(()),
            (_, true) => self.write(b", "),
            (_, false) => self.write(b" "),
        }
    }

    fn close(&mut self) -> EvalResult<()> {
        let sharp = self.flags.sharp_v;
        self.write(if sharp { b"}" } else { b"]" })
    }

    fn complex(&mut self, re: f64, im: f64, verb: char) -> EvalResult<bool> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return Ok(false);
        }
        let plus = self.flags.plus;
        self.write(b"(")?;
        self.float(re, verb)?;
        self.flags.plus = true;
        self.float(im, verb)?;
        self.flags.plus = plus;
        self.write(b"i)")?;
        Ok(true)
    }

    /// Prints values that have a `String` method through it, in the verbs for text.
    fn words(&mut self, value: &Value, verb: char) -> EvalResult<bool> {
        if !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return Ok(false);
        }
        if self.flags.sharp_v && !matches!(value, Value::Time(_)) {
            return Ok(false);
        }
        match stringer_text(value) {
            Some(text) => self.string(text.as_bytes(), if verb == 'v' { 's' } else { verb }),
            None => Ok(false),
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: char) -> EvalResult<()> {
        self.write(format!("%!{verb}(").as_bytes())?;
        if matches!(value, Value::Nil) {
            self.write(b"<nil>")?;
        } else {
            self.write(format!("{}=", value.type_name()).as_bytes())?;
            match stringer_text(value)
                .filter(|_| matches!(value, Value::Time(_) | Value::Version(_)))
            {
                Some(text) => self.write(text.as_bytes())?,
                None => {
                    self.erroring = true;
                    self.value(value, 'v', 0)?;
                    self.erroring = false;
                }
            }
        }
        self.write(b")")
    }
}

/// The text of values that implement Go's `Stringer`.
pub(crate) fn stringer_text(value: &Value) -> Option<String> {
    match value {
        Value::Int(n, IntKind::Duration) => Some(time::duration::format(*n)),
        Value::Int(n, IntKind::Month) => Some(time::month_name(*n)),
        Value::Int(n, IntKind::Weekday) => Some(time::weekday_name(*n)),
        Value::Time(time) => Some(time.to_string()),
        Value::Version(version) => Some(version.to_string()),
        _ => None,
    }
}
