//! Walking a parsed template: text out, blocks in order, variables in scope.

use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::{
    Stage, TemplateError,
    ast::{Branch, Node, Pipe, Spot, Tree},
    format,
    json::to_json,
    run::{Answer, Fail, Run},
    value::Value,
};

mod call;
mod pipeline;

/// What the walk of a node asks of the loop around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

pub(crate) type Walked<T> = Result<T, Box<TemplateError>>;

/// A template being executed.
pub(crate) struct Exec<'t, 'r> {
    run: &'r Run<'r>,
    text: &'t str,
    trees: &'t [Tree],
    /// The template whose body this is, for errors.
    name: &'t str,
    spot: Option<Spot<'t>>,
    variables: Vec<(&'t str, Value)>,
    depth: u32,
    pub(crate) out: Vec<u8>,
}

impl<'t, 'r> Exec<'t, 'r> {
    pub(crate) fn new(run: &'r Run<'r>, text: &'t str, trees: &'t [Tree], data: Value) -> Self {
        let variables = vec![("$", data)];
        let (spot, out) = (None, Vec::new());
        Self { run, text, trees, name: "template", spot, variables, depth: 0, out }
    }

    /// Walks the whole template with `dot`.
    pub(crate) fn execute(&mut self, dot: &Value) -> Walked<()> {
        let Some(tree) = self.trees.first() else { return Ok(()) };
        self.nodes(dot, &tree.nodes).map(drop)
    }

    /// The value of one pipeline, as if it stood alone in an action.
    pub(crate) fn compute(&mut self, dot: &Value, pipe: &'t Pipe) -> Walked<Json> {
        let value = self.pipeline(dot, pipe)?;
        self.check(to_json(self.run, &value, 0))
    }

    fn error<T>(&self, message: &str) -> Walked<T> {
        self.error_of(Stage::Execute, message)
    }

    fn error_of<T>(&self, stage: Stage, message: &str) -> Walked<T> {
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

    /// Turns what a helper answered into an error here, if it is one.
    fn check<T>(&self, answer: Answer<T>) -> Walked<T> {
        match answer {
            Ok(value) => Ok(value),
            Err(Fail::Said(message)) => self.error(&message),
            Err(Fail::Spent(message)) => self.error_of(Stage::Limit, message),
        }
    }

    /// Runs `inside` one level deeper.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Walked<T>) -> Walked<T> {
        let outer = self.depth;
        self.depth = self.check(Run::deeper(outer))?;
        let result = inside(self);
        self.depth = outer;
        result
    }

    fn nodes(&mut self, dot: &Value, nodes: &'t [Node]) -> Walked<Flow> {
        for node in nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, dot: &Value, node: &'t Node) -> Walked<Flow> {
        self.check(self.run.work(1))?;
        match node {
            Node::Text(text) => {
                self.check(self.run.room(text.len()))?;
                self.out.extend_from_slice(text.as_bytes());
            }
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.spot = Some(Spot::Pipe(pipe));
                    let printed = format::print_value(self.run, &mut self.out, &value);
                    self.check(printed)?;
                }
            }
            Node::If(branch) => return self.nested(|exec| exec.either(dot, branch, false)),
            Node::With(branch) => return self.nested(|exec| exec.either(dot, branch, true)),
            Node::Range(branch) => return self.nested(|exec| exec.range(dot, branch)),
            Node::Template { name, pipe, .. } => {
                self.spot = Some(Spot::Template(node));
                self.nested(|exec| exec.template(dot, name, pipe.as_ref()))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn either(&mut self, dot: &Value, branch: &'t Branch, with: bool) -> Walked<Flow> {
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

    fn range(&mut self, dot: &Value, branch: &'t Branch) -> Walked<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let mut round = Round { exec: self, branch, ran: false };
        match &value {
            Value::Nil => {}
            Value::Int(n, _) if branch.pipe.variables.len() > 1 => {
                return self
                    .error(&format!("can't use {n} to iterate over more than one variable"));
            }
            Value::Int(n, kind) => {
                for i in 0..*n {
                    if round.run(Value::Nil, &Value::Int(i, *kind))?.is_break() {
                        break;
                    }
                }
            }
            Value::List(list) => {
                for (i, item) in list.items.iter().enumerate() {
                    if round.run(Value::count(i), item)?.is_break() {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                // The body may change the map; what is walked is the map as it was.
                let entries = map.entries.borrow().clone();
                round.exec.check(round.exec.run.room(entries.len().saturating_mul(64)))?;
                for (key, item) in entries {
                    if round.run(Value::Text(key), &item)?.is_break() {
                        break;
                    }
                }
            }
            other => {
                let shown = format::shown(self.run, other);
                let shown = self.check(shown)?;
                return self.error(&format!("range can't iterate over {shown}"));
            }
        }
        let flow = match (round.ran, &branch.otherwise) {
            // A `break` in the `else` ends this range, though it has nothing left to end.
            (false, Some(otherwise)) => match self.nodes(dot, otherwise)? {
                Flow::Break => Flow::On,
                flow => flow,
            },
            _ => Flow::On,
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn template(&mut self, dot: &Value, name: &'t str, pipe: Option<&'t Pipe>) -> Walked<()> {
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

/// The rounds of one `range`.
struct Round<'e, 't, 'r> {
    exec: &'e mut Exec<'t, 'r>,
    branch: &'t Branch,
    ran: bool,
}

impl Round<'_, '_, '_> {
    fn run(&mut self, index: Value, item: &Value) -> Walked<ControlFlow<()>> {
        self.ran = true;
        let Branch { pipe, then, .. } = self.branch;
        self.exec.check(self.exec.run.work(1))?;
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
