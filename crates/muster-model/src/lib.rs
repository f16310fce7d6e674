//! The files of the sentence encoder that comes with the program (`models/README.md`).
//!
//! A crate of its own, so that 23 MB are compiled once. The bytes are part of the program's file and are read from it when
//! they are first used.

/// `config.json`.
pub static CONFIG: &[u8] = include_bytes!("../../../models/tool-search/config.json");
/// `vocab.txt`.
pub static VOCABULARY: &[u8] = include_bytes!("../../../models/tool-search/vocab.txt");
/// `model.safetensors`.
pub static WEIGHTS: &[u8] = include_bytes!("../../../models/tool-search/model.safetensors");
