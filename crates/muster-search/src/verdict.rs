//! The verdict of a search: found, unsure, or no such tool; and the strength of each match in a word.
//!
//! The strength of a result is the score of its best document, as a share of the score of a document with
//! every word of the query in its name. A weak result has one of two causes that words alone cannot
//! distinguish: the tool does not exist, or it is described in other words. A wrong "no such tool" is
//! worse than a poor match, so the thresholds are low. `bench/retrieval` measures both errors.

use super::{
    document_set::DocumentSet,
    field::{DocumentField, MOST},
    index::{Index, Part},
    meaning::nearness,
    products::{self, NamedProducts},
    query::{Query, Term},
    search::{self, Admit, Hit, Named, Place, score::NAME_COVERED},
};

/// The threshold of "no such tool". Half of the other one: no answerable question of the tuning sets is
/// as weak, and other sets will be harder.
const NO_SUCH_TOOL: f32 = UNSURE / 2.0;
/// The threshold of "unsure". One answerable question in fifty of the tuning sets is below it.
const UNSURE: f32 = 0.085;
/// The threshold of "no such tool" with embeddings, for the best similarity plus half of the lexical strength. One answerable
/// question in a hundred of the tuning set `held` is below it, where only held-out servers are in the catalog.
const SEMANTIC_NO_SUCH_TOOL: f32 = 0.37;
/// The thresholds of an unsure and of a strong match, for the similarity plus twice the lexical strength.
const SEMANTIC_UNSURE: f32 = 0.50;
const SEMANTIC_STRONG: f32 = 0.65;
/// The lexical strength from which the name of an absent product changes nothing: nearly all of the query is found. No question
/// of the tuning set `held` that names a product is as strong if the product's server is hidden, nor is "create an issue in
/// Jira" where another product has `create_issue`.
const DESPITE_ABSENT_PRODUCT: f32 = 0.6;
/// The best similarity from which the name of an absent product changes nothing: none of these questions is as near to a
/// tool of another server.
const SEMANTIC_DESPITE_ABSENT_PRODUCT: f32 = 0.65;
/// The similarity and the lexical strength of an alternative to a product that is not here. Of 74 questions of the tuning set
/// `held` that name a product, with its server hidden, 7 have a tool as near, which has nothing to do with 2 of them. Words alone
/// need at least so many: a single one is in unrelated tools.
const SEMANTIC_ALTERNATIVE: f32 = 0.55;
const ALTERNATIVE: f32 = 0.75;
const ALTERNATIVE_WORDS: usize = 2;
/// The number of servers that are named.
const NEAREST: usize = 3;

/// The share of a query's words, by weight, that a strong match has.
const STRONG: f32 = 0.75;
/// The share of a query's words, by weight, that a possible match has.
const POSSIBLE: f32 = 0.5;
/// The share of the best score that a strong match beside it has. Tools of one server share the words of the
/// server, so that the words alone would make all of them strong.
const STRONG_BESIDE_BEST: f32 = 0.75;
/// The share of the best score that a possible match beside it has.
const POSSIBLE_BESIDE_BEST: f32 = 0.5;
/// A query with more words is a sentence: its names, dates and values are in no description, so that the
/// shares of this many words suffice, but at least [`LEAST_PART`] of both.
const PHRASE: f32 = 4.0;
const LEAST_PART: f32 = 0.4;

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// The verdict.
    pub verdict: SearchVerdict<'a>,
    /// The words of the query that no tool has, nor a word that is similar or related.
    pub unmatched_terms: Vec<String>,
    /// The products that the query names and no tool mentions.
    pub absent_products: Vec<&'static str>,
    /// If there are absent products, the document that does for another one what is asked for. It is known by the query without
    /// the names of products: with them, `jq` is near to Jira.
    pub alternative: Option<Place<'a>>,
    /// The strength of the best document, from 0 to 1.
    pub strength: f32,
    /// The number of documents that contain a term of the query.
    pub total: usize,
    /// The best documents first. If there is no such tool, the nearest ones.
    pub hits: Vec<Hit<'a>>,
}

/// Whether the results answer the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchVerdict<'a> {
    /// They do.
    Found,
    /// They may.
    Unsure,
    /// They do not.
    NoSuchTool {
        /// The servers of the nearest tools, the nearest first.
        nearest_servers: Vec<&'a str>,
    },
}

/// How well a document matches a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchStrength {
    /// It shares some words with the query.
    Weak,
    /// It shares about half of the query.
    Possible,
    /// It shares most of the query, or is named by it.
    Strong,
}

impl MatchStrength {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Possible => "possible",
            Self::Strong => "strong",
        }
    }

    /// The strength of a document with a share of the query's words.
    pub(super) fn of_words(query: &Query, named: Named, coverage: f32) -> Self {
        let part = (PHRASE / (query.terms.len() as f32).max(1.0)).clamp(LEAST_PART, 1.0);
        match coverage {
            _ if named != Named::No => Self::Strong,
            share if share >= STRONG * part => Self::Strong,
            share if share >= POSSIBLE * part => Self::Possible,
            _ => Self::Weak,
        }
    }

    /// The strength to show beside a match with the best score.
    #[must_use]
    pub fn beside_best(self, score: f32, best: f32) -> Self {
        let most = match score {
            score if score >= STRONG_BESIDE_BEST * best => Self::Strong,
            score if score >= POSSIBLE_BESIDE_BEST * best => Self::Possible,
            _ => Self::Weak,
        };
        self.min(most)
    }

    /// The strength of a document by its similarity, and the lexical strength.
    pub(super) fn of_meaning(nearness: f32, strength: f32) -> Self {
        match nearness + 2.0 * strength {
            evidence if evidence >= SEMANTIC_STRONG => Self::Strong,
            evidence if evidence >= SEMANTIC_UNSURE => Self::Possible,
            _ => Self::Weak,
        }
    }
}

impl Index {
    /// The best matches of `text`: at most `limit` documents that `admit` accepts.
    ///
    /// A text without words has no matches.
    pub fn search<'a>(&'a self, text: &str, admit: &Admit<'_>, limit: usize) -> Answer<'a> {
        self.search_words(text, admit, None, limit)
    }

    /// Searches where the documents in `sure` are known to be accepted: the matches are counted faster.
    pub fn search_words<'a>(
        &'a self,
        text: &str,
        admit: &Admit<'_>,
        sure: Option<&DocumentSet>,
        limit: usize,
    ) -> Answer<'a> {
        let query = Query::new(self, text);
        let (mut hits, matching) = search::best(self, &query, admit, limit);
        let strength = strength(&query, &hits);
        let products = products::named(self, text, admit);
        let verdict = judge(&mut hits, (strength, None), &products);
        let unmatched_terms = unmatched(self, &query, admit);
        let total = self.count(&matching, admit, sure);
        let absent_products = products.absent;
        let alternative = match absent_products.as_slice() {
            [] => None,
            _ => alternative_by_words(self, text, admit),
        };
        Answer { verdict, unmatched_terms, absent_products, alternative, strength, total, hits }
    }
}

/// The document that has nearly all words of a query without the names of products.
fn alternative_by_words<'a>(index: &'a Index, text: &str, admit: &Admit<'_>) -> Option<Place<'a>> {
    let query = Query::new(index, &products::without_names(text)?);
    let (hits, _) = search::best(index, &query, admit, 1);
    let is_near = query.terms.len() >= ALTERNATIVE_WORDS && strength(&query, &hits) >= ALTERNATIVE;
    hits.first().filter(|_| is_near).map(|hit| hit.place)
}

/// The document that is nearest to a query without the names of products, if it is near.
pub(super) fn alternative_by_meaning<'a>(
    documents: &[(Place<'a>, Option<&[f32]>)],
    query: &[f32],
) -> Option<Place<'a>> {
    let near =
        documents.iter().filter_map(|(place, vector)| Some((*place, nearness(query, (*vector)?))));
    let (place, near) = near.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (near >= SEMANTIC_ALTERNATIVE).then_some(place)
}

/// Judges by the lexical strength and, if known, the best similarity. In doubt no match is strong.
///
/// A product that is not here has no tool here, however similar those of another product are, unless nearly all of the query
/// is found; if the query also names a product that is here, the tools of that one may be what it is about.
pub(super) fn judge<'a>(
    hits: &mut [Hit<'a>],
    (strength, nearest): (f32, Option<f32>),
    products: &NamedProducts,
) -> SearchVerdict<'a> {
    let (is_none, is_unsure) = match nearest {
        None => (strength < NO_SUCH_TOOL, strength < UNSURE),
        Some(nearest) => (
            nearest + 0.5 * strength < SEMANTIC_NO_SUCH_TOOL,
            nearest + 2.0 * strength < SEMANTIC_UNSURE,
        ),
    };
    let is_found_despite = match nearest {
        None => strength >= DESPITE_ABSENT_PRODUCT,
        Some(nearest) => nearest >= SEMANTIC_DESPITE_ABSENT_PRODUCT,
    };
    let is_absent = !products.absent.is_empty() && !is_found_despite;
    let named = hits.first().is_some_and(|best| best.named != Named::No);
    let is_weak = hits.iter().all(|hit| hit.strength == MatchStrength::Weak);
    let verdict = if named {
        SearchVerdict::Found
    } else if is_none || is_absent && !products.has_present {
        SearchVerdict::NoSuchTool { nearest_servers: nearest_servers(hits) }
    } else if is_unsure || is_weak || is_absent {
        SearchVerdict::Unsure
    } else {
        SearchVerdict::Found
    };
    if verdict != SearchVerdict::Found {
        for hit in hits {
            hit.strength = hit.strength.min(MatchStrength::Possible);
        }
    }
    verdict
}

pub(super) fn strength(query: &Query, hits: &[Hit<'_>]) -> f32 {
    match hits.first() {
        None => 0.0,
        Some(best) if best.named != Named::No => 1.0,
        Some(best) => share(query, best.score),
    }
}

/// A score as a share of the greatest possible one.
pub(super) fn share(query: &Query, score: f32) -> f32 {
    (score / (query.weight() * MOST * (1.0 + NAME_COVERED))).min(1.0)
}

/// The words that no visible document contains.
pub(super) fn unmatched(index: &Index, query: &Query, admit: &Admit<'_>) -> Vec<String> {
    let seen = |term: &Term| {
        let readings = term.readings.iter().map(|reading| reading.numbers.clone()).collect();
        is_seen(index, &[readings], Mention::Anywhere, admit)
    };
    query.terms.iter().filter(|term| !seen(term)).map(|term| term.word.clone()).collect()
}

/// The readings of a term, each by its number in every shard.
pub(super) type Readings = Vec<Vec<Option<u32>>>;

/// Where a document has several terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    /// Anywhere.
    Anywhere,
    /// In its texts, near each other; or in its server or tags. Parameters say what it takes, not what it is about.
    Near,
    /// Side by side, or in its server or tags.
    SideBySide,
}

/// The number of other words that may be among terms that are near each other, as in "Google Docs, Slides and Sheets".
const BETWEEN: usize = 3;

/// Whether a visible document has a reading of each of these terms.
pub(super) fn is_seen(
    index: &Index,
    terms: &[Readings],
    mention: Mention,
    admit: &Admit<'_>,
) -> bool {
    let Some(first) = terms.first() else { return false };
    index.searched().any(|(at, part)| {
        let in_part = |readings: &Readings| -> Vec<u32> {
            readings.iter().filter_map(|numbers| numbers.get(at).copied().flatten()).collect()
        };
        let in_parts: Vec<Vec<u32>> = terms.iter().map(in_part).collect();
        in_part(first).into_iter().any(|number| {
            let documents = part.shard.postings(number).iter().map(|posting| posting.document);
            documents.filter(|document| part.has(*document)).any(|document| {
                let (source, position) = part.shard.place(document);
                mentions(part, document, &in_parts, mention) && admit(Place { source, position })
            })
        })
    })
}

/// Whether a document has a reading of each of these terms.
fn mentions(part: &Part, document: u32, terms: &[Vec<u32>], mention: Mention) -> bool {
    let is_in = |readings: &[u32], accepts: &dyn Fn(DocumentField) -> bool| {
        let impacts = readings.iter().filter_map(|number| part.shard.impact(*number, document));
        impacts.into_iter().any(|impact| impact.fields().any(accepts))
    };
    if mention == Mention::Anywhere {
        let has = |number: &u32| part.shard.impact(*number, document).is_some();
        return terms.iter().all(|readings| readings.iter().any(has));
    }
    let is_about = |field| matches!(field, DocumentField::Server | DocumentField::Tag);
    let rest: Vec<&[u32]> =
        terms.iter().map(Vec::as_slice).filter(|readings| !is_in(readings, &is_about)).collect();
    // The positions of words are kept for the beginning of a description only, and a single word needs none.
    if let ([one], Mention::Near) = (rest.as_slice(), mention) {
        let is_taken =
            |field| matches!(field, DocumentField::Parameter | DocumentField::ParameterText);
        return is_in(one, &|field| !is_taken(field));
    }
    let words = part.shard.words(document);
    let has = |words: &[u32], readings: &[u32]| words.iter().any(|word| readings.contains(word));
    match mention {
        Mention::SideBySide => {
            let is_next = |(word, readings): (&u32, &Vec<u32>)| readings.contains(word);
            rest.is_empty()
                || words.windows(terms.len()).any(|words| words.iter().zip(terms).all(is_next))
        }
        Mention::Near | Mention::Anywhere => {
            let window = (rest.len() + BETWEEN).min(words.len()).max(1);
            rest.is_empty()
                || words.windows(window).any(|words| rest.iter().all(|one| has(words, one)))
        }
    }
}

fn nearest_servers<'a>(hits: &[Hit<'a>]) -> Vec<&'a str> {
    let mut servers: Vec<&str> = Vec::new();
    for hit in hits {
        if !servers.contains(&hit.place.source) && servers.len() < NEAREST {
            servers.push(hit.place.source);
        }
    }
    servers
}
