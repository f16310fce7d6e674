//! Sentence embeddings by a small BERT encoder, run in this process.
//!
//! A model is a folder with `config.json`, `vocab.txt` and `model.safetensors`, as sentence encoders are
//! published.
//!
//! **Invariant:** no network, no other process; the same text gives the same vector.

mod bert;
mod cpu;
mod layer;
mod math;
mod matrix;
mod tokenizer;
mod weights;

pub use bert::{BuiltInModel, Model};
pub use weights::ModelLoadError;
