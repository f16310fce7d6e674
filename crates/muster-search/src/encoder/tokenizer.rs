//! The WordPiece tokenizer of uncased BERT models.

use std::{borrow::Cow, cmp::Ordering};

use unicode_normalization::UnicodeNormalization as _;

use crate::encoder::weights::{ModelFile, ModelLoadError};

/// The length from which on a word is unknown.
const LONGEST_WORD: usize = 100;

/// Splits words into the longest pieces that the vocabulary has.
pub(crate) struct Tokenizer {
    pieces: Vocabulary,
    begin: usize,
    end: usize,
    unknown: usize,
}

/// The pieces, found by their text. The text is kept as it is: the one of a built-in model is not copied.
struct Vocabulary {
    text: Cow<'static, [u8]>,
    /// Where each piece starts, with the end of the text as the last.
    starts: Vec<u32>,
    /// The numbers of the pieces in the order of their texts.
    sorted: Vec<u32>,
}

impl Vocabulary {
    /// One piece per line.
    fn new(text: Cow<'static, [u8]>) -> Option<Self> {
        let mut starts = vec![0_u32];
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            starts.push(starts.last()?.checked_add(u32::try_from(line.len()).ok()?)?);
        }
        let count = u32::try_from(starts.len() - 1).ok()?;
        let mut vocabulary = Self { text, starts, sorted: Vec::new() };
        let mut sorted: Vec<u32> = (0..count).collect();
        sorted.sort_by(|a, b| vocabulary.piece(*a).cmp(vocabulary.piece(*b)));
        vocabulary.sorted = sorted;
        Some(vocabulary)
    }

    fn piece(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let line = self.starts.get(at).zip(self.starts.get(at + 1));
        let line = line.and_then(|(start, end)| self.text.get(*start as usize..*end as usize));
        line.unwrap_or_default().trim_ascii_end()
    }

    /// The number of the piece `prefix` + `rest`.
    fn find(&self, prefix: &str, rest: &str) -> Option<usize> {
        let compare = |number: &u32| -> Ordering {
            self.piece(*number).iter().cmp(prefix.as_bytes().iter().chain(rest.as_bytes()))
        };
        let at = self.sorted.binary_search_by(compare).ok()?;
        self.sorted.get(at).map(|number| *number as usize)
    }
}

impl Tokenizer {
    /// Loads a vocabulary: one piece per line.
    pub(crate) fn read(file: ModelFile) -> Result<Self, ModelLoadError> {
        let malformed = file.malformed("there is no `[CLS]`, `[SEP]` or `[UNK]`");
        Self::of(file.bytes).ok_or(malformed)
    }

    fn of(vocabulary: Cow<'static, [u8]>) -> Option<Self> {
        let pieces = Vocabulary::new(vocabulary)?;
        let number = |piece: &str| pieces.find("", piece);
        let (begin, end, unknown) = (number("[CLS]")?, number("[SEP]")?, number("[UNK]")?);
        Some(Self { pieces, begin, end, unknown })
    }

    /// The pieces of a text between the start and end markers, at most `limit`.
    pub(crate) fn read_text(&self, text: &str, most: usize) -> Vec<usize> {
        let mut tokens = vec![self.begin];
        for word in words(text) {
            self.split(&word, &mut tokens);
            if tokens.len() >= most {
                break;
            }
        }
        tokens.truncate(most.saturating_sub(1).max(1));
        tokens.push(self.end);
        tokens
    }

    fn split(&self, word: &str, tokens: &mut Vec<usize>) {
        let before = tokens.len();
        let mut rest = word;
        if word.chars().count() > LONGEST_WORD {
            tokens.push(self.unknown);
            return;
        }
        while !rest.is_empty() {
            let inside = rest.len() < word.len();
            let found =
                rest.char_indices().map(|(at, sign)| at + sign.len_utf8()).rev().find_map(|end| {
                    let piece = rest.get(..end)?;
                    let prefix = if inside { "##" } else { "" };
                    Some((self.pieces.find(prefix, piece)?, end))
                });
            let Some((number, end)) = found else {
                tokens.truncate(before);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(number);
            rest = rest.get(end..).unwrap_or_default();
        }
    }
}

/// Words in lower case without accents; punctuation is separated.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for sign in text.nfd().flat_map(char::to_lowercase) {
        if is_accent(sign) || sign == '\0' || sign == '\u{fffd}' {
            continue;
        }
        if sign.is_whitespace() || sign.is_control() {
            open = false;
        } else if is_alone(sign) {
            words.push(sign.to_string());
            open = false;
        } else {
            if !open {
                words.push(String::new());
                open = true;
            }
            if let Some(word) = words.last_mut() {
                word.push(sign);
            }
        }
    }
    words
}

fn is_accent(sign: char) -> bool {
    unicode_normalization::char::is_combining_mark(sign)
}

/// Whether a character is punctuation or a symbol, which is a word of its own.
fn is_alone(sign: char) -> bool {
    let is_word = matches!(
        sign,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}'
    );
    let is_general = matches!(sign, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}');
    is_word || is_general || sign.is_ascii_punctuation() || "¡§«¶·»¿".contains(sign)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Tokenizer, words};

    #[test]
    fn words_are_lower_case_without_accents() {
        assert_eq!(
            words("Hello, Größe!  ÉCOLE_x"),
            ["hello", ",", "große", "!", "ecole", "_", "x"]
        );
        assert_eq!(words("日本 a"), ["日", "本", "a"]);
    }

    #[test]
    fn the_longest_pieces_are_taken() {
        let tokenizer = Tokenizer::of(Cow::Borrowed(
            b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n##in\n##g\nthe",
        ))
        .unwrap();
        assert_eq!(tokenizer.read_text("The playing", 10), [2, 8, 4, 5, 3]);
        assert_eq!(tokenizer.read_text("xyz the", 10), [2, 1, 8, 3]);
        assert_eq!(tokenizer.read_text("the the the the", 3), [2, 8, 3]);
        assert!(Tokenizer::of(Cow::Borrowed(b"a\nb")).is_none());
    }
}
