//! Static analysis: the data paths and functions that a template uses.

use std::collections::BTreeMap;

use super::{
    ast::{Branch, Node, Operand, Pipe, Term, Tree},
    error::LineIndex,
    functions::{Call, Function},
};

/// A path into the data: `.input.x` is `["input", "x"]`, a lone `.` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReference {
    /// The keys, from the root of the data.
    pub path: Vec<String>,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0.
    pub column: usize,
}

/// A call of a function that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCall {
    /// The function.
    pub name: &'static str,
    /// Why it is refused.
    pub reason: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0.
    pub column: usize,
}

impl DataReference {
    /// The reference of a template that is a single path below a root.
    pub(super) fn key(text: &str, root: &str, key: &str) -> Self {
        let at = text.find("{{").unwrap_or(0);
        let (line, column) = LineIndex::of(text).place(at);
        let path = std::iter::once(root).chain(key.split('.')).map(str::to_owned).collect();
        Self { path, line, column }
    }
}

impl Pipe {
    /// Whether it is a single path.
    pub(super) fn is_bare_field(&self) -> bool {
        match &*self.commands {
            [command] => match &*command.operands {
                [operand] => match &operand.term {
                    Term::Field(_) => true,
                    Term::Variable(name, fields) => name == "$" && !fields.is_empty(),
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }
}

/// The references of the main template; the others get their data from it.
pub(super) fn of(text: &str, trees: &[Tree]) -> Vec<DataReference> {
    let lines = LineIndex::of(text);
    let mut found = Vec::new();
    let mut visit = |at, seen: Use<'_>| {
        if let Use::Path(path) = seen {
            let (line, column) = lines.place(at);
            found.push(DataReference { path: path.to_vec(), line, column });
        }
    };
    if let Some(tree) = trees.first() {
        nodes(&tree.nodes, Dot::Root, &mut visit);
    }
    found
}

/// The refused calls of all trees.
pub(super) fn refusals(text: &str, trees: &[Tree]) -> Vec<RefusedCall> {
    let lines = LineIndex::of(text);
    let mut found = Vec::new();
    let mut visit = |at, seen: Use<'_>| {
        if let Use::Call(Function { name, call: Call::Refused(reason), .. }) = seen {
            let (line, column) = lines.place(at);
            found.push(RefusedCall { name, reason, line, column });
        }
    };
    for tree in trees {
        nodes(&tree.nodes, Dot::Root, &mut visit);
    }
    found
}

/// The value of `.`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dot {
    Root,
    Other,
}

enum Use<'t> {
    Path(&'t [String]),
    Call(&'static Function),
}

type Visit<'v> = &'v mut dyn FnMut(usize, Use<'_>);

fn nodes(list: &[Node], dot: Dot, visit: Visit<'_>) {
    for node in list {
        match node {
            Node::Text(_) | Node::Break | Node::Continue => {}
            Node::Action(pipe) => pipeline(pipe, dot, visit),
            Node::If(branch) => branches(branch, dot, dot, visit),
            Node::With(branch) | Node::Range(branch) => branches(branch, dot, Dot::Other, visit),
            Node::Template { pipe, .. } => {
                if let Some(pipe) = pipe {
                    pipeline(pipe, dot, visit);
                }
            }
        }
    }
}

fn branches(branch: &Branch, dot: Dot, inside: Dot, visit: Visit<'_>) {
    pipeline(&branch.pipe, dot, visit);
    nodes(&branch.then, inside, visit);
    nodes(branch.otherwise.as_deref().unwrap_or_default(), dot, visit);
}

fn pipeline(pipe: &Pipe, dot: Dot, visit: Visit<'_>) {
    for operand in pipe.commands.iter().flat_map(|command| &command.operands) {
        self::operand(operand, dot, visit);
    }
}

fn operand(operand: &Operand, dot: Dot, visit: Visit<'_>) {
    match &operand.term {
        Term::Dot if dot == Dot::Root => visit(operand.at, Use::Path(&[])),
        Term::Field(path) if dot == Dot::Root => visit(operand.at, Use::Path(path)),
        Term::Variable(name, path) if name == "$" => visit(operand.at, Use::Path(path)),
        Term::Chain(inner, _) => self::operand(inner, dot, visit),
        Term::Pipe(pipe) => pipeline(pipe, dot, visit),
        Term::Function(function) => visit(operand.at, Use::Call(function)),
        Term::Dot
        | Term::Field(_)
        | Term::Variable(..)
        | Term::Nil
        | Term::Bool(_)
        | Term::Number(_)
        | Term::Text { .. } => {}
    }
}

/// The parts of the data that are used.
#[derive(Debug, Default)]
pub(super) struct UsedPaths<'t> {
    /// Whether the value is used as a whole.
    pub(super) all: bool,
    pub(super) keys: BTreeMap<&'t str, Self>,
}

impl<'t> UsedPaths<'t> {
    pub(super) fn add(&mut self, path: &'t [String]) {
        match path.split_first() {
            None => self.all = true,
            Some((key, path)) => self.keys.entry(key).or_default().add(path),
        }
    }
}
