//! How many tokens a text costs a language model, at most.
//!
//! Tokenizers differ, and their tables are large. This counts by the kinds of signs, such that the
//! result is hardly ever below what the common ones need, and for English and JSON about half above.

/// No less than what a text costs.
pub fn estimate(text: &str) -> usize {
    let mut meter = Meter::default();
    text.chars().for_each(|sign| meter.take(sign));
    meter.finish()
}

/// Whether a text may cost more than `budget`. Does not look at more of it than it must.
pub fn exceeds(text: &str, budget: usize) -> bool {
    prefix(text, budget).len() < text.len()
}

/// As much of the beginning of a text as costs no more than `budget`.
pub fn prefix(text: &str, budget: usize) -> &str {
    let mut meter = Meter::default();
    for (at, sign) in text.char_indices() {
        meter.take(sign);
        if meter.finish() > budget {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// As much of the end of a text as costs no more than `budget`.
pub fn suffix(text: &str, budget: usize) -> &str {
    let mut meter = Meter::default();
    for (at, sign) in text.char_indices().rev() {
        meter.take(sign);
        if meter.finish() > budget {
            return text.get(at + sign.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    None,
    Small,
    Capital,
    Digit,
    Blank,
}

/// Counts sign by sign.
#[derive(Default)]
struct Meter {
    whole: usize,
    /// How long the run is that has not ended yet.
    run: usize,
    kind: Kind,
}

impl Meter {
    fn take(&mut self, sign: char) {
        let kind = match sign {
            'a'..='z' => Kind::Small,
            'A'..='Z' => Kind::Capital,
            '0'..='9' => Kind::Digit,
            ' ' => Kind::Blank,
            _ => Kind::None,
        };
        // A word may begin with a capital letter.
        let goes_on =
            kind == self.kind || kind == Kind::Small && self.kind == Kind::Capital && self.run == 1;
        if kind == Kind::None || !goes_on {
            self.whole += self.open();
            self.run = 0;
        }
        self.kind = kind;
        match kind {
            Kind::None => self.whole += if sign.is_ascii() { 1 } else { sign.len_utf8() },
            _ => self.run += 1,
        }
    }

    /// What the run comes to so far.
    fn open(&self) -> usize {
        match self.kind {
            Kind::None => 0,
            // A long run of letters is no word.
            Kind::Small if self.run > 14 => self.run.div_ceil(2),
            Kind::Small | Kind::Digit => self.run.div_ceil(3),
            Kind::Capital => self.run.div_ceil(2),
            // One blank belongs to the word after it.
            Kind::Blank => self.run / 2,
        }
    }

    fn finish(&self) -> usize {
        self.whole + self.open()
    }
}

#[cfg(test)]
mod tests {
    use super::{estimate, exceeds, prefix, suffix};

    #[track_caller]
    fn check(text: &str, expect: usize) {
        assert_eq!(estimate(text), expect, "{text}");
    }

    #[test]
    fn signs_are_counted_by_kind() {
        check("", 0);
        check("a", 1);
        check("file", 2);
        check("Read a file", 2 + 1 + 2);
        check("1234", 2);
        check("{\"a\":1}", 7);
        check("HTTP", 2);
        check("日本", 6);
        check("\n\n", 2);
        check(&"x".repeat(40), 20);
    }

    #[test]
    fn a_piece_costs_no_more_than_it_may() {
        let text = "One two, three: {\"four\": [5, 6]} sieben acht neun zehn 日本語 ".repeat(20);
        for budget in [0, 1, 2, 7, 50, 333] {
            assert!(estimate(prefix(&text, budget)) <= budget);
            assert!(text.ends_with(suffix(&text, budget)));
            assert!(estimate(suffix(&text, budget)) <= budget + 1);
            assert!(exceeds(&text, budget));
        }
        assert_eq!(prefix(&text, estimate(&text)), text);
        assert!(!exceeds(&text, estimate(&text)));
    }
}
