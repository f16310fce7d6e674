//! The tokens of a pattern: characters and escapes.

/// A token of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A character.
    Plain(char),
    /// An escaped character.
    Escaped(char),
}

/// A cursor over the tokens of a pattern.
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

    /// Consumes `character` if it is next.
    pub(super) fn eat(&mut self, character: char) -> bool {
        let found = self.peek() == Some(Token::Plain(character));
        self.at += usize::from(found);
        found
    }

    /// Consumes at most `most` digits of a radix.
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

    /// Consumes a name and the character that ends it.
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

    /// Skips to just after `end`; false if there is none.
    pub(super) fn skip_past(&mut self, end: char) -> bool {
        while let Some(token) = self.next() {
            if token == Token::Plain(end) {
                return true;
            }
        }
        false
    }

    /// The current position, for [`Tokens::back_to`].
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn back_to(&mut self, position: usize) {
        self.at = position;
    }
}
