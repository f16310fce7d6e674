//! The syntax tree of a template. Every node has its position, and prints as Go prints it in errors.

use std::fmt;

use super::{functions::Function, number::Number, quote::quote};

/// A position in the template's text, in bytes.
pub(crate) type Pos = usize;

/// A named template: the text itself, or one of its `define`s and `block`s.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Whether it is empty but for white space, and so may be redefined.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
    }
}

#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template { at: Pos, name: String, pipe: Option<Pipe> },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) then: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) at: Pos,
    /// `=` rather than `:=`.
    pub(crate) assigns: bool,
    pub(crate) variables: Vec<String>,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) at: Pos,
    pub(crate) operands: Vec<Operand>,
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) at: Pos,
    pub(crate) term: Term,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text {
        literal: String,
        bytes: Vec<u8>,
    },
    Function(&'static Function),
    /// `.a.b`
    Field(Vec<String>),
    /// `$x.a.b`, the name with its `$`.
    Variable(String, Vec<String>),
    /// `(…).a.b`
    Chain(Box<Operand>, Vec<String>),
    Pipe(Box<Pipe>),
}

/// The part of the source that an error quotes, with its position.
#[derive(Clone, Copy)]
pub(crate) enum SourceSpot<'t> {
    Template(&'t Node),
    Pipe(&'t Pipe),
    Command(&'t Command),
    Operand(&'t Operand),
}

impl SourceSpot<'_> {
    pub(crate) const fn at(self) -> Pos {
        match self {
            Self::Template(Node::Template { at, .. }) => *at,
            Self::Template(_) => 0,
            Self::Pipe(pipe) => pipe.at,
            Self::Command(command) => command.at,
            Self::Operand(operand) => operand.at,
        }
    }
}

impl fmt::Display for SourceSpot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(Node::Template { name, pipe, .. }) => {
                write!(f, "{{{{template {}", quote(name.as_bytes(), false))?;
                if let Some(pipe) = pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            Self::Template(_) => Ok(()),
            Self::Pipe(pipe) => fmt::Display::fmt(pipe, f),
            Self::Command(command) => fmt::Display::fmt(command, f),
            Self::Operand(operand) => fmt::Display::fmt(operand, f),
        }
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (i, command) in self.commands.iter().enumerate() {
            let bar = if i > 0 { " | " } else { "" };
            write!(f, "{bar}{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, operand) in self.operands.iter().enumerate() {
            let space = if i > 0 { " " } else { "" };
            match &operand.term {
                Term::Pipe(pipe) => write!(f, "{space}({pipe})")?,
                _ => write!(f, "{space}{operand}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = match &self.term {
            Term::Dot => return f.write_str("."),
            Term::Nil => return f.write_str("nil"),
            Term::Bool(yes) => return write!(f, "{yes}"),
            Term::Number(number) => return f.write_str(&number.text),
            Term::Text { literal, .. } => return f.write_str(literal),
            Term::Function(function) => return f.write_str(function.name),
            Term::Pipe(pipe) => return fmt::Display::fmt(pipe, f),
            Term::Field(fields) => fields,
            Term::Variable(name, fields) => {
                f.write_str(name)?;
                fields
            }
            Term::Chain(operand, fields) => {
                match &operand.term {
                    Term::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{operand}")?,
                }
                fields
            }
        };
        fields.iter().try_for_each(|field| write!(f, ".{field}"))
    }
}
