//! What a template looks at and calls, without running it.

use std::collections::BTreeMap;

use super::{
    ast::{Branch, Node, Pipe, Term, Tree, Word},
    error::Lines,
    functions::{Call, Function},
};

/// A path into the data: `.input.x` is `["input", "x"]`, a lone `.` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The keys, from the root of the data.
    pub path: Vec<String>,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0.
    pub column: usize,
}

/// A call of a function that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The function.
    pub name: &'static str,
    /// Why it is refused.
    pub reason: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0.
    pub column: usize,
}

impl Reference {
    /// The reference of a text that is one key under a root.
    pub(super) fn key(text: &str, root: &str, key: &str) -> Self {
        let at = text.find("{{").unwrap_or(0);
        let (line, column) = Lines::of(text).place(at);
        Self { path: vec![root.to_owned(), key.to_owned()], line, column }
    }
}

impl Pipe {
    /// Whether it is one path and nothing else.
    pub(super) fn is_bare_field(&self) -> bool {
        match &*self.commands {
            [command] => match &*command.words {
                [word] => match &word.term {
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

/// The references of the first tree; the others are given their data by it.
pub(super) fn of(text: &str, trees: &[Tree]) -> Vec<Reference> {
    let lines = Lines::of(text);
    let mut found = Vec::new();
    let mut visit = |at, seen: Seen<'_>| {
        if let Seen::Path(path) = seen {
            let (line, column) = lines.place(at);
            found.push(Reference { path: path.to_vec(), line, column });
        }
    };
    if let Some(tree) = trees.first() {
        nodes(&tree.nodes, Dot::Root, &mut visit);
    }
    found
}

/// The refused calls of all trees.
pub(super) fn refusals(text: &str, trees: &[Tree]) -> Vec<Refusal> {
    let lines = Lines::of(text);
    let mut found = Vec::new();
    let mut visit = |at, seen: Seen<'_>| {
        if let Seen::Call(Function { name, call: Call::Refused(reason), .. }) = seen {
            let (line, column) = lines.place(at);
            found.push(Refusal { name, reason, line, column });
        }
    };
    for tree in trees {
        nodes(&tree.nodes, Dot::Root, &mut visit);
    }
    found
}

/// What `.` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dot {
    Root,
    Other,
}

enum Seen<'t> {
    Path(&'t [String]),
    Call(&'static Function),
}

type Visit<'v> = &'v mut dyn FnMut(usize, Seen<'_>);

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
    for word in pipe.commands.iter().flat_map(|command| &command.words) {
        self::word(word, dot, visit);
    }
}

fn word(word: &Word, dot: Dot, visit: Visit<'_>) {
    match &word.term {
        Term::Dot if dot == Dot::Root => visit(word.at, Seen::Path(&[])),
        Term::Field(path) if dot == Dot::Root => visit(word.at, Seen::Path(path)),
        Term::Variable(name, path) if name == "$" => visit(word.at, Seen::Path(path)),
        Term::Chain(inner, _) => self::word(inner, dot, visit),
        Term::Pipe(pipe) => pipeline(pipe, dot, visit),
        Term::Function(function) => visit(word.at, Seen::Call(function)),
        Term::Dot
        | Term::Field(_)
        | Term::Variable(..)
        | Term::Nil
        | Term::Bool(_)
        | Term::Number(_)
        | Term::Text { .. } => {}
    }
}

/// Which parts of the data are looked at.
#[derive(Debug, Default)]
pub(super) struct Wanted<'t> {
    /// This and everything below.
    pub(super) all: bool,
    pub(super) keys: BTreeMap<&'t str, Self>,
}

impl<'t> Wanted<'t> {
    pub(super) fn add(&mut self, path: &'t [String]) {
        match path.split_first() {
            None => self.all = true,
            Some((key, path)) => self.keys.entry(key).or_default().add(path),
        }
    }
}
