//! The executor: walks a syntax tree, writes output, and tracks variables in scope.

use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::{
    ErrorStage, TemplateError,
    ast::{Branch, Node, Pipe, SourceSpot, Tree},
    format,
    json::to_json,
    state::{EvalError, EvalResult, RenderState},
    value::Value,
};

mod call;
mod pipeline;

/// The control flow that a node requests of the enclosing `range`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

pub(crate) type ExecResult<T> = Result<T, Box<TemplateError>>;

/// A template being executed.
pub(crate) struct Exec<'t, 'r> {
    state: &'r RenderState<'r>,
    text: &'t str,
    trees: &'t [Tree],
    /// The name of the current template, for errors.
    name: &'t str,
    spot: Option<SourceSpot<'t>>,
    variables: Vec<(&'t str, Value)>,
    depth: u32,
    pub(crate) out: Vec<u8>,
}

impl<'t, 'r> Exec<'t, 'r> {
    pub(crate) fn new(
        state: &'r RenderState<'r>,
        text: &'t str,
        trees: &'t [Tree],
        data: Value,
    ) -> Self {
        let variables = vec![("$", data)];
        let (spot, out) = (None, Vec::new());
        Self { state, text, trees, name: "template", spot, variables, depth: 0, out }
    }

    /// Executes the main template with `dot`.
    pub(crate) fn execute(&mut self, dot: &Value) -> ExecResult<()> {
        let Some(tree) = self.trees.first() else { return Ok(()) };
        self.nodes(dot, &tree.nodes).map(drop)
    }

    /// Evaluates one pipeline as if it were the only action.
    pub(crate) fn compute(&mut self, dot: &Value, pipe: &'t Pipe) -> ExecResult<Json> {
        let value = self.pipeline(dot, pipe)?;
        self.check(to_json(self.state, &value, 0))
    }

    fn error<T>(&self, message: &str) -> ExecResult<T> {
        self.error_of(ErrorStage::Execute, message)
    }

    fn error_of<T>(&self, stage: ErrorStage, message: &str) -> ExecResult<T> {
        let Some(spot) = self.spot else {
            let text = format!("template: {}: {message}", self.name);
            return Err(Box::new(TemplateError::new(stage, self.text, 0, text)));
        };
        let (line, column) = TemplateError::place(self.text, spot.at());
        let name = super::quote::quote(self.name.as_bytes(), false);
        let text =
            format!("template: template:{line}:{column}: executing {name} at <{spot}>: {message}");
        Err(Box::new(TemplateError::new(stage, self.text, spot.at(), text)))
    }

    /// Attaches the current position to the error of a helper.
    fn check<T>(&self, answer: EvalResult<T>) -> ExecResult<T> {
        match answer {
            Ok(value) => Ok(value),
            Err(EvalError::Message(message)) => self.error(&message),
            Err(EvalError::LimitExceeded(message)) => self.error_of(ErrorStage::Limit, message),
        }
    }

    /// Runs `inside` one level deeper.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> ExecResult<T>) -> ExecResult<T> {
        let outer = self.depth;
        self.depth = self.check(RenderState::deeper(outer))?;
        let result = inside(self);
        self.depth = outer;
        result
    }

    fn nodes(&mut self, dot: &Value, nodes: &'t [Node]) -> ExecResult<Flow> {
        for node in nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, dot: &Value, node: &'t Node) -> ExecResult<Flow> {
        self.check(self.state.charge_steps(1))?;
        match node {
            Node::Text(text) => {
                self.check(self.state.charge_bytes(text.len()))?;
                self.out.extend_from_slice(text.as_bytes());
            }
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.spot = Some(SourceSpot::Pipe(pipe));
                    let printed = format::print_value(self.state, &mut self.out, &value);
                    self.check(printed)?;
                }
            }
            Node::If(branch) => return self.nested(|exec| exec.either(dot, branch, false)),
            Node::With(branch) => return self.nested(|exec| exec.either(dot, branch, true)),
            Node::Range(branch) => return self.nested(|exec| exec.range(dot, branch)),
            Node::Template { name, pipe, .. } => {
                self.spot = Some(SourceSpot::Template(node));
                self.nested(|exec| exec.template(dot, name, pipe.as_ref()))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn either(&mut self, dot: &Value, branch: &'t Branch, with: bool) -> ExecResult<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.truth() {
            self.nodes(if with { &value } else { dot }, &branch.then)?
        } else {
            self.nodes(dot, branch.otherwise.as_deref().unwrap_or_default())?
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, branch: &'t Branch) -> ExecResult<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let mut round = RangeLoop { exec: self, branch, ran: false };
        match &value {
            Value::Nil => {}
            Value::Int(n, _) if branch.pipe.variables.len() > 1 => {
                return self
                    .error(&format!("can't use {n} to iterate over more than one variable"));
            }
            Value::Int(n, kind) => {
                for i in 0..*n {
                    if round.state(Value::Nil, &Value::Int(i, *kind))?.is_break() {
                        break;
                    }
                }
            }
            Value::List(list) => {
                for (i, item) in list.items.iter().enumerate() {
                    if round.state(Value::count(i), item)?.is_break() {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                // The body may change the map: iterate over a snapshot.
                let entries = map.entries.borrow().clone();
                round
                    .exec
                    .check(round.exec.state.charge_bytes(entries.len().saturating_mul(64)))?;
                for (key, item) in entries {
                    if round.state(Value::Text(key), &item)?.is_break() {
                        break;
                    }
                }
            }
            other => {
                let shown = format::shown(self.state, other);
                let shown = self.check(shown)?;
                return self.error(&format!("range can't iterate over {shown}"));
            }
        }
        let flow = match (round.ran, &branch.otherwise) {
            // A `break` in the `else` belongs to this `range`, as in Go.
            (false, Some(otherwise)) => match self.nodes(dot, otherwise)? {
                Flow::Break => Flow::On,
                flow => flow,
            },
            _ => Flow::On,
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn template(&mut self, dot: &Value, name: &'t str, pipe: Option<&'t Pipe>) -> ExecResult<()> {
        let Some(tree) = self.trees.iter().find(|tree| tree.name == name) else {
            let name = super::quote::quote(name.as_bytes(), false);
            return self.error(&format!("template {name} not defined"));
        };
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Nil,
        };
        let outer = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        let caller = std::mem::replace(&mut self.name, &tree.name);
        self.nodes(&dot, &tree.nodes)?;
        self.variables = outer;
        self.name = caller;
        Ok(())
    }
}

/// The iterations of one `range`.
struct RangeLoop<'e, 't, 'r> {
    exec: &'e mut Exec<'t, 'r>,
    branch: &'t Branch,
    ran: bool,
}

impl RangeLoop<'_, '_, '_> {
    fn state(&mut self, index: Value, item: &Value) -> ExecResult<ControlFlow<()>> {
        self.ran = true;
        let Branch { pipe, then, .. } = self.branch;
        self.exec.check(self.exec.state.charge_steps(1))?;
        let scope = self.exec.variables.len();
        match &*pipe.variables {
            [] => {}
            [only] => self.exec.bind(pipe.assigns, only, item.clone())?,
            [first, second, ..] => {
                self.exec.bind(pipe.assigns, first, index)?;
                self.exec.bind(pipe.assigns, second, item.clone())?;
            }
        }
        let flow = self.exec.nodes(item, then)?;
        self.exec.variables.truncate(scope);
        Ok(if flow == Flow::Break { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
