//! Ranked search over the words that describe tools.
//!
//! An [`Index`] holds documents by source and is an immutable value, as the catalog is. A search takes
//! a text and a predicate of what may be found, and gives the documents that fit best, or says that
//! there is no such tool.
//!
//! **Invariant:** the same documents and the same text give the same answer, whatever the order in
//! which the sources came; and nothing that the predicate holds back can be seen in the answer.

pub mod document;
pub mod field;
pub mod index;
pub mod query;
pub mod search;

mod repair;
mod shard;
mod synonyms;
mod words;
