//! Sets of documents of one index.

use super::{
    index::{Index, Part},
    search::{Admit, Place},
};

/// Some documents of one index, as a bit for each.
#[derive(Debug, Clone, Default)]
pub struct DocumentSet {
    /// The bits of each shard.
    parts: Vec<Vec<u64>>,
}

impl DocumentSet {
    /// The empty set.
    pub(super) fn of(index: &Index) -> Self {
        let bits = |part: &Part| vec![0; (part.shard.len() as usize).div_ceil(64)];
        Self { parts: index.parts.iter().map(bits).collect() }
    }

    /// Adds a document of a shard.
    pub(super) fn insert(&mut self, part: usize, document: u32) {
        let bits = self.parts.get_mut(part).and_then(|bits| bits.get_mut(document as usize / 64));
        if let Some(bits) = bits {
            *bits |= 1 << (document % 64);
        }
    }
}

impl Index {
    /// The documents that `admit` accepts.
    pub fn documents(&self, admit: &Admit<'_>) -> DocumentSet {
        let mut found = DocumentSet::of(self);
        for (number, part) in self.searched() {
            let accepted = |document: &u32| part.has(*document) && admit(place(part, *document));
            (0..part.shard.len())
                .filter(accepted)
                .for_each(|document| found.insert(number, document));
        }
        found
    }

    /// The number of documents of a set that `admit` accepts. Those in `sure` are known to be accepted, which saves the
    /// question.
    pub(super) fn count(
        &self,
        set: &DocumentSet,
        admit: &Admit<'_>,
        sure: Option<&DocumentSet>,
    ) -> usize {
        let mut count = 0;
        for (number, (part, bits)) in self.parts.iter().zip(&set.parts).enumerate() {
            let sure = sure.and_then(|sure| sure.parts.get(number));
            for (at, bits) in bits.iter().enumerate() {
                let known = sure.and_then(|sure| sure.get(at)).copied().unwrap_or_default();
                count += (bits & known).count_ones() as usize;
                let mut open = bits & !known;
                while open != 0 {
                    let document = (at * 64) as u32 + open.trailing_zeros();
                    count += usize::from(admit(place(part, document)));
                    open &= open - 1;
                }
            }
        }
        count
    }
}

fn place(part: &Part, document: u32) -> Place<'_> {
    let (source, position) = part.shard.place(document);
    Place { source, position }
}
