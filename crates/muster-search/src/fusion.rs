//! Words and meaning together.
//!
//! Words find what is named, meaning finds what is said in other words. Each gives a document a share
//! of what its best one has, and the two are added up.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    index::Index,
    query::Query,
    search::{self, Admit, Hit, Named, Place},
    verdict::{Answer, judged, strength},
};

/// How much words count; the rest is meaning.
const WORDS: f32 = 0.5;
/// So many documents are looked at for their words; those behind them have hardly any.
const BY_WORDS: usize = 1_000;

/// How near a document is to the question in meaning, from -1 to 1; none if nobody knows.
pub type Nearness<'a> = dyn Fn(Place<'_>) -> Option<f32> + 'a;

impl Index {
    /// What fits `text` best, by its words and by its meaning: at most `limit` documents among those
    /// that `admit` lets through.
    pub fn search_meaning<'a>(
        &'a self,
        text: &str,
        admit: &Admit<'_>,
        near: &Nearness<'_>,
        limit: usize,
    ) -> Answer<'a> {
        let query = Query::new(self, text);
        let by_words = search::best(self, &query, admit, BY_WORDS.max(limit));
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
                let share = near.map_or(0.0, |near| (near - farthest) / span);
                let hit = by_words.remove(place);
                if hit.is_none() && near.is_none() {
                    return None;
                }
                let mut hit = hit.unwrap_or_else(|| Hit {
                    place: *place,
                    score: 0.0,
                    named: Named::No,
                    matches: Vec::new(),
                });
                hit.score = WORDS * hit.score / most + (1.0 - WORDS) * share;
                Some(hit)
            })
            .collect();
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, better);
            hits.truncate(limit);
        }
        hits.sort_by(better);
        let nearest = known().next().map(|_| nearest);
        let verdict = judged(self, &query, admit, &hits, (strength, nearest));
        Answer { verdict, strength, hits }
    }
}

/// What is named comes first, then what fits; between equals the place decides.
fn better(a: &Hit<'_>, b: &Hit<'_>) -> Ordering {
    let by_score = || b.score.total_cmp(&a.score);
    b.named.cmp(&a.named).then_with(by_score).then_with(|| a.place.cmp(&b.place))
}
