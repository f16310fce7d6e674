//! Go's `fmt`: `print`, `println`, `printf`, and how every value looks.

use super::{
    run::{Answer, Run},
    text::lossy,
    time,
    value::{IntKind, Value},
};

pub(crate) mod float;
mod pad;
mod verbs;

use pad::Flags;

/// Writes `value` as an action does.
pub(crate) fn print_value(run: &Run<'_>, out: &mut Vec<u8>, value: &Value) -> Answer<()> {
    match value {
        Value::Nil => {
            run.room(10)?;
            out.extend_from_slice(b"<no value>");
        }
        Value::Text(text) => {
            run.room(text.len())?;
            out.extend_from_slice(text);
        }
        _ => {
            let mut printer = Printer { run, out: std::mem::take(out), ..Printer::new(run) };
            let printed = printer.argument(value, 'v');
            *out = printer.out;
            printed?;
        }
    }
    Ok(())
}

/// `value` in `%v`.
pub(crate) fn display(run: &Run<'_>, value: &Value) -> Answer<Vec<u8>> {
    let mut printer = Printer::new(run);
    printer.argument(value, 'v')?;
    Ok(printer.out)
}

/// `value` in `%v`, for messages.
pub(crate) fn shown(run: &Run<'_>, value: &Value) -> Answer<String> {
    Ok(lossy(&display(run, value)?).into_owned())
}

/// `fmt.Sprint`: spaces only between operands of which neither is a string.
pub(crate) fn sprint(run: &Run<'_>, args: &[Value]) -> Answer<Vec<u8>> {
    let mut printer = Printer::new(run);
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
pub(crate) fn sprintln(run: &Run<'_>, args: &[Value]) -> Answer<Vec<u8>> {
    let mut printer = Printer::new(run);
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
pub(crate) fn sprintf(run: &Run<'_>, format: &[u8], args: &[Value]) -> Answer<Vec<u8>> {
    let mut printer = Printer::new(run);
    printer.printf(format, args)?;
    Ok(printer.out)
}

struct Printer<'r> {
    run: &'r Run<'r>,
    out: Vec<u8>,
    flags: Flags,
    /// Inside `%!d(…)`, where words of named numbers are not used.
    erroring: bool,
}

impl<'r> Printer<'r> {
    fn new(run: &'r Run<'_>) -> Self {
        Self { run, out: Vec::new(), flags: Flags::default(), erroring: false }
    }

    fn write(&mut self, bytes: &[u8]) -> Answer<()> {
        self.run.room(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn argument(&mut self, value: &Value, verb: char) -> Answer<()> {
        match (value, verb) {
            (Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (_, 'T') => {
                self.string(value.type_name().as_bytes(), 's')?;
                Ok(())
            }
            _ => self.value(value, verb, 0),
        }
    }

    fn value(&mut self, value: &Value, verb: char, depth: u32) -> Answer<()> {
        self.run.work(1)?;
        let depth = Run::deeper(depth)?;
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
            // Structs, whose fields are nobody's business.
            Value::Time(_) | Value::Version(_) => false,
        };
        if done { Ok(()) } else { self.bad_verb(value, verb) }
    }

    fn open(&mut self, value: &Value, bracket: &[u8]) -> Answer<()> {
        if !self.flags.sharp_v {
            return self.write(bracket);
        }
        self.write(value.type_name().as_bytes())?;
        self.write(b"{")
    }

    fn separate(&mut self, i: usize) -> Answer<()> {
        match (i, self.flags.sharp_v) {
            (0, _) => Ok(()),
            (_, true) => self.write(b", "),
            (_, false) => self.write(b" "),
        }
    }

    fn close(&mut self) -> Answer<()> {
        let sharp = self.flags.sharp_v;
        self.write(if sharp { b"}" } else { b"]" })
    }

    fn complex(&mut self, re: f64, im: f64, verb: char) -> Answer<bool> {
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

    /// Values that have a text of their own print it in the verbs for text.
    fn words(&mut self, value: &Value, verb: char) -> Answer<bool> {
        if !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return Ok(false);
        }
        if self.flags.sharp_v && !matches!(value, Value::Time(_)) {
            return Ok(false);
        }
        match spoken(value) {
            Some(text) => self.string(text.as_bytes(), if verb == 'v' { 's' } else { verb }),
            None => Ok(false),
        }
    }

    fn bad_verb(&mut self, value: &Value, verb: char) -> Answer<()> {
        self.write(format!("%!{verb}(").as_bytes())?;
        if matches!(value, Value::Nil) {
            self.write(b"<nil>")?;
        } else {
            self.write(format!("{}=", value.type_name()).as_bytes())?;
            match spoken(value).filter(|_| matches!(value, Value::Time(_) | Value::Version(_))) {
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

/// The text of values that Go would call a `Stringer`.
pub(crate) fn spoken(value: &Value) -> Option<String> {
    match value {
        Value::Int(n, IntKind::Duration) => Some(time::duration::shown(*n)),
        Value::Int(n, IntKind::Month) => Some(time::month_name(*n)),
        Value::Int(n, IntKind::Weekday) => Some(time::weekday_name(*n)),
        Value::Time(time) => Some(time.to_string()),
        Value::Version(version) => Some(version.to_string()),
        _ => None,
    }
}
