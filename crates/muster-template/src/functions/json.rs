//! JSON functions; output is that of Go's `encoding/json`.

use super::{Function, ParamType, plain};
use crate::{
    format::float::format_float,
    json::from_json,
    state::{EvalError, EvalResult, RenderState},
    text::{push, runes},
    value::Value,
};

const ANY: &[ParamType] = &[ParamType::Any];
const TEXT: &[ParamType] = &[ParamType::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("fromJson", TEXT, |state, args| match read(state, args.bytes(0)) {
        Err(EvalError::Message(_)) => Ok(Value::Nil),
        answer => answer,
    }),
    plain("mustFromJson", TEXT, |state, args| read(state, args.bytes(0))),
    plain("toJson", ANY, |state, args| lenient(state, args.any(0), JsonStyle::Html)),
    plain("toPrettyJson", ANY, |state, args| lenient(state, args.any(0), JsonStyle::Pretty)),
    plain("toRawJson", ANY, |state, args| write(state, args.any(0), JsonStyle::Raw)),
    plain("mustToJson", ANY, |state, args| write(state, args.any(0), JsonStyle::Html)),
    plain("mustToPrettyJson", ANY, |state, args| write(state, args.any(0), JsonStyle::Pretty)),
    plain("mustToRawJson", ANY, |state, args| write(state, args.any(0), JsonStyle::Raw)),
];

fn read(state: &RenderState<'_>, bytes: &[u8]) -> EvalResult {
    let text = crate::text::lossy(bytes);
    state.charge_bytes(text.len())?;
    match serde_json::from_str(&text) {
        Ok(value) => from_json(state, &value, 0),
        Err(problem) => Err(EvalError::new(problem.to_string())),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonStyle {
    /// One line, in which `<`, `>` and `&` are escaped.
    Html,
    /// Indented, escaped as in [`Html`](Self::Html).
    Pretty,
    /// One line with the fewest escapes.
    Raw,
}

fn lenient(state: &RenderState<'_>, value: &Value, style: JsonStyle) -> EvalResult {
    match write(state, value, style) {
        Err(EvalError::Message(_)) => state.text(""),
        answer => answer,
    }
}

fn write(state: &RenderState<'_>, value: &Value, style: JsonStyle) -> EvalResult {
    let mut writer = Writer { state, style, out: Vec::new() };
    writer.value(value, 0)?;
    state.text(writer.out)
}

struct Writer<'r> {
    state: &'r RenderState<'r>,
    style: JsonStyle,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: u32) -> EvalResult<()> {
        self.state.charge_steps(1)?;
        let depth = RenderState::deeper(depth)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Bool(yes) => self.out.extend_from_slice(yes.to_string().as_bytes()),
            Value::Int(n, _) => self.number(&n.to_string()),
            Value::Uint(n, _) => self.number(&n.to_string()),
            Value::Float(n) => self.float(*n)?,
            Value::Complex(..) => return Err(EvalError::new("json: unsupported type: complex128")),
            Value::Text(text) => self.text(text)?,
            Value::Time(time) => {
                let text =
                    crate::time::layout::format(time, b"2006-01-02T15:04:05.999999999Z07:00");
                self.text(&text)?;
            }
            Value::Version(version) => self.text(version.to_string().as_bytes())?,
            Value::List(list) if list.nil => self.out.extend_from_slice(b"null"),
            Value::List(list) => {
                self.out.push(b'[');
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(i, depth)?;
                    self.value(item, depth)?;
                }
                self.close(list.items.is_empty(), depth, b']')?;
            }
            Value::Map(map) => {
                let entries = map.entries.borrow();
                self.out.push(b'{');
                for (i, (key, item)) in entries.iter().enumerate() {
                    self.separate(i, depth)?;
                    self.text(key)?;
                    self.out.extend_from_slice(if self.style == JsonStyle::Pretty {
                        b": "
                    } else {
                        b":"
                    });
                    self.value(item, depth)?;
                }
                self.close(entries.is_empty(), depth, b'}')?;
            }
        }
        Ok(())
    }

    fn number(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn float(&mut self, n: f64) -> EvalResult<()> {
        if !n.is_finite() {
            let shown = format_float(n, b'g', None);
            return Err(EvalError::new(format!("json: unsupported value: {shown}")));
        }
        let exponential = n != 0.0 && !(1e-6..1e21).contains(&n.abs());
        if !exponential {
            self.number(&format_float(n, b'f', None));
            return Ok(());
        }
        let text = format_float(n, b'e', None);
        // `1e-07` is written `1e-7`.
        self.number(&text.replace("e-0", "e-"));
        Ok(())
    }

    fn separate(&mut self, i: usize, depth: u32) -> EvalResult<()> {
        if i > 0 {
            self.out.push(b',');
        }
        self.line(depth)
    }

    fn close(&mut self, empty: bool, depth: u32, bracket: u8) -> EvalResult<()> {
        if !empty {
            self.line(depth - 1)?;
        }
        self.out.push(bracket);
        Ok(())
    }

    fn line(&mut self, depth: u32) -> EvalResult<()> {
        if self.style == JsonStyle::Pretty {
            let spaces = 2 * depth as usize;
            self.state.charge_bytes(spaces)?;
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', spaces));
        }
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> EvalResult<()> {
        self.state.charge_bytes(bytes.len())?;
        self.out.push(b'"');
        for (c, width) in runes(bytes) {
            let short = match c {
                char::REPLACEMENT_CHARACTER if width == 1 => {
                    self.escape(c);
                    continue;
                }
                '"' => b"\\\"",
                '\\' => b"\\\\",
                '\n' => b"\\n",
                '\r' => b"\\r",
                '\t' => b"\\t",
                '\x08' => b"\\b",
                '\x0c' => b"\\f",
                '<' | '>' | '&' if self.style != JsonStyle::Raw => {
                    self.escape(c);
                    continue;
                }
                '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                    self.escape(c);
                    continue;
                }
                _ => {
                    push(&mut self.out, c);
                    continue;
                }
            };
            self.out.extend_from_slice(short);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self, c: char) {
        self.out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
    }
}
