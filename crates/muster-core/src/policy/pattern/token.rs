//! The units a pattern is read in: characters, and characters behind a backslash.

/// One unit of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A character that stands alone.
    Plain(char),
    /// A character and the backslash before it.
    Escaped(char),
}

/// A pattern and how far it has been read.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: Vec<Token>,
    at: usize,
}

impl Tokens {
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut characters = source.chars();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                '\\' => Token::Escaped(characters.next().ok_or("bad escape at the end")?),
                _ => Token::Plain(character),
            });
        }
        Ok(Self { tokens, at: 0 })
    }

    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// Goes over `character` if it is next.
    pub(super) fn eat(&mut self, character: char) -> bool {
        let found = self.peek() == Some(Token::Plain(character));
        self.at += usize::from(found);
        found
    }

    /// Takes digits of a base, at most so many.
    pub(super) fn digits(&mut self, radix: u32, most: usize) -> String {
        let mut digits = String::new();
        while let Some(Token::Plain(digit)) = self.peek().filter(|_| digits.len() < most) {
            if !digit.is_digit(radix) {
                break;
            }
            digits.push(digit);
            self.at += 1;
        }
        digits
    }

    /// Takes a name, and the character that ends it.
    pub(super) fn name(&mut self, end: char) -> Result<String, String> {
        let mut name = String::new();
        loop {
            match self.next() {
                None => return Err(format!("missing `{end}` after a group name")),
                Some(Token::Plain(character)) if character == end => break,
                Some(Token::Plain(character)) => name.push(character),
                Some(Token::Escaped(character)) => name.extend(['\\', character]),
            }
        }
        if name.is_empty() { Err("missing group name".to_owned()) } else { Ok(name) }
    }

    /// Goes to just behind `end`; false if there is none.
    pub(super) fn skip_past(&mut self, end: char) -> bool {
        while let Some(token) = self.next() {
            if token == Token::Plain(end) {
                return true;
            }
        }
        false
    }

    /// Where reading has come to, for [`Tokens::back_to`].
    pub(super) fn place(&self) -> usize {
        self.at
    }

    pub(super) fn back_to(&mut self, place: usize) {
        self.at = place;
    }
}
