//! Ranked search over the words that describe tools.
//!
//! An [`Index`](index::Index) holds documents by source and is an immutable value, as the catalog is. A
//! search takes a text and a predicate of what may be found, and gives the documents that fit best
//! together with a verdict: whether that is what was asked for, or there is no such tool.
//!
//! **Invariant:** the same documents and the same text give the same answer, whatever the order in
//! which the sources came; and nothing that the predicate holds back can be seen in the answer.

pub mod document;
pub mod encoder;
pub mod field;
pub mod fusion;
pub mod index;
pub mod meaning;
pub mod query;
pub mod search;
pub mod verdict;

mod repair;
mod shard;
mod synonyms;
mod words;

#[cfg(test)]
mod tests;
