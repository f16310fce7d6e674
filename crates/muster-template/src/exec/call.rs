//! Function calls: arguments are evaluated to the types of the parameters.

use super::{Exec, ExecResult};
use crate::{
    ErrorStage,
    ast::{Operand, SourceSpot, Term},
    functions::{Call, Function, ParamType},
    state::EvalError,
    value::Value,
};

/// The operands after the function's name, and the value that is piped in.
pub(super) type CallArguments<'t> = (&'t [Operand], Option<Value>);

impl<'t> Exec<'t, '_> {
    pub(super) fn call(
        &mut self,
        dot: &Value,
        function: &'static Function,
        spot: SourceSpot<'t>,
        given: CallArguments<'t>,
    ) -> ExecResult<Value> {
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
        spot: SourceSpot<'t>,
        args: &[Value],
    ) -> ExecResult<Value> {
        for arg in args {
            let size = match arg {
                Value::Text(text) => text.len(),
                Value::List(list) => list.items.len(),
                Value::Map(map) => map.entries.borrow().len(),
                _ => 0,
            };
            self.check(self.state.charge_scan(size))?;
        }
        let answer = match function.call {
            Call::Plain(plain) => plain(self.state, args.into()),
            Call::Refused(reason) => Err(EvalError::new(reason)),
            Call::Until(_) => Ok(Value::Nil),
        };
        let name = function.name;
        match answer {
            Ok(value) => Ok(value),
            Err(fail) => {
                self.spot = Some(spot);
                match fail {
                    EvalError::Message(message) => {
                        self.error(&format!("error calling {name}: {message}"))
                    }
                    EvalError::LimitExceeded(message) => self.error_of(ErrorStage::Limit, message),
                }
            }
        }
    }

    /// `and` and `or`: evaluates arguments until the truth of one equals `stop`.
    fn until(
        &mut self,
        dot: &Value,
        function: &'static Function,
        (operands, piped): CallArguments<'t>,
        stop: bool,
    ) -> ExecResult<Value> {
        if operands.is_empty() && piped.is_none() {
            let name = function.name;
            return self.error(&format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut value = Value::Nil;
        for operand in operands {
            value = self.any(dot, operand)?;
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
        (operands, piped): CallArguments<'t>,
    ) -> ExecResult<Vec<Value>> {
        let Function { name, takes, rest, .. } = function;
        let (given, want) = (operands.len() + usize::from(piped.is_some()), takes.len());
        if rest.is_some() && given < want {
            let got = operands.len();
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
        for operand in operands {
            let wanted = *types.next().unwrap_or(&ParamType::Any);
            args.push(self.argument(dot, wanted, operand)?);
        }
        if let Some(value) = piped {
            let wanted = *types.next().unwrap_or(&ParamType::Any);
            args.push(self.fit(value, wanted)?);
        }
        Ok(args)
    }

    fn argument(
        &mut self,
        dot: &Value,
        wanted: ParamType,
        operand: &'t Operand,
    ) -> ExecResult<Value> {
        self.spot = Some(SourceSpot::Operand(operand));
        let expected = |found: Option<Value>, name: &str, exec: &Self| match found {
            Some(value) => Ok(value),
            None => exec.error(&format!("expected {name}; found {operand}")),
        };
        match (&operand.term, wanted) {
            (_, ParamType::Any) => self.any(dot, operand),
            (Term::Nil, _) if !wanted.can_be_nil() => {
                self.error(&format!("cannot assign nil to {}", wanted.name()))
            }
            (Term::Bool(_) | Term::Number(_) | Term::Text { .. }, _) => {
                let number =
                    if let Term::Number(number) = &operand.term { Some(number) } else { None };
                match wanted {
                    ParamType::Text => match &operand.term {
                        Term::Text { bytes, .. } => Ok(Value::text(&**bytes)),
                        _ => expected(None, "string", self),
                    },
                    ParamType::Bool => match &operand.term {
                        Term::Bool(yes) => Ok(Value::Bool(*yes)),
                        _ => expected(None, "bool", self),
                    },
                    ParamType::Int | ParamType::Duration => {
                        let int = number.and_then(|number| number.int);
                        expected(int.map(|n| Value::Int(n, wanted.int_kind())), "integer", self)
                    }
                    ParamType::Float => {
                        let float = number.and_then(|number| number.float);
                        expected(float.map(Value::Float), "float", self)
                    }
                    ParamType::Any | ParamType::Map | ParamType::Time | ParamType::Version => {
                        let name = wanted.name();
                        self.error(&format!("can't handle {operand} for arg of type {name}"))
                    }
                }
            }
            _ => {
                let value = self.any(dot, operand)?;
                let from_data = matches!(operand.term, Term::Field(_) | Term::Chain(..));
                if from_data && matches!(value, Value::Nil) {
                    // Go types a nil from the data as an interface, which is assignable to nothing else.
                    let name = wanted.name();
                    return self.error(&format!(
                        "wrong type for value; expected {name}; got interface {{}}"
                    ));
                }
                self.fit(value, wanted)
            }
        }
    }

    /// Checks that `value` is assignable to a parameter of type `wanted`.
    fn fit(&self, value: Value, wanted: ParamType) -> ExecResult<Value> {
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
