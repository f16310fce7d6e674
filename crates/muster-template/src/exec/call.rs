//! Calling a function: its arguments evaluated as the types it takes.

use super::{Exec, Walked};
use crate::{
    Stage,
    ast::{Spot, Term, Word},
    functions::{Call, Function, Type},
    run::Fail,
    value::Value,
};

/// The words of a call after the function's name, and what is piped into it.
pub(super) type Given<'t> = (&'t [Word], Option<Value>);

impl<'t> Exec<'t, '_> {
    pub(super) fn call(
        &mut self,
        dot: &Value,
        function: &'static Function,
        spot: Spot<'t>,
        given: Given<'t>,
    ) -> Walked<Value> {
        match function.call {
            Call::Until(stop) => self.until(dot, function, given, stop),
            Call::Plain(_) | Call::Refused(_) => {
                let args = self.arguments(dot, function, given)?;
                self.answer(function, spot, &args)
            }
        }
    }

    pub(super) fn answer(
        &mut self,
        function: &'static Function,
        spot: Spot<'t>,
        args: &[Value],
    ) -> Walked<Value> {
        for arg in args {
            let size = match arg {
                Value::Text(text) => text.len(),
                Value::List(list) => list.items.len(),
                Value::Map(map) => map.entries.borrow().len(),
                _ => 0,
            };
            self.check(self.run.read(size))?;
        }
        let answer = match function.call {
            Call::Plain(plain) => plain(self.run, args.into()),
            Call::Refused(reason) => Err(Fail::new(reason)),
            Call::Until(_) => Ok(Value::Nil),
        };
        let name = function.name;
        match answer {
            Ok(value) => Ok(value),
            Err(fail) => {
                self.spot = Some(spot);
                match fail {
                    Fail::Said(message) => self.error(&format!("error calling {name}: {message}")),
                    Fail::Spent(message) => self.error_of(Stage::Limit, message),
                }
            }
        }
    }

    /// `and` and `or`: arguments are evaluated until one is as `stop` says.
    fn until(
        &mut self,
        dot: &Value,
        function: &'static Function,
        (words, piped): Given<'t>,
        stop: bool,
    ) -> Walked<Value> {
        if words.is_empty() && piped.is_none() {
            let name = function.name;
            return self.error(&format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut value = Value::Nil;
        for word in words {
            value = self.any(dot, word)?;
            if value.truth() == stop {
                return Ok(value);
            }
        }
        Ok(piped.unwrap_or(value))
    }

    pub(super) fn arguments(
        &mut self,
        dot: &Value,
        function: &'static Function,
        (words, piped): Given<'t>,
    ) -> Walked<Vec<Value>> {
        let Function { name, takes, rest, .. } = function;
        let (given, want) = (words.len() + usize::from(piped.is_some()), takes.len());
        if rest.is_some() && given < want {
            let got = words.len();
            return self.error(&format!(
                "wrong number of args for {name}: want at least {want} got {got}"
            ));
        }
        if rest.is_none() && given != want {
            return self
                .error(&format!("wrong number of args for {name}: want {want} got {given}"));
        }
        let mut types = takes.iter().chain(std::iter::repeat_n(rest, given).flatten());
        let mut args = Vec::with_capacity(given);
        for word in words {
            let wanted = *types.next().unwrap_or(&Type::Any);
            args.push(self.argument(dot, wanted, word)?);
        }
        if let Some(value) = piped {
            let wanted = *types.next().unwrap_or(&Type::Any);
            args.push(self.fit(value, wanted)?);
        }
        Ok(args)
    }

    fn argument(&mut self, dot: &Value, wanted: Type, word: &'t Word) -> Walked<Value> {
        self.spot = Some(Spot::Word(word));
        let expected = |found: Option<Value>, name: &str, exec: &Self| match found {
            Some(value) => Ok(value),
            None => exec.error(&format!("expected {name}; found {word}")),
        };
        match (&word.term, wanted) {
            (_, Type::Any) => self.any(dot, word),
            (Term::Nil, _) if !wanted.can_be_nil() => {
                self.error(&format!("cannot assign nil to {}", wanted.name()))
            }
            (Term::Bool(_) | Term::Number(_) | Term::Text { .. }, _) => {
                let number =
                    if let Term::Number(number) = &word.term { Some(number) } else { None };
                match wanted {
                    Type::Text => match &word.term {
                        Term::Text { bytes, .. } => Ok(Value::text(&**bytes)),
                        _ => expected(None, "string", self),
                    },
                    Type::Bool => match &word.term {
                        Term::Bool(yes) => Ok(Value::Bool(*yes)),
                        _ => expected(None, "bool", self),
                    },
                    Type::Int | Type::Duration => {
                        let int = number.and_then(|number| number.int);
                        expected(int.map(|n| Value::Int(n, wanted.int_kind())), "integer", self)
                    }
                    Type::Float => {
                        let float = number.and_then(|number| number.float);
                        expected(float.map(Value::Float), "float", self)
                    }
                    Type::Any | Type::Map | Type::Time | Type::Version => {
                        let name = wanted.name();
                        self.error(&format!("can't handle {word} for arg of type {name}"))
                    }
                }
            }
            _ => {
                let value = self.any(dot, word)?;
                let from_data = matches!(word.term, Term::Field(_) | Term::Chain(..));
                if from_data && matches!(value, Value::Nil) {
                    // A nil that was found in data is an interface, which fits nothing else.
                    let name = wanted.name();
                    return self.error(&format!(
                        "wrong type for value; expected {name}; got interface {{}}"
                    ));
                }
                self.fit(value, wanted)
            }
        }
    }

    /// `value`, if a parameter of type `wanted` can take it.
    fn fit(&self, value: Value, wanted: Type) -> Walked<Value> {
        if wanted.fits(&value) {
            return Ok(value);
        }
        let name = wanted.name();
        match value {
            Value::Nil => self.error(&format!("invalid value; expected {name}")),
            _ => {
                let got = value.type_name();
                self.error(&format!("wrong type for value; expected {name}; got {got}"))
            }
        }
    }
}
