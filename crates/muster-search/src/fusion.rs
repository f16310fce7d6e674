//! Fusion of lexical and semantic scores.
//!
//! Words find what is named, embeddings find what is said in other words. Both scores are normalised by
//! the best document, weighted and added.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    document_set::DocumentSet,
    index::Index,
    products,
    query::Query,
    search::{self, Admit, Hit, Named, Place},
    verdict::{Answer, MatchStrength, judge, share, strength, unmatched},
};

/// The weight of the lexical score; the rest is semantic.
const LEXICAL_WEIGHT: f32 = 0.3;
/// The number of lexical candidates; later ones hardly match.
const BY_WORDS: usize = 1_000;

/// The cosine similarity of a document and the query; `None` if the document has no embedding.
pub type Nearness<'a> = dyn Fn(Place<'_>) -> Option<f32> + 'a;

impl Index {
    /// The best matches of `text`, lexical and semantic: at most `limit` documents that `admit` accepts. Those in `sure`
    /// are known to be accepted.
    pub fn search_meaning<'a>(
        &'a self,
        text: &str,
        admit: &Admit<'_>,
        near: &Nearness<'_>,
        sure: Option<&DocumentSet>,
        limit: usize,
    ) -> Answer<'a> {
        let query = Query::new(self, text);
        let (by_words, matching) = search::best(self, &query, admit, BY_WORDS.max(limit));
        let strength = strength(&query, &by_words);
        let most = by_words.iter().map(|hit| hit.score).fold(f32::MIN_POSITIVE, f32::max);
        let mut by_words: BTreeMap<Place<'a>, Hit<'a>> =
            by_words.into_iter().map(|hit| (hit.place, hit)).collect();
        let nearness: Vec<(Place<'a>, Option<f32>)> =
            self.places().filter(|place| admit(*place)).map(|place| (place, near(place))).collect();
        let known = || nearness.iter().filter_map(|(_, near)| *near);
        let nearest = known().fold(f32::MIN, f32::max);
        let farthest = known().fold(f32::MAX, f32::min);
        let span = (nearest - farthest).max(f32::MIN_POSITIVE);
        let mut hits: Vec<Hit<'a>> = nearness
            .iter()
            .filter_map(|(place, near)| {
                let nearer = near.map_or(0.0, |near| (near - farthest) / span);
                let hit = by_words.remove(place);
                if hit.is_none() && near.is_none() {
                    return None;
                }
                let mut hit = hit.unwrap_or_else(|| Hit {
                    place: *place,
                    score: 0.0,
                    named: Named::No,
                    strength: MatchStrength::Weak,
                    matches: Vec::new(),
                });
                if let Some(near) = near {
                    let meant = MatchStrength::of_meaning(*near, share(&query, hit.score));
                    hit.strength = hit.strength.max(meant);
                }
                hit.score = LEXICAL_WEIGHT * hit.score / most + (1.0 - LEXICAL_WEIGHT) * nearer;
                Some(hit)
            })
            .collect();
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, better);
            hits.truncate(limit);
        }
        hits.sort_by(better);
        let nearest = known().next().map(|_| nearest);
        let products = products::named(self, text, admit);
        let verdict = judge(&mut hits, (strength, nearest), &products);
        let unmatched_terms = unmatched(self, &query, admit);
        // A semantically similar document need not share a word with the query.
        let total = self.count(&matching, admit, sure).max(hits.len());
        let absent_products = products.absent;
        Answer { verdict, unmatched_terms, absent_products, strength, total, hits }
    }
}

/// Exact names come first, then scores; ties are broken by position.
fn better(a: &Hit<'_>, b: &Hit<'_>) -> Ordering {
    let by_score = || b.score.total_cmp(&a.score);
    b.named.cmp(&a.named).then_with(by_score).then_with(|| a.place.cmp(&b.place))
}
