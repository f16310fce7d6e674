//! Builds the index of one source.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use indexmap::IndexMap;

use super::{BREAK, Block, Posting, Shard, Terms, WHOLE};
use crate::{
    document::Document,
    field::{Counts, DocumentField, Impact},
    products,
    words::{self, Words},
};

/// The maximum number of words of a field: a backend may send anything.
const MOST_WORDS: usize = 1_000;
/// The maximum number of words of a description that are checked for adjacency.
const MOST_NEIGHBOURS: usize = 256;

/// An index over the documents of one source, which `each` passes one by one.
pub(crate) fn shard_of(source: &str, each: impl FnOnce(&mut dyn FnMut(&Document<'_>))) -> Shard {
    let mut build = Build::default();
    each(&mut |document| build.push(document));
    let block = Block { source: Arc::from(source), first: 0, count: build.documents };
    build.finish(vec![block])
}

#[derive(Default)]
struct Build {
    /// The postings of each term, in the order of first occurrence.
    terms: IndexMap<String, Vec<Posting>>,
    /// The terms of the words so far; `None` for stop words.
    known: IndexMap<String, Option<u32>>,
    texts: Vec<u32>,
    words: Vec<u32>,
    documents: u32,
}

impl Build {
    fn push(&mut self, document: &Document<'_>) {
        self.texts.push(self.words.len() as u32);
        let name = self.read(document.name);
        let name = if name.is_empty() { self.read_everything(document.name) } else { name };
        // A title, an alias or a description that repeats the name adds nothing.
        let new = |term: &u32| !name.contains(term);
        let mut many = |texts: &[&str]| -> Vec<u32> {
            texts.iter().flat_map(|text| self.read(text)).filter(new).collect()
        };
        let title = many(&[document.title]);
        let alias = many(document.aliases);
        let tag = many(document.tags);
        let server = self.read(document.server);
        let repeats_name = words::repeats_name(document.description, document.name);
        let description = if repeats_name { Vec::new() } else { self.read(document.description) };
        let (mut parameter, mut parameter_text) = (Vec::new(), Vec::new());
        for one in document.parameters.iter().take(MOST_WORDS) {
            parameter.extend(self.read(one.name));
            parameter_text.extend(self.read(one.description));
        }
        parameter.truncate(MOST_WORDS);
        parameter_text.truncate(MOST_WORDS);
        let neighbours = description.get(..MOST_NEIGHBOURS).unwrap_or(&description);
        for text in [&name, &title, &alias, neighbours] {
            self.words.extend(text);
            self.words.push(BREAK);
        }
        self.post(&[name, title, server, description, parameter, parameter_text, tag, alias]);
        self.post_names(document);
        self.post_products(document);
        self.documents += 1;
    }

    /// The terms of a text.
    fn read(&mut self, text: &str) -> Vec<u32> {
        let words = Words::of(text);
        words.iter().take(MOST_WORDS).filter_map(|word| self.known(word)).collect()
    }

    /// The terms of a text, including stop words.
    fn read_everything(&mut self, text: &str) -> Vec<u32> {
        let words = Words::of(text);
        words.iter().take(MOST_WORDS).map(|word| self.term(&words::stem(word))).collect()
    }

    fn known(&mut self, word: &str) -> Option<u32> {
        if let Some(term) = self.known.get(word) {
            return *term;
        }
        let term = (!words::says_nothing(word)).then(|| self.term(&words::stem(word)));
        self.known.insert(word.to_owned(), term);
        term
    }

    fn term(&mut self, term: &str) -> u32 {
        let known = self.terms.get_index_of(term);
        known.unwrap_or_else(|| self.terms.insert_full(term.to_owned(), Vec::new()).0) as u32
    }

    fn post(&mut self, fields: &[Vec<u32>; DocumentField::ALL.len()]) {
        let lengths: Counts = fields.each_ref().map(|terms| terms.len().min(MOST_WORDS) as u16);
        let mut counts: BTreeMap<u32, Counts> = BTreeMap::new();
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
            names.chain(document.aliases).map(|name| words::squeezed(name)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.iter().filter(|name| !name.is_empty()) {
            let term = self.term(&format!("{WHOLE}{name}"));
            self.push_posting(term, Impact::new(&[0; 8], &[0; 8]));
        }
    }

    fn post_products(&mut self, document: &Document<'_>) {
        let texts = [document.name, document.title, document.server, document.description];
        let tags = document.tags.iter().chain(document.aliases).copied();
        let texts = texts.into_iter().chain(tags);
        let terms: BTreeSet<String> = texts.flat_map(products::compound_terms).collect();
        for term in terms {
            let term = self.term(&term);
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
        let (mut terms, mut starts, mut postings) = (Terms::default(), vec![0], Vec::new());
        for (number, (term, list, met)) in order.into_iter().enumerate() {
            terms.push(&term);
            postings.extend(list);
            starts.push(postings.len() as u32);
            numbers.get_mut(met).map(|place| *place = number as u32).unwrap_or_default();
        }
        for word in &mut self.words {
            *word = numbers.get(*word as usize).copied().unwrap_or(BREAK);
        }
        terms.finish();
        postings.shrink_to_fit();
        self.words.shrink_to_fit();
        Shard { blocks, terms, starts, postings, texts: self.texts, words: self.words }
    }
}
