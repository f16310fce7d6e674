//! The index: an immutable value that is cheap to update.
//!
//! **Invariant:** the result of a search depends on the documents of the sources, not on the order or
//! number of updates.

use std::{cmp::Reverse, fmt, sync::Arc};

use super::{
    document::Document,
    search::Place,
    shard::{
        Block, Shard, build,
        merge::{self, Part as Merging},
    },
};

/// An index in shards.
///
/// Each source is indexed on its own. Small shards are merged, so that there are never many and a source
/// is copied only as often as their number doubles. Replaced documents stay in their shard, marked as
/// deleted, until half of it is deleted.
#[derive(Clone, Default)]
pub struct Index {
    /// The largest first.
    pub(super) parts: Vec<Part>,
    /// The shards before this one only count how common words are; no search finds their documents.
    first_searched: usize,
}

/// A shard and its deleted documents.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) shard: Arc<Shard>,
    /// A bit for each document: whether it is deleted; empty if none is.
    gone: Arc<[u64]>,
    /// The number of documents that are not deleted.
    pub(super) count: u32,
}

impl Index {
    /// The index with `documents` as those of `source`.
    #[must_use]
    pub fn with(&self, source: &str, documents: &[Document<'_>]) -> Self {
        self.with_each(source, |push| documents.iter().for_each(push))
    }

    /// The index with the documents that `each` passes as those of `source`. They need not be in memory at
    /// the same time.
    #[must_use]
    pub fn with_each(
        &self,
        source: &str,
        each: impl FnOnce(&mut dyn FnMut(&Document<'_>)),
    ) -> Self {
        let mut index = self.without(source);
        let shard = Arc::new(build::shard_of(source, each));
        let count = shard.len();
        if count > 0 {
            index.parts.push(Part { shard, gone: Arc::default(), count });
            index.tidy();
        }
        index
    }

    /// The index without the documents of `source`.
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

    /// Both indexes as one, to search. The documents of this one keep their place in sets of documents. It is not an index to
    /// update: the sources of the two are assumed to differ.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let parts = self.parts.iter().chain(&other.parts).cloned().collect();
        Self { parts, first_searched: 0 }
    }

    /// Both indexes as one, of which searches find the documents of `other` only. Words are as common as in both.
    #[must_use]
    pub fn behind(&self, other: &Self) -> Self {
        Self { first_searched: self.parts.len(), ..self.beside(other) }
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count as usize).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The shards whose documents may be found, with their numbers.
    pub(super) fn searched(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.parts.iter().enumerate().skip(self.first_searched)
    }

    /// The positions of all documents that may be found.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.searched().flat_map(|(_, part)| {
            let kept = part.shard.blocks.iter().filter(|block| part.keeps(block));
            kept.flat_map(|block| {
                let source = &*block.source;
                (0..block.count as usize).map(move |position| Place { source, position })
            })
        })
    }

    /// Its size in bytes, including deleted documents.
    pub fn bytes(&self) -> usize {
        let bits = |part: &Part| part.gone.len() * size_of::<u64>();
        self.parts.iter().map(|part| part.shard.bytes() + bits(part)).sum()
    }

    /// Merges small shards.
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
    /// Whether a document is not deleted.
    pub(super) fn has(&self, document: u32) -> bool {
        let bits = self.gone.get(document as usize / 64);
        bits.is_none_or(|bits| bits >> (document % 64) & 1 == 0)
    }

    /// The document frequency of a term, without deleted documents.
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
