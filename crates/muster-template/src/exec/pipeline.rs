//! Pipelines, commands and fields.

use super::{Exec, Walked};
use crate::{
    ast::{Command, Pipe, Spot, Term, Word},
    functions::Function,
    methods,
    number::Number,
    value::{IntKind, Value},
};

impl<'t> Exec<'t, '_> {
    /// The value of a pipeline, after its variables were set to it.
    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &'t Pipe) -> Walked<Value> {
        self.spot = Some(Spot::Pipe(pipe));
        let mut piped = None;
        for command in &pipe.commands {
            self.check(self.run.work(1))?;
            piped = Some(self.command(dot, command, piped)?);
        }
        let value = piped.unwrap_or(Value::Nil);
        for variable in &pipe.variables {
            self.bind(pipe.assigns, variable, value.clone())?;
        }
        Ok(value)
    }

    /// Declares a variable, or changes the innermost one of that name.
    pub(super) fn bind(&mut self, assigns: bool, name: &'t str, value: Value) -> Walked<()> {
        if !assigns {
            self.variables.push((name, value));
            return Ok(());
        }
        match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => return self.error(&format!("undefined variable: {name}")),
        }
        Ok(())
    }

    fn command(
        &mut self,
        dot: &Value,
        command: &'t Command,
        piped: Option<Value>,
    ) -> Walked<Value> {
        let Some((first, words)) = command.words.split_first() else { return Ok(Value::Nil) };
        match &first.term {
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => {
                self.reference(dot, first, words, piped)
            }
            Term::Function(function) => {
                self.spot = Some(Spot::Word(first));
                self.call(dot, function, Spot::Command(command), (words, piped))
            }
            Term::Pipe(pipe) => {
                self.takes_nothing(first, words, piped.as_ref())?;
                self.nested(|exec| exec.pipeline(dot, pipe))
            }
            Term::Dot | Term::Nil | Term::Bool(_) | Term::Number(_) | Term::Text { .. } => {
                self.spot = Some(Spot::Word(first));
                self.takes_nothing(first, words, piped.as_ref())?;
                self.constant(dot, first)
            }
        }
    }

    fn takes_nothing(&self, word: &Word, words: &[Word], piped: Option<&Value>) -> Walked<()> {
        if words.is_empty() && piped.is_none() {
            return Ok(());
        }
        self.error(&format!("can't give argument to non-function {word}"))
    }

    /// The value of a word that needs no evaluation.
    fn constant(&mut self, dot: &Value, word: &'t Word) -> Walked<Value> {
        self.spot = Some(Spot::Word(word));
        match &word.term {
            Term::Dot => Ok(dot.clone()),
            Term::Bool(yes) => Ok(Value::Bool(*yes)),
            Term::Number(number) => self.number(number),
            Term::Text { bytes, .. } => Ok(Value::text(&**bytes)),
            Term::Nil => self.error("nil is not a command"),
            Term::Function(_)
            | Term::Field(_)
            | Term::Variable(..)
            | Term::Chain(..)
            | Term::Pipe(_) => self.error(&format!("can't evaluate command {word}")),
        }
    }

    /// What a number literal is when nothing says which type is wanted.
    pub(super) fn number(&self, number: &Number) -> Walked<Value> {
        if let Some((re, im)) = number.complex {
            return Ok(Value::Complex(re, im));
        }
        match (number.is_float(), number.float, number.int) {
            (true, Some(float), _) => Ok(Value::Float(float)),
            (_, _, Some(int)) => Ok(Value::Int(int, IntKind::Int)),
            _ => self.error(&format!("{} overflows int", number.text)),
        }
    }

    /// A word as an argument for which any type will do.
    pub(super) fn any(&mut self, dot: &Value, word: &'t Word) -> Walked<Value> {
        self.spot = Some(Spot::Word(word));
        match &word.term {
            Term::Nil => Ok(Value::Nil),
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => {
                self.reference(dot, word, &[], None)
            }
            Term::Pipe(pipe) => self.nested(|exec| exec.pipeline(dot, pipe)),
            Term::Function(function) => self.call(dot, function, Spot::Word(word), (&[], None)),
            Term::Dot | Term::Bool(_) | Term::Number(_) | Term::Text { .. } => {
                self.constant(dot, word)
            }
        }
    }

    /// `.a.b`, `$x.a.b` or `(…).a.b`, whose last part may be a method with arguments.
    fn reference(
        &mut self,
        dot: &Value,
        word: &'t Word,
        words: &'t [Word],
        piped: Option<Value>,
    ) -> Walked<Value> {
        self.spot = Some(Spot::Word(word));
        let (mut value, fields) = match &word.term {
            Term::Field(fields) => (dot.clone(), fields),
            Term::Variable(name, fields) => (self.variable(name)?, fields),
            Term::Chain(inner, fields) => {
                if matches!(inner.term, Term::Nil) {
                    return self.error(&format!("indirection through explicit nil in {word}"));
                }
                (self.any(dot, inner)?, fields)
            }
            _ => return self.constant(dot, word),
        };
        let Some((last, path)) = fields.split_last() else {
            self.takes_nothing(word, words, piped.as_ref())?;
            return Ok(value);
        };
        for field in path {
            value = self.field(dot, &value, field, word, (&[], None))?;
        }
        self.field(dot, &value, last, word, (words, piped))
    }

    fn variable(&self, name: &str) -> Walked<Value> {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.error(&format!("undefined variable: {name}")),
        }
    }

    fn field(
        &mut self,
        dot: &Value,
        receiver: &Value,
        name: &'t str,
        word: &'t Word,
        (words, piped): (&'t [Word], Option<Value>),
    ) -> Walked<Value> {
        if let Some(method) = methods::find(receiver, name) {
            return self.method(dot, receiver, method, word, (words, piped));
        }
        match receiver {
            Value::Nil => self.error(&format!("nil data; no entry for key {name:?}")),
            Value::Map(_) if !words.is_empty() || piped.is_some() => {
                self.error(&format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => match map.entries.borrow().get(&name.into()) {
                Some(value) => Ok(value.clone()),
                None => self.error(&format!("map has no entry for key {name:?}")),
            },
            _ => {
                let kind = receiver.type_name();
                self.error(&format!("can't evaluate field {name} in type {kind}"))
            }
        }
    }

    fn method(
        &mut self,
        dot: &Value,
        receiver: &Value,
        method: &'static Function,
        word: &'t Word,
        given: (&'t [Word], Option<Value>),
    ) -> Walked<Value> {
        let mut args = self.arguments(dot, method, given)?;
        args.insert(0, receiver.clone());
        self.answer(method, Spot::Word(word), &args)
    }
}
