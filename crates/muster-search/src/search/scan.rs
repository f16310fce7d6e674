//! One pass over the postings of a shard.

use super::{
    Named,
    candidates::{Candidate, Candidates},
};
use crate::{
    index::Part,
    query::{Name, Query},
    shard::Posting,
};

/// The number of documents scored at a time.
const RANGE: u32 = 4096;

/// Offers every document in `part` that contains a term of the query.
pub(super) fn run(part: &Part, number: usize, query: &Query, candidates: &mut Candidates<'_>) {
    let mut readings = readings(part, number, query);
    let mut names = names(part, number, query);
    let mut sums = Sums::new(RANGE.min(part.shard.len()));
    let mut first = 0;
    while first < part.shard.len() {
        for reading in &mut readings {
            let (bit, worth) = (reading.bit, reading.worth);
            for posting in before(&mut reading.postings, first + RANGE) {
                let Some(sum) = sums.of(posting.document - first) else { continue };
                let gain = worth * posting.impact.worth();
                if sum.terms & bit == 0 {
                    sum.terms |= bit;
                    sum.base += gain;
                    sum.last = gain;
                } else if gain > sum.last {
                    // Of several variants of a word the best one counts, once.
                    sum.base += gain - sum.last;
                    sum.last = gain;
                }
                if posting.impact.in_name() {
                    sum.in_name += worth;
                }
            }
        }
        for (named, postings) in &mut names {
            for posting in before(postings, first + RANGE) {
                if let Some(sum) = sums.of(posting.document - first) {
                    sum.named = sum.named.max(Some(*named));
                }
            }
        }
        sums.drain(|at, sum| {
            let document = first + at;
            if part.has(document) {
                candidates.offer(Candidate {
                    part: number,
                    document,
                    named: sum.named.unwrap_or(Named::No),
                    base: sum.base,
                    in_name: sum.in_name,
                    terms: sum.terms,
                });
            }
        });
        first += RANGE;
    }
}

struct Remaining<'a> {
    /// The bit of the term.
    bit: u64,
    /// The weight of a full match, for the document and for its name.
    worth: f32,
    postings: &'a [Posting],
}

fn readings<'a>(part: &'a Part, number: usize, query: &Query) -> Vec<Remaining<'a>> {
    let mut found = Vec::new();
    for (at, term) in query.terms.iter().enumerate() {
        for reading in &term.readings {
            let Some(Some(term)) = reading.numbers.get(number) else { continue };
            let worth = reading.share * reading.rarity;
            let postings = part.shard.postings(*term);
            found.push(Remaining { bit: 1 << at, worth, postings });
        }
    }
    found
}

fn names<'a>(part: &'a Part, number: usize, query: &Query) -> Vec<(Named, &'a [Posting])> {
    let postings = |name: &Name| {
        let named = if name.alone { Named::Alone } else { Named::Within };
        let term = name.numbers.get(number).copied().flatten()?;
        Some((named, part.shard.postings(term)))
    };
    query.names.iter().filter_map(postings).collect()
}

/// Takes the postings before a document.
fn before<'a>(postings: &mut &'a [Posting], end: u32) -> &'a [Posting] {
    let taken = match postings.last() {
        Some(last) if last.document >= end => {
            postings.partition_point(|posting| posting.document < end)
        }
        _ => postings.len(),
    };
    let (head, tail) = postings.split_at(taken);
    *postings = tail;
    head
}

/// The partial scores of a range of documents.
struct Sums {
    sums: Vec<Sum>,
    touched: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    base: f32,
    /// The contribution of the last term.
    last: f32,
    in_name: f32,
    named: Option<Named>,
    terms: u64,
    touched: bool,
}

impl Sums {
    fn new(size: u32) -> Self {
        Self { sums: vec![Sum::default(); size as usize], touched: Vec::new() }
    }

    fn of(&mut self, at: u32) -> Option<&mut Sum> {
        let sum = self.sums.get_mut(at as usize)?;
        if !sum.touched {
            sum.touched = true;
            self.touched.push(at);
        }
        Some(sum)
    }

    fn drain(&mut self, mut each: impl FnMut(u32, Sum)) {
        for at in self.touched.drain(..) {
            if let Some(sum) = self.sums.get_mut(at as usize) {
                each(at, std::mem::take(sum));
            }
        }
    }
}
