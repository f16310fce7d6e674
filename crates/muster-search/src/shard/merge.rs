//! Merges indexes by copying and renumbering; texts are not tokenized again.

use super::{BREAK, Block, Posting, Shard, Terms};

/// A shard and its live blocks.
pub(crate) struct Part<'a> {
    /// The shard.
    pub(crate) shard: &'a Shard,
    /// Whether a block is live.
    pub(crate) keeps: &'a dyn Fn(&Block) -> bool,
}

/// One index of all live blocks in `parts`.
pub(crate) fn shard_of(parts: &[Part<'_>]) -> Shard {
    let mut blocks: Vec<(usize, &Block)> = Vec::new();
    for (part, Part { shard, keeps }) in parts.iter().enumerate() {
        blocks.extend(shard.blocks.iter().filter(|block| keeps(block)).map(|block| (part, block)));
    }
    blocks.sort_by(|(_, a), (_, b)| a.source.cmp(&b.source));

    let mut documents = Renumbered::new(parts.iter().map(|part| part.shard.len() as usize));
    let mut merged = Vec::with_capacity(blocks.len());
    let mut first = 0;
    for (part, block) in &blocks {
        for document in 0..block.count {
            documents.set(*part, block.first + document, first + document);
        }
        merged.push(Block { source: block.source.clone(), first, count: block.count });
        first += block.count;
    }
    let mut shard = Shard {
        blocks: merged,
        terms: Terms::default(),
        starts: vec![0],
        postings: Vec::new(),
        texts: vec![0],
        words: Vec::new(),
    };
    let terms = merge_terms(&mut shard, parts, &documents);
    for (part, block) in &blocks {
        let Some(Part { shard: from, .. }) = parts.get(*part) else { continue };
        for document in block.first..block.first + block.count {
            let words = from.words(document).iter();
            shard.words.extend(words.map(|word| terms.get(*part, *word).unwrap_or(BREAK)));
            shard.texts.push(shard.words.len() as u32);
        }
    }
    shard.terms.finish();
    shard.postings.shrink_to_fit();
    shard.words.shrink_to_fit();
    shard
}

/// Merges the terms and their postings; returns the new numbers of the terms.
fn merge_terms(shard: &mut Shard, parts: &[Part<'_>], documents: &Renumbered) -> Renumbered {
    let mut all: Vec<(&str, usize, u32)> = Vec::new();
    for (part, Part { shard, .. }) in parts.iter().enumerate() {
        all.extend(shard.terms.iter().zip(0..).map(|(term, number)| (term, part, number)));
    }
    all.sort_unstable();
    let mut terms = Renumbered::new(parts.iter().map(|part| part.shard.terms.len()));
    for same in all.chunk_by(|(a, ..), (b, ..)| a == b) {
        let from = shard.postings.len();
        for (_, part, number) in same {
            let postings = parts.get(*part).map(|part| part.shard.postings(*number));
            shard.postings.extend(postings.into_iter().flatten().filter_map(|posting| {
                let document = documents.get(*part, posting.document)?;
                Some(Posting { document, ..*posting })
            }));
        }
        let new = shard.postings.get_mut(from..).unwrap_or_default();
        let Some((term, ..)) = same.first().filter(|_| !new.is_empty()) else { continue };
        new.sort_unstable_by_key(|posting| posting.document);
        for (_, part, number) in same {
            terms.set(*part, *number, shard.terms.len() as u32);
        }
        shard.terms.push(term);
        shard.starts.push(shard.postings.len() as u32);
    }
    terms
}

/// The new numbers of the documents of each part.
struct Renumbered(Vec<Vec<u32>>);

impl Renumbered {
    fn new(sizes: impl Iterator<Item = usize>) -> Self {
        Self(sizes.map(|size| vec![BREAK; size]).collect())
    }

    fn set(&mut self, part: usize, old: u32, new: u32) {
        if let Some(place) = self.0.get_mut(part).and_then(|part| part.get_mut(old as usize)) {
            *place = new;
        }
    }

    fn get(&self, part: usize, old: u32) -> Option<u32> {
        self.0.get(part)?.get(old as usize).copied().filter(|new| *new != BREAK)
    }
}
