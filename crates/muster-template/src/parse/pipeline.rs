//! What stands inside an action: declarations, commands, operands.

use super::{Parsed, Parser};
use crate::{
    ast::{Command, Pipe, Term, Word},
    functions,
    lex::{Kind, Token},
    number::Number,
    quote::{quote, unquote},
};

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
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
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => commands.push(self.command()?),
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
            if !command.words.first().is_some_and(|word| can_be_called(&word.term)) {
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
            if variable.kind != Kind::Variable {
                return Ok((false, variables));
            }
            let start = self.next;
            self.next();
            let sign = self.peek_word();
            let comma = sign.kind == Kind::Char && sign.text == ",";
            if !comma && !matches!(sign.kind, Kind::Assign | Kind::Declare) {
                self.next = start;
                return Ok((false, variables));
            }
            self.next();
            variables.push(variable.text.to_owned());
            self.variables.push(variable.text);
            if !comma {
                return Ok((sign.kind == Kind::Assign, variables));
            }
            if context != "range" || variables.len() >= 2 {
                return self.error(&format!("too many declarations in {context}"));
            }
            let after = self.peek_word().kind;
            if !matches!(after, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                return self.error("range can only initialize variables");
            }
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        let at = self.peek_word().at;
        let mut words = Vec::new();
        loop {
            self.peek_word();
            words.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.next -= 1,
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if words.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { at, words })
    }

    fn operand(&mut self) -> Parsed<Option<Word>> {
        let Some(mut word) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(word));
        }
        let at = self.peek().at;
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(field_name(self.next()));
        }
        match &mut word.term {
            Term::Field(known) | Term::Variable(_, known) => {
                known.append(&mut fields);
                word.at = at;
            }
            Term::Bool(_) | Term::Text { .. } | Term::Number(_) | Term::Nil | Term::Dot => {
                let shown = quote(word.to_string().as_bytes(), false);
                return self.error(&format!("unexpected . after term {shown}"));
            }
            Term::Function(_) | Term::Chain(..) | Term::Pipe(_) => {
                word = Word { at, term: Term::Chain(Box::new(word), fields) };
            }
        }
        Ok(Some(word))
    }

    fn term(&mut self) -> Parsed<Option<Word>> {
        let token = self.next_word();
        let term = match token.kind {
            Kind::Identifier => match functions::find(token.text) {
                Some(function) => Term::Function(function),
                None => {
                    let name = quote(token.text.as_bytes(), false);
                    return self.error(&format!("function {name} not defined"));
                }
            },
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable if self.variables.contains(&token.text) => {
                Term::Variable(token.text.to_owned(), Vec::new())
            }
            Kind::Variable => {
                return self.error(&format!("undefined variable {:?}", token.text));
            }
            Kind::Field => Term::Field(vec![field_name(token)]),
            Kind::Bool => Term::Bool(token.text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                match Number::read(token.text, token.kind) {
                    Ok(number) => Term::Number(number),
                    Err(message) => return self.error(&message),
                }
            }
            Kind::LeftParen => {
                self.deeper()?;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.depth -= 1;
                // A parenthesis prints without its parentheses, but stands where its content does.
                return Ok(Some(Word { at: pipe.at, term: Term::Pipe(Box::new(pipe)) }));
            }
            Kind::String | Kind::RawString => match unquote(token.text) {
                Some(bytes) => Term::Text { literal: token.text.to_owned(), bytes },
                None => return self.error("invalid syntax"),
            },
            _ => {
                self.next -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Word { at: token.at, term }))
    }
}

/// Whether a value can be piped into it.
const fn can_be_called(term: &Term) -> bool {
    !matches!(term, Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text { .. })
}

fn field_name(token: Token<'_>) -> String {
    token.text.trim_start_matches('.').to_owned()
}
