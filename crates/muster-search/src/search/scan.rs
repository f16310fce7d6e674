//! A pass over the postings of a shard.

use super::{
    NameMatch,
    candidates::{Candidate, Candidates},
};
use crate::{
    index::LiveShard,
    query::{ExactName, Query},
    shard::Posting,
};

/// The number of documents accumulated at a time.
const RANGE: u32 = 4096;

/// Offers every matching document of a shard.
pub(super) fn run(part: &LiveShard, number: usize, query: &Query, candidates: &mut Candidates<'_>) {
    let mut expansions = expansions(part, number, query);
    let mut names = names(part, number, query);
    let mut sums = Sums::new(RANGE.min(part.shard.len()));
    let mut first = 0;
    while first < part.shard.len() {
        for expansion in &mut expansions {
            let (bit, weight) = (expansion.bit, expansion.weight);
            for posting in before(&mut expansion.postings, first + RANGE) {
                let Some(sum) = sums.of(posting.document - first) else { continue };
                let gain = weight * posting.impact.value();
                if sum.terms & bit == 0 {
                    sum.terms |= bit;
                    sum.base += gain;
                    sum.last = gain;
                } else if gain > sum.last {
                    // Only the best expansion of a term counts.
                    sum.base += gain - sum.last;
                    sum.last = gain;
                }
                if posting.impact.in_name() {
                    sum.in_name += weight;
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
                    name_match: sum.named.unwrap_or(NameMatch::None),
                    base: sum.base,
                    in_name: sum.in_name,
                    terms: sum.terms,
                });
            }
        });
        first += RANGE;
    }
}

struct PostingCursor<'a> {
    /// The bit of the term.
    bit: u64,
    /// The score of a full match.
    weight: f32,
    postings: &'a [Posting],
}

fn expansions<'a>(part: &'a LiveShard, number: usize, query: &Query) -> Vec<PostingCursor<'a>> {
    let mut found = Vec::new();
    for (at, term) in query.terms.iter().enumerate() {
        for expansion in &term.expansions {
            let Some(Some(term)) = expansion.ids.get(number) else { continue };
            let weight = expansion.weight * expansion.idf;
            let postings = part.shard.postings(*term);
            found.push(PostingCursor { bit: 1 << at, weight, postings });
        }
    }
    found
}

fn names<'a>(part: &'a LiveShard, number: usize, query: &Query) -> Vec<(NameMatch, &'a [Posting])> {
    let postings = |name: &ExactName| {
        let named = if name.whole_query { NameMatch::Exact } else { NameMatch::Contained };
        let term = name.ids.get(number).copied().flatten()?;
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

/// The accumulators of a document range.
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
    named: Option<NameMatch>,
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
