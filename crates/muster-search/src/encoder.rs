//! Sentence embeddings by a small BERT encoder, run in this process.
//!
//! A model is a folder with `config.json`, `vocab.txt` and `model.safetensors`, as sentence encoders are
//! published.
//!
//! **Invariant:** no network, no other process; the same text gives the same vector.

mod bert;
mod layer;
mod tokenizer;
mod weights;

pub use bert::Model;
pub use weights::ModelLoadError;
