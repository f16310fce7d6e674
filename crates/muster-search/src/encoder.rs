//! Sentence embeddings by a small BERT model, run in this process.
//!
//! A model is a directory with `config.json`, `vocab.txt` and `model.safetensors`, as sentence
//! encoders are published.
//!
//! **Invariant:** nothing is downloaded and no process is started; the same text gives the same
//! vector.

mod bert;
mod layer;
mod tensors;
mod tokenizer;

pub use bert::BertModel;
pub use tensors::ModelError;
