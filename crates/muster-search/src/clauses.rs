//! The clauses of a query that asks for several things.
//!
//! "Book a flight to Rome and mail me the invoice" is near to the tools of neither request, but each clause is near to its own.
//! Where to split is guessed from punctuation and conjunctions, so that a clause may be a fragment. It is the task of the
//! caller to give little weight to clauses that match nothing well.

use std::ops::Range;

use super::words::{self, Words};

/// The maximum number of clauses; others are ignored.
const MOST: usize = 12;
/// A clause with fewer words besides stop words belongs to the one before it.
const LEAST_WORDS: usize = 2;
/// The number of characters of a clause that are used. It bounds what the clauses of a very long query cost.
const LONGEST: usize = 200;

/// Words that begin another clause.
const CONJUNCTIONS: [&str; 14] = [
    "and",
    "but",
    "then",
    "also",
    "plus",
    "besides",
    "afterward",
    "afterwards",
    "additionally",
    "furthermore",
    "moreover",
    "finally",
    "lastly",
    "&",
];
/// Words that do so after a comma only.
const AFTER_COMMA: [&str; 3] = ["or", "so", "next"];
/// Phrases that do so.
const PHRASES: [&[&str]; 3] = [&["as", "well", "as"], &["after", "that"], &["in", "addition"]];

/// The clauses of a query, in order; none if it has only one.
pub(crate) fn clauses(text: &str) -> Vec<&str> {
    let chunks: Vec<Range<usize>> = chunks(text).collect();
    let mut found = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut at = 0;
    let mut follows_comma = true;
    while let Some(chunk) = chunks.get(at) {
        let here = text.get(chunk.clone()).unwrap_or_default();
        if let Some(length) = conjunction(text, chunks.get(at..).unwrap_or_default(), follows_comma)
        {
            close(text, open.take(), &mut found);
            at += length;
            continue;
        }
        let start = open.take().map_or(chunk.start, |open| open.start);
        let clause = start..chunk.end;
        let ends_line = chunks.get(at + 1).is_none_or(|next| {
            text.get(chunk.end..next.start).is_none_or(|between| between.contains('\n'))
        });
        let ends_sentence = here.ends_with(['.', '!', '?', ';', ':']);
        if ends_line || ends_sentence {
            close(text, Some(clause), &mut found);
        } else {
            open = Some(clause);
        }
        follows_comma = ends_line || ends_sentence || here.ends_with(',');
        at += 1;
    }
    close(text, open, &mut found);
    if found.len() < 2 {
        return Vec::new();
    }
    found.into_iter().take(MOST).map(|clause| cut(text, clause)).collect()
}

/// The parts of a text between white space.
fn chunks(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    let pieces = text.split_inclusive(char::is_whitespace).map(move |piece| {
        let start = end;
        end += piece.len();
        start..start + piece.trim_end().len()
    });
    pieces.filter(|chunk| !chunk.is_empty())
}

/// The number of chunks of the conjunction at the start of `chunks`, if there is one.
fn conjunction(text: &str, chunks: &[Range<usize>], follows_comma: bool) -> Option<usize> {
    let word = |at: usize| -> Option<String> {
        let chunk = text.get(chunks.get(at)?.clone())?;
        Some(chunk.trim_matches(',').to_lowercase())
    };
    let first = word(0)?;
    if CONJUNCTIONS.contains(&&*first) || follows_comma && AFTER_COMMA.contains(&&*first) {
        return Some(1);
    }
    let begins = |phrase: &&&[&str]| {
        (0..phrase.len()).all(|at| word(at).as_deref() == phrase.get(at).copied())
    };
    PHRASES.iter().find(begins).map(|phrase| phrase.len())
}

/// Adds a clause, or extends the one before it by a fragment.
fn close(text: &str, clause: Option<Range<usize>>, found: &mut Vec<Range<usize>>) {
    let Some(clause) = clause else { return };
    let words = Words::of(text.get(clause.clone()).unwrap_or_default());
    match words.iter().filter(|word| !words::says_nothing(word)).count() {
        0 => (),
        count if count < LEAST_WORDS => {
            if let Some(before) = found.last_mut() {
                before.end = clause.end;
            }
        }
        _ => found.push(clause),
    }
}

/// The text of a clause without the punctuation around it.
fn cut(text: &str, clause: Range<usize>) -> &str {
    let clause = text.get(clause).unwrap_or_default();
    let end = clause.char_indices().nth(LONGEST).map_or(clause.len(), |(end, _)| end);
    let clause = clause.get(..end).unwrap_or_default();
    clause.trim_matches(|sign: char| sign.is_whitespace() || ",.;:!?".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, MOST, clauses};

    #[test]
    fn requests_are_separated() {
        assert_eq!(
            clauses(
                "Book a flight to Rome, and then mail me the invoice. Finally, close the ticket!"
            ),
            ["Book a flight to Rome", "mail me the invoice", "close the ticket"]
        );
        assert_eq!(
            clauses("list open issues as well as the latest commits\ncount stale branches"),
            ["list open issues", "the latest commits", "count stale branches"]
        );
        assert_eq!(
            clauses("read the first file; next, write a second file"),
            ["read the first file", "write a second file"]
        );
    }

    #[test]
    fn one_request_has_no_clauses() {
        for text in [
            "",
            "and",
            "list the issues",
            "what is the weather in the next 3 days",
            "download and install the latest update",
            "Hello! Please list the issues.",
            "the weather of today or tomorrow morning",
        ] {
            assert_eq!(clauses(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn fragments_belong_to_the_clause_before_them() {
        assert_eq!(
            clauses("convert the amount to euros and dollars. Post the result to chat"),
            ["convert the amount to euros and dollars", "Post the result to chat"]
        );
    }

    #[test]
    fn their_number_and_length_are_limited() {
        let text = "remove old files and ".repeat(50) + &"very long words ".repeat(100);
        let found = clauses(&text);
        assert_eq!(found.len(), MOST);
        let text = format!("list all files. {}", "größere dateien ".repeat(100));
        assert!(clauses(&text).iter().all(|clause| clause.chars().count() <= LONGEST));
    }
}
