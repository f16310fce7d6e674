//! Everything that can be found, as an immutable value that is cheap to change.
//!
//! **Invariant:** what a search gives depends on what the sources hold, not on the order or the number
//! of the changes that led there.

use std::{cmp::Reverse, fmt, sync::Arc};

use super::{
    document::Document,
    search::Place,
    shard::{
        Block, Shard, build,
        merge::{self, Part as Merging},
    },
};

/// Everything that can be found.
///
/// Sources are indexed by themselves. A few of them are then put together, and those again, such that
/// there are never many shards to ask and a source is copied only as often as their number doubles.
/// What a source held before stays behind in its shard, marked as gone, until half of it is.
#[derive(Clone, Default)]
pub struct Index {
    /// The biggest first.
    pub(super) parts: Vec<Part>,
}

/// A shard, and what of it is still there.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) shard: Arc<Shard>,
    /// For each document whether it is gone, as bits; empty if none is.
    gone: Arc<[u64]>,
    /// How many documents are still there.
    pub(super) count: u32,
}

impl Index {
    /// An index in which `source` holds `documents`; the others stay as they are.
    #[must_use]
    pub fn with(&self, source: &str, documents: &[Document<'_>]) -> Self {
        let mut index = self.without(source);
        if !documents.is_empty() {
            let shard = Arc::new(build::shard_of(source, documents));
            let count = shard.len();
            index.parts.push(Part { shard, gone: Arc::default(), count });
            index.tidy();
        }
        index
    }

    /// An index without what `source` holds.
    #[must_use]
    pub fn without(&self, source: &str) -> Self {
        let mut index = self.clone();
        let found = index.parts.iter_mut().find_map(|part| {
            let block = part.shard.block(source).filter(|block| part.keeps(block))?.clone();
            Some((part, block))
        });
        if let Some((part, block)) = found {
            part.remove(&block);
            index.tidy();
        }
        index
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count as usize).sum()
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Where the documents are.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.parts.iter().flat_map(|part| {
            let kept = part.shard.blocks.iter().filter(|block| part.keeps(block));
            kept.flat_map(|block| {
                let source = &*block.source;
                (0..block.count as usize).map(move |position| Place { source, position })
            })
        })
    }

    /// How many bytes it holds, those of what is gone included.
    pub fn bytes(&self) -> usize {
        let bits = |part: &Part| part.gone.len() * size_of::<u64>();
        self.parts.iter().map(|part| part.shard.bytes() + bits(part)).sum()
    }

    /// Puts together what has become small.
    fn tidy(&mut self) {
        self.parts.retain(|part| part.count > 0);
        for part in &mut self.parts {
            if part.count < part.shard.len() / 2 {
                *part = merged(std::slice::from_ref(part));
            }
        }
        loop {
            self.parts.sort_by_key(|part| Reverse(part.count));
            let alike = |pair: &[Part]| matches!(pair, [big, small] if big.count < 2 * small.count);
            let Some(at) = self.parts.windows(2).rposition(alike) else { break };
            let pair: Vec<Part> = self.parts.drain(at..at + 2).collect();
            self.parts.push(merged(&pair));
        }
    }
}

impl Part {
    /// Whether a document is still there.
    pub(super) fn has(&self, document: u32) -> bool {
        let bits = self.gone.get(document as usize / 64);
        bits.is_none_or(|bits| bits >> (document % 64) & 1 == 0)
    }

    /// In how many documents that are still there a term is.
    pub(super) fn frequency(&self, term: u32) -> u32 {
        let postings = self.shard.postings(term);
        if self.gone.is_empty() {
            return postings.len() as u32;
        }
        postings.iter().filter(|posting| self.has(posting.document)).count() as u32
    }

    fn keeps(&self, block: &Block) -> bool {
        self.has(block.first)
    }

    fn remove(&mut self, block: &Block) {
        let mut gone = self.gone.to_vec();
        gone.resize((self.shard.len() as usize).div_ceil(64), 0);
        for document in block.first..block.first + block.count {
            if let Some(bits) = gone.get_mut(document as usize / 64) {
                *bits |= 1 << (document % 64);
            }
        }
        self.gone = gone.into();
        self.count -= block.count;
    }
}

fn merged(parts: &[Part]) -> Part {
    let keeps: Vec<_> = parts.iter().map(|part| |block: &Block| part.keeps(block)).collect();
    let merging: Vec<_> = parts
        .iter()
        .zip(&keeps)
        .map(|(part, keeps)| Merging { shard: &part.shard, keeps })
        .collect();
    let shard = Arc::new(merge::shard_of(&merging));
    let count = shard.len();
    Part { shard, gone: Arc::default(), count }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("documents", &self.len())
            .field("shards", &self.parts.len())
            .finish()
    }
}
