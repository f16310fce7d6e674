//! Ranked tool search.
//!
//! An [`Index`](index::Index) holds documents by source and is an immutable value. A search takes a
//! query and a filter and returns the best documents, with a verdict whether they match or there is
//! no such tool.
//!
//! **Invariant:** results depend on the documents and the query alone, not on the order of updates;
//! and nothing that the filter rejects can be inferred from them.

pub mod document;
pub mod embedding;
pub mod encoder;
pub mod field;
pub mod fusion;
pub mod index;
pub mod query;
pub mod search;
pub mod verdict;

mod fuzzy;
mod shard;
mod synonyms;
mod tokenize;

#[cfg(test)]
mod tests;
