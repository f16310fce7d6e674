//! The inverted index of some sources, as an immutable value.
//!
//! **Invariant:** a shard does not depend on other shards. Document frequencies are summed over all shards
//! by each search.

pub(super) mod build;
pub(super) mod merge;

use std::sync::Arc;

use super::field::Impact;

/// The end of a text within the words of a document.
pub(super) const BREAK: u32 = u32::MAX;
/// The prefix of a term that is a whole name; no word contains it.
pub(super) const WHOLE: char = '=';

/// The inverted index of some sources.
#[derive(Debug)]
pub(super) struct Shard {
    /// Its blocks, sorted by source.
    pub(super) blocks: Vec<Block>,
    terms: Terms,
    /// The offsets of the postings of each term, and the end of the last.
    starts: Vec<u32>,
    postings: Vec<Posting>,
    /// The offsets of the words of each document, and the end of the last.
    texts: Vec<u32>,
    /// The terms of the names and descriptions, in order; the name comes first.
    words: Vec<u32>,
}

/// The documents of one source.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) source: Arc<str>,
    pub(super) first: u32,
    pub(super) count: u32,
}

/// A term in a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub(super) document: u32,
    pub(super) impact: Impact,
}

impl Shard {
    /// The number of documents.
    pub(super) fn len(&self) -> u32 {
        self.blocks.last().map_or(0, |block| block.first + block.count)
    }

    /// The documents of a source.
    pub(super) fn block(&self, source: &str) -> Option<&Block> {
        let at = self.blocks.binary_search_by(|block| (*block.source).cmp(source)).ok()?;
        self.blocks.get(at)
    }

    /// The source of a document, and its number there.
    pub(super) fn place(&self, document: u32) -> (&str, usize) {
        let after = self.blocks.partition_point(|block| block.first <= document);
        match after.checked_sub(1).and_then(|at| self.blocks.get(at)) {
            Some(block) => (&block.source, (document - block.first) as usize),
            None => ("", 0),
        }
    }

    /// The number of a term.
    pub(super) fn find(&self, term: &str) -> Option<u32> {
        self.terms.find(term)
    }

    /// All terms.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The postings of a term, ordered by document.
    pub(super) fn postings(&self, term: u32) -> &[Posting] {
        slice(&self.postings, &self.starts, term)
    }

    /// The impact of a term in a document, if it contains it.
    pub(super) fn impact(&self, term: u32, document: u32) -> Option<Impact> {
        let postings = self.postings(term);
        let at = postings.binary_search_by_key(&document, |posting| posting.document).ok()?;
        postings.get(at).map(|posting| posting.impact)
    }

    /// The terms of the name and the description of a document, with a [`BREAK`] after each text.
    pub(super) fn words(&self, document: u32) -> &[u32] {
        slice(&self.words, &self.texts, document)
    }

    /// The terms of the name of a document.
    pub(super) fn name(&self, document: u32) -> &[u32] {
        self.words(document).split(|term| *term == BREAK).next().unwrap_or_default()
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        fn of<T>(list: &[T]) -> usize {
            size_of_val(list)
        }
        let blocks = self.blocks.iter().map(|block| block.source.len()).sum::<usize>();
        let lists = of(&self.blocks) + of(&self.postings);
        let numbers = of(&self.starts) + of(&self.texts) + of(&self.words);
        blocks
            + lists
            + numbers
            + self.terms.text.len()
            + of(&self.terms.ends)
            + of(&self.terms.letters)
            + of(&self.terms.slots)
    }
}

/// Terms in alphabetical order.
#[derive(Debug, Default)]
pub(super) struct Terms {
    text: String,
    ends: Vec<u32>,
    /// The set of letters of each term: a filter for the edit distance.
    letters: Vec<u32>,
    /// An open-addressing hash table of term numbers; [`BREAK`] where a slot is free.
    slots: Vec<u32>,
}

impl Terms {
    /// The number of terms.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The term of that number.
    pub(super) fn get(&self, term: u32) -> Option<&str> {
        let start = match term.checked_sub(1) {
            Some(before) => *self.ends.get(before as usize)?,
            None => 0,
        };
        self.text.get(start as usize..*self.ends.get(term as usize)? as usize)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).filter_map(|term| self.get(term))
    }

    /// The terms whose letters allow an edit distance of at most `edits` from `word`.
    pub(super) fn resembling(&self, word: &str, edits: u32) -> impl Iterator<Item = &str> {
        let wanted = letters(word);
        // An edit adds one letter and removes one at most.
        let resembles = move |has: u32| {
            (has & !wanted).count_ones() <= edits && (wanted & !has).count_ones() <= edits
        };
        let near = self.letters.iter().enumerate().filter(move |(_, has)| resembles(**has));
        near.filter_map(|(term, _)| self.get(term as u32))
    }

    /// The terms with the prefix `word`.
    pub(super) fn starting_with(&self, word: &str) -> impl Iterator<Item = &str> {
        (self.lower_bound(word)..self.len() as u32)
            .filter_map(|term| self.get(term))
            .take_while(move |term| term.starts_with(word))
    }

    fn find(&self, term: &str) -> Option<u32> {
        let mut slot = hash(term);
        loop {
            let number = *self.slots.get(slot & self.slots.len().checked_sub(1)?)?;
            if number == BREAK || self.get(number)? == term {
                return Some(number).filter(|number| *number != BREAK);
            }
            slot += 1;
        }
    }

    fn lower_bound(&self, term: &str) -> u32 {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(found) if found < term => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Adds a term. Must be called in alphabetical order.
    fn push(&mut self, term: &str) {
        self.text.push_str(term);
        self.ends.push(self.text.len() as u32);
        self.letters.push(if term.starts_with(WHOLE) { 0 } else { letters(term) });
    }

    /// Builds the table. Must be called after the last term.
    fn finish(&mut self) {
        self.text.shrink_to_fit();
        // Half of the slots stay free, so that one or two probes are enough.
        let mut slots = vec![BREAK; (2 * self.len()).next_power_of_two()];
        let mask = slots.len() - 1;
        for (number, term) in self.iter().enumerate() {
            let mut slot = hash(term);
            while slots.get(slot & mask).is_some_and(|taken| *taken != BREAK) {
                slot += 1;
            }
            if let Some(free) = slots.get_mut(slot & mask) {
                *free = number as u32;
            }
        }
        self.slots = slots;
    }
}

/// The FNV-1a hash of a term; the upper half is folded into the lower one, which is used.
fn hash(term: &str) -> usize {
    let hash = term.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ hash >> 32) as u32 as usize
}

/// The set of letters of a word.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |letters, byte| match byte {
        b'a'..=b'z' => letters | 1 << (byte - b'a'),
        b'0'..=b'9' => letters | 1 << 26,
        _ => letters | 1 << 27,
    })
}

fn slice<'a, T>(list: &'a [T], starts: &[u32], at: u32) -> &'a [T] {
    let at = at as usize;
    let bounds = starts.get(at).zip(starts.get(at + 1));
    bounds.and_then(|(start, end)| list.get(*start as usize..*end as usize)).unwrap_or_default()
}
