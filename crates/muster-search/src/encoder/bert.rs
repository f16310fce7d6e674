//! The sentence encoder.

use std::{fmt, path::Path};

use serde::Deserialize;

use crate::{
    encoder::{
        layer::{Layer, Norm, Sizes},
        math,
        matrix::Matrix,
        tokenizer::Tokenizer,
        weights::{ModelFile, ModelLoadError, Weights},
    },
    meaning::Embed,
};

/// The maximum number of word pieces of a text.
const MOST_TOKENS: usize = 128;
/// The number of word pieces that are encoded together; more texts share no more work.
const MAX_BATCH_TOKENS: usize = 128;

/// A sentence encoder.
pub struct Model {
    tokenizer: Tokenizer,
    words: Matrix,
    places: Matrix,
    /// Of texts of the first kind; there is no other.
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

/// The files of a model that is part of the program. Matrices of integers stay where they are.
#[derive(Clone, Copy)]
pub struct BuiltInModel {
    /// `config.json`.
    pub config: &'static [u8],
    /// `vocab.txt`.
    pub vocabulary: &'static [u8],
    /// `model.safetensors`.
    pub weights: &'static [u8],
}

#[derive(Deserialize)]
struct Config {
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
}

impl Model {
    /// Loads a model from its folder. Blocks for a moment.
    pub fn load(folder: &Path) -> Result<Self, ModelLoadError> {
        let file = |name: &str| ModelFile::read(folder.join(name));
        Self::of([file("config.json")?, file("vocab.txt")?, file("model.safetensors")?])
    }

    /// Loads a model that is part of the program.
    pub fn built_in(files: BuiltInModel) -> Result<Self, ModelLoadError> {
        Self::of([
            ModelFile::built_in("config.json", files.config),
            ModelFile::built_in("vocab.txt", files.vocabulary),
            ModelFile::built_in("model.safetensors", files.weights),
        ])
    }

    fn of([config, vocabulary, weights]: [ModelFile; 3]) -> Result<Self, ModelLoadError> {
        let about: Config = serde_json::from_slice(&config.bytes)
            .map_err(|error| config.malformed(error.to_string()))?;
        let sizes = Sizes {
            hidden: about.hidden_size,
            inner: about.intermediate_size,
            heads: about.num_attention_heads,
        };
        if sizes.heads == 0 || !sizes.hidden.is_multiple_of(sizes.heads) {
            let Sizes { hidden, heads, .. } = sizes;
            return Err(config.malformed(format!(
                "`hidden_size` ({hidden}) must be a multiple of `num_attention_heads` ({heads})"
            )));
        }
        let tokenizer = Tokenizer::read(vocabulary)?;
        let weights = Weights::new(weights)?;
        let layers = (0..about.num_hidden_layers)
            .map(|number| Layer::read(&weights, number, sizes))
            .collect::<Result<_, _>>()?;
        let table = |name: &str| {
            weights.matrix(&format!("embeddings.{name}_embeddings.weight"), sizes.hidden)
        };
        Ok(Self {
            tokenizer,
            words: table("word")?,
            places: table("position")?,
            kind: weights.first_row("embeddings.token_type_embeddings.weight", sizes.hidden)?,
            norm: Norm::read(&weights, "embeddings.LayerNorm", sizes.hidden)?,
            layers,
        })
    }

    /// The dimension of its vectors.
    pub fn dimensions(&self) -> usize {
        self.words.columns()
    }

    /// The vectors of texts, of length 1.
    pub fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let most = MOST_TOKENS.min(self.places.rows());
        let mut vectors = Vec::with_capacity(texts.len());
        let mut batch: Vec<Vec<usize>> = Vec::new();
        for text in texts {
            let tokens = self.tokenizer.read_text(text, most);
            if batch.iter().map(Vec::len).sum::<usize>() + tokens.len() > MAX_BATCH_TOKENS {
                vectors.extend(self.encode(&batch));
                batch.clear();
            }
            batch.push(tokens);
        }
        vectors.extend(self.encode(&batch));
        vectors
    }

    fn encode(&self, texts: &[Vec<usize>]) -> Vec<Vec<f32>> {
        let size = self.dimensions();
        let mut rows = vec![0.0; texts.iter().map(Vec::len).sum::<usize>() * size];
        let mut ranges = Vec::with_capacity(texts.len());
        let mut count = 0;
        let mut row = rows.chunks_exact_mut(size);
        for tokens in texts {
            ranges.push(count..count + tokens.len());
            count += tokens.len();
            for ((place, token), row) in tokens.iter().enumerate().zip(&mut row) {
                self.words.add_row(*token, row);
                self.places.add_row(place, row);
                math::add_scaled(row, 1.0, &self.kind);
            }
        }
        self.norm.apply(&mut rows);
        for layer in &self.layers {
            layer.apply(&mut rows, &ranges);
        }
        let vector = |range: std::ops::Range<usize>| {
            let mut vector = vec![0.0; size];
            let rows = rows.get(range.start * size..range.end * size).unwrap_or_default();
            for row in rows.chunks_exact(size) {
                math::add_scaled(&mut vector, 1.0, row);
            }
            let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
            let factor = 1.0 / length.max(f32::MIN_POSITIVE);
            vector.iter_mut().for_each(|one| *one *= factor);
            vector
        };
        ranges.into_iter().map(vector).collect()
    }
}

impl Embed for Model {
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        Self::embed(self, texts)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("dimensions", &self.dimensions()).finish_non_exhaustive()
    }
}

impl fmt::Debug for BuiltInModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltInModel").field("bytes", &self.weights.len()).finish_non_exhaustive()
    }
}
