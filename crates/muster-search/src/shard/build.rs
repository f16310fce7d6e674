//! Builds a shard from the documents of one source.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;

use super::{Block, NAME_MARK, Posting, Shard, TEXT_END, TermDictionary};
use crate::{
    document::Document,
    field::{Field, Impact, TermCounts},
    tokenize::{self, Tokens},
};

/// The maximum number of tokens per field: descriptions are untrusted.
const MAX_FIELD_TOKENS: usize = 1_000;
/// The maximum number of description tokens considered for bigrams.
const MAX_BIGRAM_TOKENS: usize = 256;

/// Builds a shard from the documents of one source.
pub(crate) fn build(source: &str, documents: &[Document<'_>]) -> Shard {
    let mut build = ShardBuilder::default();
    for document in documents {
        build.push(document);
    }
    let count = documents.len() as u32;
    let block = Block { source: Arc::from(source), first: 0, count };
    build.finish(vec![block])
}

#[derive(Default)]
struct ShardBuilder {
    /// The postings of each term, in order of first occurrence.
    terms: IndexMap<String, Vec<Posting>>,
    /// The term of each token seen; none for stop words.
    known: IndexMap<String, Option<u32>>,
    texts: Vec<u32>,
    words: Vec<u32>,
    documents: u32,
}

impl ShardBuilder {
    fn push(&mut self, document: &Document<'_>) {
        self.texts.push(self.words.len() as u32);
        let name = self.term_ids(document.name);
        let name = if name.is_empty() { self.all_term_ids(document.name) } else { name };
        // Tokens of the title or an alias that repeat the name add nothing.
        let new = |term: &u32| !name.contains(term);
        let mut many = |texts: &[&str]| -> Vec<u32> {
            texts.iter().flat_map(|text| self.term_ids(text)).filter(new).collect()
        };
        let title = many(&[document.title]);
        let alias = many(document.aliases);
        let tag = many(document.tags);
        let server = self.term_ids(document.server);
        let description = self.term_ids(document.description);
        let (mut parameter, mut parameter_text) = (Vec::new(), Vec::new());
        for one in document.parameters.iter().take(MAX_FIELD_TOKENS) {
            parameter.extend(self.term_ids(one.name));
            parameter_text.extend(self.term_ids(one.description));
        }
        parameter.truncate(MAX_FIELD_TOKENS);
        parameter_text.truncate(MAX_FIELD_TOKENS);
        let neighbours = description.get(..MAX_BIGRAM_TOKENS).unwrap_or(&description);
        for text in [&name, &title, &alias, neighbours] {
            self.words.extend(text);
            self.words.push(TEXT_END);
        }
        self.post(&[name, title, server, description, parameter, parameter_text, tag, alias]);
        self.post_names(document);
        self.documents += 1;
    }

    /// The terms of a text.
    fn term_ids(&mut self, text: &str) -> Vec<u32> {
        let words = Tokens::of(text);
        words.iter().take(MAX_FIELD_TOKENS).filter_map(|word| self.token_id(word)).collect()
    }

    /// The terms of a text including stop words.
    fn all_term_ids(&mut self, text: &str) -> Vec<u32> {
        let words = Tokens::of(text);
        words.iter().take(MAX_FIELD_TOKENS).map(|word| self.term(&tokenize::stem(word))).collect()
    }

    fn token_id(&mut self, word: &str) -> Option<u32> {
        if let Some(term) = self.known.get(word) {
            return *term;
        }
        let term = (!tokenize::is_stop_word(word)).then(|| self.term(&tokenize::stem(word)));
        self.known.insert(word.to_owned(), term);
        term
    }

    fn term(&mut self, term: &str) -> u32 {
        let known = self.terms.get_index_of(term);
        known.unwrap_or_else(|| self.terms.insert_full(term.to_owned(), Vec::new()).0) as u32
    }

    fn post(&mut self, fields: &[Vec<u32>; Field::ALL.len()]) {
        let lengths: TermCounts =
            fields.each_ref().map(|terms| terms.len().min(MAX_FIELD_TOKENS) as u16);
        let mut counts: BTreeMap<u32, TermCounts> = BTreeMap::new();
        for (field, terms) in fields.iter().enumerate() {
            for term in terms {
                let count = counts.entry(*term).or_default().get_mut(field);
                count.map(|count| *count = count.saturating_add(1)).unwrap_or_default();
            }
        }
        for (term, counts) in counts {
            self.push_posting(term, Impact::new(&counts, &lengths));
        }
    }

    fn post_names(&mut self, document: &Document<'_>) {
        let names = std::iter::once(&document.name).chain(document.full_names);
        let mut names: Vec<String> =
            names.chain(document.aliases).map(|name| tokenize::normalized_name(name)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.iter().filter(|name| !name.is_empty()) {
            let term = self.term(&format!("{NAME_MARK}{name}"));
            self.push_posting(term, Impact::new(&[0; 8], &[0; 8]));
        }
    }

    fn push_posting(&mut self, term: u32, impact: Impact) {
        let document = self.documents;
        if let Some((_, postings)) = self.terms.get_index_mut(term as usize) {
            postings.push(Posting { document, impact });
        }
    }

    fn finish(mut self, blocks: Vec<Block>) -> Shard {
        self.texts.push(self.words.len() as u32);
        let mut order: Vec<(String, Vec<Posting>, usize)> = Vec::with_capacity(self.terms.len());
        for (met, (term, postings)) in self.terms.into_iter().enumerate() {
            order.push((term, postings, met));
        }
        order.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut numbers = vec![0; order.len()];
        let (mut terms, mut starts, mut postings) =
            (TermDictionary::default(), vec![0], Vec::new());
        for (number, (term, list, met)) in order.into_iter().enumerate() {
            terms.push(&term);
            postings.extend(list);
            starts.push(postings.len() as u32);
            numbers.get_mut(met).map(|place| *place = number as u32).unwrap_or_default();
        }
        for word in &mut self.words {
            *word = numbers.get(*word as usize).copied().unwrap_or(TEXT_END);
        }
        terms.finish();
        postings.shrink_to_fit();
        self.words.shrink_to_fit();
        Shard { blocks, terms, starts, postings, texts: self.texts, words: self.words }
    }
}
