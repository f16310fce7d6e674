//! Pipelines, commands and fields.

use super::{Exec, ExecResult};
use crate::{
    ast::{Command, Operand, Pipe, SourceSpot, Term},
    functions::Function,
    methods,
    number::Number,
    value::{IntKind, Value},
};

impl<'t> Exec<'t, '_> {
    /// Evaluates a pipeline and binds its variables to the result.
    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &'t Pipe) -> ExecResult<Value> {
        self.spot = Some(SourceSpot::Pipe(pipe));
        let mut piped = None;
        for command in &pipe.commands {
            self.check(self.state.charge_steps(1))?;
            piped = Some(self.command(dot, command, piped)?);
        }
        let value = piped.unwrap_or(Value::Nil);
        for variable in &pipe.variables {
            self.bind(pipe.assigns, variable, value.clone())?;
        }
        Ok(value)
    }

    /// Declares a variable, or assigns to the innermost one of that name.
    pub(super) fn bind(&mut self, assigns: bool, name: &'t str, value: Value) -> ExecResult<()> {
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
    ) -> ExecResult<Value> {
        let Some((first, operands)) = command.operands.split_first() else { return Ok(Value::Nil) };
        match &first.term {
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => {
                self.reference(dot, first, operands, piped)
            }
            Term::Function(function) => {
                self.spot = Some(SourceSpot::Operand(first));
                self.call(dot, function, SourceSpot::Command(command), (operands, piped))
            }
            Term::Pipe(pipe) => {
                self.takes_nothing(first, operands, piped.as_ref())?;
                self.nested(|exec| exec.pipeline(dot, pipe))
            }
            Term::Dot | Term::Nil | Term::Bool(_) | Term::Number(_) | Term::Text { .. } => {
                self.spot = Some(SourceSpot::Operand(first));
                self.takes_nothing(first, operands, piped.as_ref())?;
                self.constant(dot, first)
            }
        }
    }

    fn takes_nothing(
        &self,
        operand: &Operand,
        operands: &[Operand],
        piped: Option<&Value>,
    ) -> ExecResult<()> {
        if operands.is_empty() && piped.is_none() {
            return Ok(());
        }
        self.error(&format!("can't give argument to non-function {operand}"))
    }

    /// The value of a literal or of `.`.
    fn constant(&mut self, dot: &Value, operand: &'t Operand) -> ExecResult<Value> {
        self.spot = Some(SourceSpot::Operand(operand));
        match &operand.term {
            Term::Dot => Ok(dot.clone()),
            Term::Bool(yes) => Ok(Value::Bool(*yes)),
            Term::Number(number) => self.number(number),
            Term::Text { bytes, .. } => Ok(Value::text(&**bytes)),
            Term::Nil => self.error("nil is not a command"),
            Term::Function(_)
            | Term::Field(_)
            | Term::Variable(..)
            | Term::Chain(..)
            | Term::Pipe(_) => self.error(&format!("can't evaluate command {operand}")),
        }
    }

    /// The value of a number literal without a parameter type.
    pub(super) fn number(&self, number: &Number) -> ExecResult<Value> {
        if let Some((re, im)) = number.complex {
            return Ok(Value::Complex(re, im));
        }
        match (number.is_float(), number.float, number.int) {
            (true, Some(float), _) => Ok(Value::Float(float)),
            (_, _, Some(int)) => Ok(Value::Int(int, IntKind::Int)),
            _ => self.error(&format!("{} overflows int", number.text)),
        }
    }

    /// Evaluates an operand as an argument of type `interface{}`.
    pub(super) fn any(&mut self, dot: &Value, operand: &'t Operand) -> ExecResult<Value> {
        self.spot = Some(SourceSpot::Operand(operand));
        match &operand.term {
            Term::Nil => Ok(Value::Nil),
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => {
                self.reference(dot, operand, &[], None)
            }
            Term::Pipe(pipe) => self.nested(|exec| exec.pipeline(dot, pipe)),
            Term::Function(function) => {
                self.call(dot, function, SourceSpot::Operand(operand), (&[], None))
            }
            Term::Dot | Term::Bool(_) | Term::Number(_) | Term::Text { .. } => {
                self.constant(dot, operand)
            }
        }
    }

    /// `.a.b`, `$x.a.b` or `(…).a.b`, whose last part may be a method with arguments.
    fn reference(
        &mut self,
        dot: &Value,
        operand: &'t Operand,
        operands: &'t [Operand],
        piped: Option<Value>,
    ) -> ExecResult<Value> {
        self.spot = Some(SourceSpot::Operand(operand));
        let (mut value, fields) = match &operand.term {
            Term::Field(fields) => (dot.clone(), fields),
            Term::Variable(name, fields) => (self.variable(name)?, fields),
            Term::Chain(inner, fields) => {
                if matches!(inner.term, Term::Nil) {
                    return self.error(&format!("indirection through explicit nil in {operand}"));
                }
                (self.any(dot, inner)?, fields)
            }
            _ => return self.constant(dot, operand),
        };
        let Some((last, path)) = fields.split_last() else {
            self.takes_nothing(operand, operands, piped.as_ref())?;
            return Ok(value);
        };
        for field in path {
            value = self.field(dot, &value, field, operand, (&[], None))?;
        }
        self.field(dot, &value, last, operand, (operands, piped))
    }

    fn variable(&self, name: &str) -> ExecResult<Value> {
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
        operand: &'t Operand,
        (operands, piped): (&'t [Operand], Option<Value>),
    ) -> ExecResult<Value> {
        if let Some(method) = methods::find(receiver, name) {
            return self.method(dot, receiver, method, operand, (operands, piped));
        }
        match receiver {
            Value::Nil => self.error(&format!("nil data; no entry for key {name:?}")),
            Value::Map(_) if !operands.is_empty() || piped.is_some() => {
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
        operand: &'t Operand,
        given: (&'t [Operand], Option<Value>),
    ) -> ExecResult<Value> {
        let mut args = self.arguments(dot, method, given)?;
        args.insert(0, receiver.clone());
        self.answer(method, SourceSpot::Operand(operand), &args)
    }
}
