//! Fusion of lexical and semantic scores.
//!
//! Words find what is named, embeddings find what is said in other words. Both scores are normalised by
//! the best document, weighted and added. A query with several clauses is also ranked by each of them, so that each has tools
//! among the first.

use std::{cmp::Ordering, collections::BTreeMap, iter};

use super::{
    document_set::DocumentSet,
    index::Index,
    meaning::{Meaning, QueryMeaning, nearness},
    products,
    query::Query,
    search::{self, Admit, Hit, Named, Place},
    verdict::{Answer, MatchStrength, judge, share, strength, unmatched},
};

/// The weight of the lexical score; the rest is semantic.
const LEXICAL_WEIGHT: f32 = 0.2;
/// The number of lexical candidates; later ones hardly match.
const BY_WORDS: usize = 1_000;
/// The same of a clause.
const BY_WORDS_OF_CLAUSE: usize = 200;
/// The greatest weight of clauses; the rest is that of the whole query.
const CLAUSE_WEIGHT: f32 = 0.8;
/// A clause is a request of its own if it is as similar to some document as the whole query is; if it is less similar by this
/// much, it is a fragment or an aside.
const FRAGMENT: f32 = 0.3;
/// What a clause loses for the next tool with each tool that it has. Otherwise several similar tools of one clause come before
/// the first one of another.
const SERVED: f32 = 0.1;
/// The number of tools of a clause that count as such.
const MOST_SERVED: f32 = 3.0;
/// The number of documents whose order depends on which clauses are served.
const IN_TURN: usize = 32;

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
        let mut hits: Vec<Scored<'a>> = documents
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
                if let Some(near) = near {
                    let meant = MatchStrength::of_meaning(near, share(&query, hit.score));
                    hit.strength = hit.strength.max(meant);
                }
                let score = whole.fused(at, hit.score / most);
                hit.score = clauses.mixed(&clauses.scores(at, *place), score, &[]);
                Some(Scored { hit, at, whole: score })
            })
            .collect();
        // Which tools are first must not depend on how many are asked for.
        let most = limit.max(IN_TURN);
        if most < hits.len() {
            hits.select_nth_unstable_by(most, |a, b| better(&a.hit, &b.hit));
            hits.truncate(most);
        }
        hits.sort_by(|a, b| better(&a.hit, &b.hit));
        let mut hits = clauses.in_turn(hits);
        hits.truncate(limit);
        let products = products::named(self, text, admit);
        let nearest = whole.nearest().map(|nearest| nearest.max(clauses.nearest()));
        let verdict = judge(&mut hits, (strength, nearest), &products);
        let unmatched_terms = unmatched(self, &query, admit);
        // A semantically similar document need not share a word with the query.
        let total = self.count(&matching, admit, sure).max(hits.len());
        let absent_products = products.absent;
        Answer { verdict, unmatched_terms, absent_products, strength, total, hits }
    }
}

/// A result, with its number among the visible documents and its score by the whole query.
struct Scored<'a> {
    hit: Hit<'a>,
    at: usize,
    whole: f32,
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

    /// The score of a document whose lexical score is this share of the best one.
    fn fused(&self, at: usize, lexical: f32) -> f32 {
        let span = (self.nearest - self.farthest).max(f32::MIN_POSITIVE);
        let nearer = self.of(at).map_or(0.0, |near| (near - self.farthest) / span);
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

    /// The scores of a document by each clause.
    fn scores(&self, at: usize, place: Place<'_>) -> Vec<f32> {
        let score = |(near, lexical): &(Similarities, BTreeMap<Place<'a>, f32>)| {
            near.fused(at, lexical.get(&place).copied().unwrap_or_default())
        };
        self.each.iter().map(score).collect()
    }

    /// The score of a document by its scores, where each clause has as many tools already as `served` says: the best clause
    /// counts, since a document does one of the things that are asked for.
    fn mixed(&self, scores: &[f32], whole: f32, served: &[f32]) -> f32 {
        let best = best_clause(scores, served).map_or(0.0, |(_, score)| score);
        (1.0 - self.weight) * whole + self.weight * best
    }

    /// The first results in an order in which clauses take turns; the best result of a clause that has none comes before more
    /// of one that has. The others follow.
    fn in_turn<'b>(&self, mut hits: Vec<Scored<'b>>) -> Vec<Hit<'b>> {
        let others = hits.split_off(hits.len().min(IN_TURN));
        let mut left: Vec<(Scored<'b>, Vec<f32>)> = hits
            .into_iter()
            .map(|one| {
                let scores = self.scores(one.at, one.hit.place);
                (one, scores)
            })
            .collect();
        let mut served = vec![0.0; self.each.len()];
        let mut ordered: Vec<Hit<'b>> = Vec::with_capacity(left.len() + others.len());
        while !left.is_empty() && !self.each.is_empty() {
            for (one, scores) in &mut left {
                one.hit.score = self.mixed(scores, one.whole, &served);
            }
            left.sort_by(|(a, _), (b, _)| better(&a.hit, &b.hit));
            let (next, scores) = left.remove(0);
            if let Some((clause, _)) = best_clause(&scores, &served)
                && let Some(count) = served.get_mut(clause)
            {
                *count = (*count + 1.0).min(MOST_SERVED);
            }
            ordered.push(next.hit);
        }
        ordered.extend(left.into_iter().map(|(one, _)| one.hit));
        let least = ordered.last().map_or(f32::MAX, |hit| hit.score);
        ordered.extend(
            others.into_iter().map(|one| Hit { score: one.hit.score.min(least), ..one.hit }),
        );
        ordered
    }
}

/// The clause that a document serves best by its scores, less what the clauses have already, and that score.
fn best_clause(scores: &[f32], served: &[f32]) -> Option<(usize, f32)> {
    let served = served.iter().copied().chain(iter::repeat(0.0));
    let left = scores.iter().zip(served).map(|(score, served)| score - SERVED * served);
    left.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Exact names come first, then scores; ties are broken by position.
fn better(a: &Hit<'_>, b: &Hit<'_>) -> Ordering {
    let by_score = || b.score.total_cmp(&a.score);
    b.named.cmp(&a.named).then_with(by_score).then_with(|| a.place.cmp(&b.place))
}
