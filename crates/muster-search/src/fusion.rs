//! Hybrid search: lexical and semantic scores combined.
//!
//! Lexical search finds what is named, semantic search what is described in other words. Both
//! scores are normalized by their best document and averaged.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    index::Index,
    query::Query,
    search::{self, DocumentFilter, DocumentId, NameMatch, SearchHit},
    verdict::{SearchResults, assess, strength},
};

/// The weight of the lexical score; the rest is semantic.
const LEXICAL_WEIGHT: f32 = 0.5;
/// The number of lexical hits considered; later ones hardly match.
const LEXICAL_HITS: usize = 1_000;

/// The semantic similarity of a document to the query, from -1 to 1; none if unknown.
pub type DocumentSimilarity<'a> = dyn Fn(DocumentId<'_>) -> Option<f32> + 'a;

impl Index {
    /// The best `limit` documents for `text` by words and by similarity, among those that `admit`
    /// accepts.
    pub fn search_hybrid<'a>(
        &'a self,
        text: &str,
        admit: &DocumentFilter<'_>,
        near: &DocumentSimilarity<'_>,
        limit: usize,
    ) -> SearchResults<'a> {
        let query = Query::new(self, text);
        let by_words = search::top_hits(self, &query, admit, LEXICAL_HITS.max(limit));
        let strength = strength(&query, &by_words);
        let best = by_words.iter().map(|hit| hit.score).fold(f32::MIN_POSITIVE, f32::max);
        let mut by_words: BTreeMap<DocumentId<'a>, SearchHit<'a>> =
            by_words.into_iter().map(|hit| (hit.document, hit)).collect();
        let similarities: Vec<(DocumentId<'a>, Option<f32>)> = self
            .documents()
            .filter(|place| admit(*place))
            .map(|place| (place, near(place)))
            .collect();
        let known = || similarities.iter().filter_map(|(_, near)| *near);
        let highest = known().fold(f32::MIN, f32::max);
        let lowest = known().fold(f32::MAX, f32::min);
        let span = (highest - lowest).max(f32::MIN_POSITIVE);
        let mut hits: Vec<SearchHit<'a>> = similarities
            .iter()
            .filter_map(|(place, near)| {
                let share = near.map_or(0.0, |near| (near - lowest) / span);
                let hit = by_words.remove(place);
                if hit.is_none() && near.is_none() {
                    return None;
                }
                let mut hit = hit.unwrap_or_else(|| SearchHit {
                    document: *place,
                    score: 0.0,
                    named: NameMatch::None,
                    matches: Vec::new(),
                });
                hit.score = LEXICAL_WEIGHT * hit.score / best + (1.0 - LEXICAL_WEIGHT) * share;
                Some(hit)
            })
            .collect();
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, better);
            hits.truncate(limit);
        }
        hits.sort_by(better);
        let highest = known().next().map(|_| highest);
        let verdict = assess(self, &query, admit, &hits, (strength, highest));
        SearchResults { verdict, strength, hits }
    }
}

/// Named documents first, then by score; ties are broken by the document.
fn better(a: &SearchHit<'_>, b: &SearchHit<'_>) -> Ordering {
    let by_score = || b.score.total_cmp(&a.score);
    b.named.cmp(&a.named).then_with(by_score).then_with(|| a.document.cmp(&b.document))
}
