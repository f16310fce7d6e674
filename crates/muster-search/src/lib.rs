//! Ranked search over the words that describe tools.
//!
//! An [`Index`](index::Index) holds documents by source and is an immutable value, like the catalog. A
//! search takes a text and a visibility predicate, and returns the best documents together with a
//! verdict: found, unsure, or no such tool.
//!
//! **Invariant:** the same documents and the same text give the same result, in whatever order sources
//! were added; and a result reveals nothing about documents that the predicate rejects.

pub mod document;
pub mod document_set;
pub mod encoder;
pub mod field;
pub mod fusion;
pub mod index;
pub mod meaning;
pub mod query;
pub mod search;
pub mod verdict;

mod clauses;
mod products;
mod repair;
mod shard;
mod synonyms;
mod words;

#[cfg(test)]
mod tests;
