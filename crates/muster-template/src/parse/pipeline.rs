//! The inside of an action: declarations, commands, operands.

use super::{Parsed, Parser};
use crate::{
    ast::{Command, Operand, Pipe, Term},
    functions,
    lex::{Token, TokenKind},
    number::Number,
    quote::{quote, unquote},
};

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: TokenKind) -> Parsed<Pipe> {
        let at = self.peek_word().at;
        let (assigns, variables) = self.declarations(context)?;
        let mut commands = Vec::new();
        loop {
            let token = self.peek_word();
            match token.kind {
                kind if kind == end => {
                    self.next();
                    break;
                }
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::String
                | TokenKind::Variable
                | TokenKind::LeftParen => commands.push(self.command()?),
                _ => {
                    self.next();
                    return self.unexpected(token, context);
                }
            }
        }
        if commands.is_empty() {
            return self.error(&format!("missing value for {context}"));
        }
        for (i, command) in commands.iter().enumerate().skip(1) {
            if !command.operands.first().is_some_and(|operand| can_be_called(&operand.term)) {
                let stage = i + 1;
                return self.error(&format!("non executable command in pipeline stage {stage}"));
            }
        }
        Ok(Pipe { at, assigns, variables, commands })
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, context: &str) -> Parsed<(bool, Vec<String>)> {
        let mut variables = Vec::new();
        loop {
            let variable = self.peek_word();
            if variable.kind != TokenKind::Variable {
                return Ok((false, variables));
            }
            let start = self.next;
            self.next();
            let sign = self.peek_word();
            let comma = sign.kind == TokenKind::Char && sign.text == ",";
            if !comma && !matches!(sign.kind, TokenKind::Assign | TokenKind::Declare) {
                self.next = start;
                return Ok((false, variables));
            }
            self.next();
            variables.push(variable.text.to_owned());
            self.variables.push(variable.text);
            if !comma {
                return Ok((sign.kind == TokenKind::Assign, variables));
            }
            if context != "range" || variables.len() >= 2 {
                return self.error(&format!("too many declarations in {context}"));
            }
            let after = self.peek_word().kind;
            if !matches!(after, TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen)
            {
                return self.error("range can only initialize variables");
            }
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        let at = self.peek_word().at;
        let mut operands = Vec::new();
        loop {
            self.peek_word();
            operands.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.next -= 1,
                TokenKind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if operands.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { at, operands })
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(mut operand) = self.term()? else { return Ok(None) };
        if self.peek().kind != TokenKind::Field {
            return Ok(Some(operand));
        }
        let at = self.peek().at;
        let mut fields = Vec::new();
        while self.peek().kind == TokenKind::Field {
            fields.push(field_name(self.next()));
        }
        match &mut operand.term {
            Term::Field(known) | Term::Variable(_, known) => {
                known.append(&mut fields);
                operand.at = at;
            }
            Term::Bool(_) | Term::Text { .. } | Term::Number(_) | Term::Nil | Term::Dot => {
                let shown = quote(operand.to_string().as_bytes(), false);
                return self.error(&format!("unexpected . after term {shown}"));
            }
            Term::Function(_) | Term::Chain(..) | Term::Pipe(_) => {
                operand = Operand { at, term: Term::Chain(Box::new(operand), fields) };
            }
        }
        Ok(Some(operand))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let token = self.next_word();
        let term = match token.kind {
            TokenKind::Identifier => match functions::find(token.text) {
                Some(function) => Term::Function(function),
                None => {
                    let name = quote(token.text.as_bytes(), false);
                    return self.error(&format!("function {name} not defined"));
                }
            },
            TokenKind::Dot => Term::Dot,
            TokenKind::Nil => Term::Nil,
            TokenKind::Variable if self.variables.contains(&token.text) => {
                Term::Variable(token.text.to_owned(), Vec::new())
            }
            TokenKind::Variable => {
                return self.error(&format!("undefined variable {:?}", token.text));
            }
            TokenKind::Field => Term::Field(vec![field_name(token)]),
            TokenKind::Bool => Term::Bool(token.text == "true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                match Number::read(token.text, token.kind) {
                    Ok(number) => Term::Number(number),
                    Err(message) => return self.error(&message),
                }
            }
            TokenKind::LeftParen => {
                self.deeper()?;
                let pipe = self.pipeline("parenthesized pipeline", TokenKind::RightParen)?;
                self.depth -= 1;
                // As in Go, errors print a parenthesised pipeline without parentheses, at the position of its content.
                return Ok(Some(Operand { at: pipe.at, term: Term::Pipe(Box::new(pipe)) }));
            }
            TokenKind::String | TokenKind::RawString => match unquote(token.text) {
                Some(bytes) => Term::Text { literal: token.text.to_owned(), bytes },
                None => return self.error("invalid syntax"),
            },
            _ => {
                self.next -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Operand { at: token.at, term }))
    }
}

/// Whether a value can be piped into the term.
const fn can_be_called(term: &Term) -> bool {
    !matches!(term, Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text { .. })
}

fn field_name(token: Token<'_>) -> String {
    token.text.trim_start_matches('.').to_owned()
}
