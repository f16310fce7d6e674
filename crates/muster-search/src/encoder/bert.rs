//! The sentence encoder.

use std::{fmt, fs, path::Path};

use ndarray::{Array1, Array2, Axis};
use serde::Deserialize;

use crate::encoder::{
    layer::{Layer, Norm},
    tokenizer::Tokenizer,
    weights::{ModelLoadError, Weights},
};

/// The maximum number of word pieces of a text.
const MOST_TOKENS: usize = 128;

/// A sentence encoder.
pub struct Model {
    tokenizer: Tokenizer,
    words: Array2<f32>,
    places: Array2<f32>,
    kind: Array1<f32>,
    norm: Norm,
    layers: Vec<Layer>,
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
        let path = folder.join("config.json");
        let text = fs::read(&path)
            .map_err(|source| ModelLoadError::Unreadable { path: path.clone(), source })?;
        let config: Config = serde_json::from_slice(&text)
            .map_err(|error| ModelLoadError::Malformed { path, reason: error.to_string() })?;
        let Config {
            hidden_size: size, intermediate_size: inner, num_attention_heads: heads, ..
        } = config;
        let tokenizer = Tokenizer::read(&folder.join("vocab.txt"))?;
        let weights = Weights::read(&folder.join("model.safetensors"))?;
        let layers = (0..config.num_hidden_layers)
            .map(|number| Layer::read(&weights, number, (size, inner, heads)))
            .collect::<Result<_, _>>()?;
        let kinds = weights.table("embeddings.token_type_embeddings.weight", size)?;
        Ok(Self {
            tokenizer,
            words: weights.table("embeddings.word_embeddings.weight", size)?,
            places: weights.table("embeddings.position_embeddings.weight", size)?,
            kind: kinds.row(0).to_owned(),
            norm: Norm::read(&weights, "embeddings.LayerNorm", size)?,
            layers,
        })
    }

    /// The dimension of its vectors.
    pub fn dimensions(&self) -> usize {
        self.words.ncols()
    }

    /// The vector of a text, of length 1.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let tokens = self.tokenizer.read_text(text, MOST_TOKENS.min(self.places.nrows()));
        let mut rows = Array2::zeros((tokens.len(), self.dimensions()));
        for (place, (mut row, token)) in rows.rows_mut().into_iter().zip(&tokens).enumerate() {
            for table in [(&self.words, *token), (&self.places, place)] {
                if let (table, number) = table
                    && number < table.nrows()
                {
                    row += &table.row(number);
                }
            }
            row += &self.kind;
        }
        let rows = self.layers.iter().fold(self.norm.of(rows), |rows, layer| layer.of(&rows));
        let mut vector = rows.mean_axis(Axis(0)).unwrap_or_default();
        let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
        vector /= length.max(f32::MIN_POSITIVE);
        vector.to_vec()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("dimensions", &self.dimensions()).finish_non_exhaustive()
    }
}
