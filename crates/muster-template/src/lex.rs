//! The lexer: splits a template into the tokens that Go's lexer produces.

use super::unicode::is_alphanumeric;

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
/// A trim marker is a hyphen with white space on its inner side.
const MARKER: usize = 2;

/// A token and where it begins, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    pub(crate) at: usize,
    pub(crate) text: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Assign,
    Bool,
    Char,
    CharConstant,
    Complex,
    Declare,
    Dot,
    End,
    Field,
    Identifier,
    Keyword(Keyword),
    LeftDelim,
    LeftParen,
    Nil,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    /// A lexical error; [`Lexed::error`] has the message.
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// All tokens of a text; the last one is `End` or `Error`.
#[derive(Debug)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) error: String,
}

/// Splits `input` into tokens.
pub(crate) fn lex(input: &str) -> Lexed<'_> {
    let mut lexer = Lexer { input, at: 0, start: 0, parens: 0, tokens: Vec::new() };
    let error = lexer.state().err().unwrap_or_default();
    let kind = if error.is_empty() { TokenKind::End } else { TokenKind::Error };
    lexer.tokens.push(Token { kind, at: lexer.start, text: "" });
    Lexed { tokens: lexer.tokens, error }
}

struct Lexer<'a> {
    input: &'a str,
    at: usize,
    start: usize,
    parens: u32,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn state(&mut self) -> Result<(), String> {
        while !self.rest().is_empty() {
            if self.text()? {
                while !self.action()? {}
            }
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        self.input.get(self.at..).unwrap_or_default()
    }

    fn word(&self) -> &'a str {
        self.input.get(self.start..self.at).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn emit(&mut self, kind: TokenKind) {
        self.tokens.push(Token { kind, at: self.start, text: self.word() });
        self.start = self.at;
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.start = self.at;
    }

    /// Reads text up to an action and its opening delimiter; `false` at the end and after a comment.
    fn text(&mut self) -> Result<bool, String> {
        let rest = self.rest();
        let Some((text, action)) = rest.split_once(LEFT) else {
            self.at = self.input.len();
            self.emit(TokenKind::Text);
            return Ok(false);
        };
        let trims = starts_with_marker(action);
        let kept = if trims { text.trim_end_matches(SPACES) } else { text };
        self.at += kept.len();
        if !kept.is_empty() {
            self.emit(TokenKind::Text);
        }
        self.skip(text.len() - kept.len());
        let marker = if trims { MARKER } else { 0 };
        if action.get(marker..).is_some_and(|action| action.starts_with("/*")) {
            self.skip(LEFT.len() + marker);
            self.comment()?;
            return Ok(false);
        }
        self.at += LEFT.len();
        self.emit(TokenKind::LeftDelim);
        self.skip(marker);
        self.parens = 0;
        Ok(true)
    }

    fn comment(&mut self) -> Result<(), String> {
        let Some((comment, _)) = self.rest().split_once("*/") else {
            return Err("unclosed comment".to_owned());
        };
        self.at += comment.len() + "*/".len();
        if !self.right_delim(false) {
            return Err("comment ends before closing delimiter".to_owned());
        }
        Ok(())
    }

    /// Skips the closing delimiter, if it is next.
    fn right_delim(&mut self, emit: bool) -> bool {
        let trims = at_trimming_delim(self.rest());
        if trims {
            self.skip(MARKER);
        }
        if !self.rest().starts_with(RIGHT) {
            return false;
        }
        self.at += RIGHT.len();
        if emit {
            self.emit(TokenKind::RightDelim);
        }
        let after = self.rest();
        self.skip(if trims { after.len() - after.trim_start_matches(SPACES).len() } else { 0 });
        true
    }

    /// Reads one token inside an action; `true` at the end of the action.
    fn action(&mut self) -> Result<bool, String> {
        if at_trimming_delim(self.rest()) || self.rest().starts_with(RIGHT) {
            if self.parens > 0 {
                return Err("unclosed left paren".to_owned());
            }
            return Ok(self.right_delim(true));
        }
        let Some(c) = self.next() else { return Err("unclosed action".to_owned()) };
        match c {
            c if is_space(c) => self.spaces(),
            '=' => self.emit(TokenKind::Assign),
            ':' if self.next() != Some('=') => return Err("expected :=".to_owned()),
            ':' => self.emit(TokenKind::Declare),
            '|' => self.emit(TokenKind::Pipe),
            '"' => self.quoted('"', "unterminated quoted string", TokenKind::String)?,
            '\'' => {
                self.quoted('\'', "unterminated character constant", TokenKind::CharConstant)?;
            }
            '`' => self.raw_string()?,
            '$' => self.name(TokenKind::Variable, TokenKind::Variable)?,
            '.' if !self.peek().is_some_and(|c| c.is_ascii_digit()) && self.peek().is_some() => {
                self.name(TokenKind::Field, TokenKind::Dot)?;
            }
            '.' | '+' | '-' | '0'..='9' => self.number()?,
            c if is_alphanumeric(c) => self.identifier()?,
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::LeftParen);
            }
            ')' if self.parens == 0 => return Err("unexpected right paren".to_owned()),
            ')' => {
                self.parens -= 1;
                self.emit(TokenKind::RightParen);
            }
            c if c.is_ascii_graphic() => self.emit(TokenKind::Char),
            c => return Err(format!("unrecognized character in action: {}", code_point(c))),
        }
        Ok(false)
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(SPACES).len();
        // The last space may belong to a trim marker.
        let back = self.at - 1;
        if self.input.get(back..).is_some_and(at_trimming_delim) {
            self.at = back;
        }
        if self.at > self.start {
            self.emit(TokenKind::Space);
        }
    }

    fn quoted(&mut self, quote: char, unterminated: &str, kind: TokenKind) -> Result<(), String> {
        loop {
            let c = match self.next() {
                Some('\\') if !matches!(self.peek(), None | Some('\n')) => {
                    self.next();
                    continue;
                }
                c => c,
            };
            match c {
                None | Some('\n' | '\\') => return Err(unterminated.to_owned()),
                Some(c) if c == quote => break,
                Some(_) => {}
            }
        }
        self.emit(kind);
        Ok(())
    }

    fn raw_string(&mut self) -> Result<(), String> {
        let Some((raw, _)) = self.rest().split_once('`') else {
            return Err("unterminated raw quoted string".to_owned());
        };
        self.at += raw.len() + 1;
        self.emit(TokenKind::RawString);
        Ok(())
    }

    /// Reads the name after `.` or `$`; gives `bare` without one.
    fn name(&mut self, kind: TokenKind, bare: TokenKind) -> Result<(), String> {
        if self.at_terminator() {
            self.emit(bare);
            return Ok(());
        }
        self.alphanumerics();
        self.terminated()?;
        self.emit(kind);
        Ok(())
    }

    fn identifier(&mut self) -> Result<(), String> {
        self.alphanumerics();
        self.terminated()?;
        let keyword = match self.word() {
            "block" => Keyword::Block,
            "break" => Keyword::Break,
            "continue" => Keyword::Continue,
            "define" => Keyword::Define,
            "else" => Keyword::Else,
            "end" => Keyword::End,
            "if" => Keyword::If,
            "range" => Keyword::Range,
            "template" => Keyword::Template,
            "with" => Keyword::With,
            word => {
                self.emit(match word {
                    "nil" => TokenKind::Nil,
                    "true" | "false" => TokenKind::Bool,
                    _ => TokenKind::Identifier,
                });
                return Ok(());
            }
        };
        self.emit(TokenKind::Keyword(keyword));
        Ok(())
    }

    fn alphanumerics(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_alphanumeric).len();
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) => is_space(c) || self.rest().starts_with(RIGHT),
        }
    }

    fn terminated(&self) -> Result<(), String> {
        match self.peek() {
            Some(c) if !self.at_terminator() => Err(format!("bad character {}", code_point(c))),
            _ => Ok(()),
        }
    }

    fn number(&mut self) -> Result<(), String> {
        self.at = self.start;
        let mut good = self.scan_number();
        let mut kind = TokenKind::Number;
        if good && matches!(self.peek(), Some('+' | '-')) {
            good = self.scan_number() && self.word().ends_with('i');
            kind = TokenKind::Complex;
        }
        if !good {
            return Err(format!("bad number syntax: {:?}", self.word()));
        }
        self.emit(kind);
        Ok(())
    }

    fn accept(&mut self, set: &str) -> bool {
        let accepted = self.peek().is_some_and(|c| set.contains(c));
        if accepted {
            self.next();
        }
        accepted
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = match digits {
            DECIMAL => self.accept("eE"),
            HEX => self.accept("pP"),
            _ => false,
        };
        if exponent {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return false;
        }
        true
    }
}

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_space(c: char) -> bool {
    SPACES.contains(&c)
}

fn starts_with_marker(action: &str) -> bool {
    action.strip_prefix('-').is_some_and(|rest| rest.starts_with(SPACES))
}

fn at_trimming_delim(rest: &str) -> bool {
    let after = rest.strip_prefix(SPACES).and_then(|rest| rest.strip_prefix('-'));
    after.is_some_and(|rest| rest.starts_with(RIGHT))
}

/// `U+003C '<'`, as Go writes it.
fn code_point(c: char) -> String {
    let number = format!("U+{:04X}", u32::from(c));
    if super::unicode::is_print(c) { format!("{number} '{c}'") } else { number }
}
