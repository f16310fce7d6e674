//! Fusion of lexical and semantic scores.
//!
//! Words find what is named, embeddings find what is said in other words. Both scores are normalised by
//! the best document, weighted and added. A query with several clauses is also ranked by each of them, so that each has tools
//! among the first. A document that has no embedding yet counts as near as its words match, so that it keeps its place
//! beside documents that have one.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    document_set::DocumentSet,
    index::Index,
    meaning::{Meaning, QueryMeaning, nearness},
    products,
    query::Query,
    search::{self, Admit, Hit, Named, Place},
    verdict::{Answer, MatchStrength, alternative_by_meaning, judge, share, strength, unmatched},
};

/// The weight of the lexical score; the rest is semantic.
const LEXICAL_WEIGHT: f32 = 0.25;
/// The number of lexical candidates; later ones hardly match.
const BY_WORDS: usize = 1_000;
/// The same of a clause.
const BY_WORDS_OF_CLAUSE: usize = 200;
/// The greatest weight of clauses; the rest is that of the whole query.
const CLAUSE_WEIGHT: f32 = 0.8;
/// A clause is a request of its own if it is as similar to some document as the whole query is; if it is less similar by this
/// much, it is a fragment or an aside.
const FRAGMENT: f32 = 0.2;

impl Index {
    /// The best matches of `text`, lexical and semantic: at most `limit` documents that `admit` accepts. Those in `sure`
    /// are known to be accepted.
    pub fn search_meaning<'a>(
        &'a self,
        text: &str,
        admit: &Admit<'_>,
        meaning: Meaning<'_>,
        sure: Option<&DocumentSet>,
        limit: usize,
    ) -> Answer<'a> {
        let query = Query::new(self, text);
        let (by_words, matching) = search::best(self, &query, admit, BY_WORDS.max(limit));
        let strength = strength(&query, &by_words);
        let most = by_words.iter().map(|hit| hit.score).fold(f32::MIN_POSITIVE, f32::max);
        let mut by_words: BTreeMap<Place<'a>, Hit<'a>> =
            by_words.into_iter().map(|hit| (hit.place, hit)).collect();
        let documents: Vec<Embedded<'_, '_>> = self
            .places()
            .filter(|place| admit(*place))
            .map(|place| (place, (meaning.vector)(place)))
            .collect();
        let whole = Similarities::new(&documents, &meaning.query.whole);
        let clauses = Clauses::new(self, admit, &documents, meaning.query, &whole);
        let mut hits: Vec<Hit<'a>> = documents
            .iter()
            .enumerate()
            .filter_map(|(at, (place, _))| {
                let (near, hit) = (whole.of(at), by_words.remove(place));
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
                let by_words = hit.strength;
                if let Some(near) = near {
                    let meant = MatchStrength::of_meaning(near, share(&query, hit.score));
                    hit.strength = hit.strength.max(meant);
                }
                let whole = whole.fused(at, hit.score / most, by_words);
                hit.score = clauses.mixed(at, *place, whole, by_words);
                Some(hit)
            })
            .collect();
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, better);
            hits.truncate(limit);
        }
        hits.sort_by(better);
        let products = products::named(self, text, admit);
        let nearest = whole.nearest().map(|nearest| nearest.max(clauses.nearest()));
        let verdict = judge(&mut hits, (strength, nearest), &products);
        let unmatched_terms = unmatched(self, &query, admit);
        // A semantically similar document need not share a word with the query.
        let total = self.count(&matching, admit, sure).max(hits.len());
        let absent_products = products.absent;
        let asked =
            meaning.query.without_products.as_deref().filter(|_| !absent_products.is_empty());
        let alternative = asked.and_then(|asked| alternative_by_meaning(&documents, asked));
        Answer { verdict, unmatched_terms, absent_products, alternative, strength, total, hits }
    }
}

/// A visible document, with its vector if it has one.
type Embedded<'a, 'v> = (Place<'a>, Option<&'v [f32]>);

/// The similarity of a text to each document.
struct Similarities {
    each: Vec<Option<f32>>,
    nearest: f32,
    farthest: f32,
}

impl Similarities {
    fn new(documents: &[Embedded<'_, '_>], vector: &[f32]) -> Self {
        let near = |(_, other): &Embedded<'_, '_>| other.map(|other| nearness(vector, other));
        let each: Vec<Option<f32>> = documents.iter().map(near).collect();
        let known = || each.iter().copied().flatten();
        let (nearest, farthest) =
            (known().fold(f32::MIN, f32::max), known().fold(f32::MAX, f32::min));
        Self { each, nearest, farthest }
    }

    /// That to a document, if it has a vector.
    fn of(&self, at: usize) -> Option<f32> {
        self.each.get(at).copied().flatten()
    }

    /// The greatest one, if a document has a vector.
    fn nearest(&self) -> Option<f32> {
        (self.nearest >= self.farthest).then_some(self.nearest)
    }

    /// The score of a document whose lexical score is this share of the best one. The strength by words stands for a
    /// missing similarity.
    fn fused(&self, at: usize, lexical: f32, by_words: MatchStrength) -> f32 {
        let span = (self.nearest - self.farthest).max(f32::MIN_POSITIVE);
        let nearer = match (self.of(at), by_words) {
            (Some(near), _) => (near - self.farthest) / span,
            (None, MatchStrength::Strong) => 1.0,
            (None, MatchStrength::Possible) => 0.75,
            (None, MatchStrength::Weak) => 0.0,
        };
        LEXICAL_WEIGHT * lexical + (1.0 - LEXICAL_WEIGHT) * nearer
    }
}

/// The clauses of a query that asks for several things, each scored by itself.
struct Clauses<'a> {
    /// The similarities of each clause, and its lexical scores as shares of the best one.
    each: Vec<(Similarities, BTreeMap<Place<'a>, f32>)>,
    /// Their weight. The more the second-best clause is a request of its own, the greater it is.
    weight: f32,
}

impl<'a> Clauses<'a> {
    fn new(
        index: &'a Index,
        admit: &Admit<'_>,
        documents: &[Embedded<'_, '_>],
        query: &QueryMeaning,
        whole: &Similarities,
    ) -> Self {
        let near = |(text, vector): &'_ (String, Vec<f32>)| {
            let near = Similarities::new(documents, vector);
            (near.nearest - whole.nearest, text.clone(), near)
        };
        let mut near: Vec<(f32, String, Similarities)> = query.clauses.iter().map(near).collect();
        near.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        let second = near.get(1).map_or(f32::MIN, |(gain, ..)| *gain);
        let weight = CLAUSE_WEIGHT * (1.0 + second / FRAGMENT).clamp(0.0, 1.0);
        if weight <= 0.0 || whole.nearest().is_none() {
            return Self { each: Vec::new(), weight: 0.0 };
        }
        let scored = |(_, text, near): (f32, String, Similarities)| {
            let (hits, _) =
                search::best(index, &Query::new(index, &text), admit, BY_WORDS_OF_CLAUSE);
            let most = hits.iter().map(|hit| hit.score).fold(f32::MIN_POSITIVE, f32::max);
            (near, hits.into_iter().map(|hit| (hit.place, hit.score / most)).collect())
        };
        Self { each: near.into_iter().map(scored).collect(), weight }
    }

    /// The greatest similarity of a clause.
    fn nearest(&self) -> f32 {
        self.each.iter().map(|(near, _)| near.nearest).fold(f32::MIN, f32::max)
    }

    /// The score of a document whose score by the whole query is `whole`: the best clause counts, since a document does one of
    /// the things that are asked for.
    fn mixed(&self, at: usize, place: Place<'_>, whole: f32, by_words: MatchStrength) -> f32 {
        let score = |(near, lexical): &(Similarities, BTreeMap<Place<'a>, f32>)| {
            near.fused(at, lexical.get(&place).copied().unwrap_or_default(), by_words)
        };
        let best = self.each.iter().map(score).fold(0.0, f32::max);
        (1.0 - self.weight) * whole + self.weight * best
    }
}

/// Exact names come first, then scores; ties are broken by position.
fn better(a: &Hit<'_>, b: &Hit<'_>) -> Ordering {
    let by_score = || b.score.total_cmp(&a.score);
    b.named.cmp(&a.named).then_with(by_score).then_with(|| a.place.cmp(&b.place))
}
