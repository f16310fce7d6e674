//! The search index: an immutable value that is cheap to update.
//!
//! **Invariant:** search results depend on the documents alone, not on the order or number of
//! updates.

use std::{cmp::Reverse, fmt, sync::Arc};

use super::{
    document::Document,
    search::DocumentId,
    shard::{
        Block, Shard, build,
        merge::{self, MergeInput as Merging},
    },
};

/// An inverted index over the documents of all sources.
///
/// Each source is indexed separately. Shards of similar size are merged, as in a log-structured
/// merge tree: there are never many shards to search, and a document is copied a logarithmic number
/// of times. Replaced documents are marked as deleted and removed when half of a shard is.
#[derive(Clone, Default)]
pub struct Index {
    /// The largest first.
    pub(super) shards: Vec<LiveShard>,
}

/// A shard with its deleted documents.
#[derive(Clone)]
pub(super) struct LiveShard {
    pub(super) shard: Arc<Shard>,
    /// A bit set of the deleted documents; empty if there are none.
    deleted: Arc<[u64]>,
    /// The number of live documents.
    pub(super) count: u32,
}

impl Index {
    /// Replaces the documents of a source.
    #[must_use]
    pub fn with(&self, source: &str, documents: &[Document<'_>]) -> Self {
        let mut index = self.without(source);
        if !documents.is_empty() {
            let shard = Arc::new(build::build(source, documents));
            let count = shard.len();
            index.shards.push(LiveShard { shard, deleted: Arc::default(), count });
            index.compact();
        }
        index
    }

    /// Removes a source.
    #[must_use]
    pub fn without(&self, source: &str) -> Self {
        let mut index = self.clone();
        let found = index.shards.iter_mut().find_map(|part| {
            let block = part.shard.block(source).filter(|block| part.is_live(block))?.clone();
            Some((part, block))
        });
        if let Some((part, block)) = found {
            part.remove(&block);
            index.compact();
        }
        index
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|part| part.count as usize).sum()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The live documents.
    pub(super) fn documents(&self) -> impl Iterator<Item = DocumentId<'_>> {
        self.shards.iter().flat_map(|part| {
            let kept = part.shard.blocks.iter().filter(|block| part.is_live(block));
            kept.flat_map(|block| {
                let source = &*block.source;
                (0..block.count as usize).map(move |position| DocumentId { source, position })
            })
        })
    }

    /// The memory used, in bytes, including deleted documents.
    pub fn bytes(&self) -> usize {
        let bits = |part: &LiveShard| part.deleted.len() * size_of::<u64>();
        self.shards.iter().map(|part| part.shard.bytes() + bits(part)).sum()
    }

    /// Merges shards of similar size and rewrites those that are mostly deleted.
    fn compact(&mut self) {
        self.shards.retain(|part| part.count > 0);
        for part in &mut self.shards {
            if part.count < part.shard.len() / 2 {
                *part = merge_live(std::slice::from_ref(part));
            }
        }
        loop {
            self.shards.sort_by_key(|part| Reverse(part.count));
            let similar =
                |pair: &[LiveShard]| matches!(pair, [big, small] if big.count < 2 * small.count);
            let Some(at) = self.shards.windows(2).rposition(similar) else { break };
            let pair: Vec<LiveShard> = self.shards.drain(at..at + 2).collect();
            self.shards.push(merge_live(&pair));
        }
    }
}

impl LiveShard {
    /// Whether a document is live.
    pub(super) fn has(&self, document: u32) -> bool {
        let bits = self.deleted.get(document as usize / 64);
        bits.is_none_or(|bits| bits >> (document % 64) & 1 == 0)
    }

    /// The number of live documents that contain a term.
    pub(super) fn frequency(&self, term: u32) -> u32 {
        let postings = self.shard.postings(term);
        if self.deleted.is_empty() {
            return postings.len() as u32;
        }
        postings.iter().filter(|posting| self.has(posting.document)).count() as u32
    }

    fn is_live(&self, block: &Block) -> bool {
        self.has(block.first)
    }

    fn remove(&mut self, block: &Block) {
        let mut deleted = self.deleted.to_vec();
        deleted.resize((self.shard.len() as usize).div_ceil(64), 0);
        for document in block.first..block.first + block.count {
            if let Some(bits) = deleted.get_mut(document as usize / 64) {
                *bits |= 1 << (document % 64);
            }
        }
        self.deleted = deleted.into();
        self.count -= block.count;
    }
}

fn merge_live(parts: &[LiveShard]) -> LiveShard {
    let keeps: Vec<_> = parts.iter().map(|part| |block: &Block| part.is_live(block)).collect();
    let merging: Vec<_> = parts
        .iter()
        .zip(&keeps)
        .map(|(part, keeps)| Merging { shard: &part.shard, is_live: keeps })
        .collect();
    let shard = Arc::new(merge::merge(&merging));
    let count = shard.len();
    LiveShard { shard, deleted: Arc::default(), count }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("documents", &self.len())
            .field("shards", &self.shards.len())
            .finish()
    }
}
