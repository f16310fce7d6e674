//! The layers of the encoder.

use std::ops::Range;

use crate::encoder::{
    cpu,
    math::{self, LANES},
    matrix::{Linear, Quantised},
    weights::{ModelLoadError, Weights},
};

/// Layer normalisation.
pub(crate) struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl Norm {
    pub(crate) fn read(weights: &Weights, name: &str, size: usize) -> Result<Self, ModelLoadError> {
        Ok(Self {
            scale: weights.vector(&format!("{name}.weight"), size)?,
            shift: weights.vector(&format!("{name}.bias"), size)?,
        })
    }

    pub(crate) fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.scale.len().max(1)) {
            cpu::normalise(row, &self.scale, &self.shift);
        }
    }
}

/// The sizes of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Of a vector.
    pub(crate) hidden: usize,
    /// Of a vector inside the feed-forward network.
    pub(crate) inner: usize,
    pub(crate) heads: usize,
}

/// A transformer layer: self-attention, then a feed-forward network.
pub(crate) struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    intermediate: Linear,
    output: Linear,
    norm: Norm,
    sizes: Sizes,
}

impl Layer {
    pub(crate) fn read(
        weights: &Weights,
        number: usize,
        sizes: Sizes,
    ) -> Result<Self, ModelLoadError> {
        let Sizes { hidden, inner, .. } = sizes;
        let name = |rest: &str| format!("encoder.layer.{number}.{rest}");
        let linear = |rest: &str, sizes| Linear::read(weights, &name(rest), sizes);
        Ok(Self {
            query: linear("attention.self.query", (hidden, hidden))?,
            key: linear("attention.self.key", (hidden, hidden))?,
            value: linear("attention.self.value", (hidden, hidden))?,
            attention_output: linear("attention.output.dense", (hidden, hidden))?,
            attention_norm: Norm::read(weights, &name("attention.output.LayerNorm"), hidden)?,
            intermediate: linear("intermediate.dense", (hidden, inner))?,
            output: linear("output.dense", (inner, hidden))?,
            norm: Norm::read(weights, &name("output.LayerNorm"), hidden)?,
            sizes,
        })
    }

    /// Replaces the rows of several texts, each of which sees itself only.
    pub(crate) fn apply(&self, rows: &mut Vec<f32>, texts: &[Range<usize>]) {
        let Sizes { hidden, inner, .. } = self.sizes;
        let input = Quantised::of(rows, hidden);
        let (query, key, value) =
            (self.query.of(&input), self.key.of(&input), self.value.of(&input));
        let mut attended = vec![0.0; rows.len()];
        for text in texts {
            self.attend(text, (&query, &key, &value), &mut attended);
        }
        let mut attention_output = self.attention_output.of(&Quantised::of(&attended, hidden));
        math::add_scaled(&mut attention_output, 1.0, rows);
        self.attention_norm.apply(&mut attention_output);
        let mut intermediate = self.intermediate.of(&Quantised::of(&attention_output, hidden));
        cpu::gelu(&mut intermediate);
        *rows = self.output.of(&Quantised::of(&intermediate, inner));
        math::add_scaled(rows, 1.0, &attention_output);
        self.norm.apply(rows);
    }

    /// Self-attention within the rows of one text.
    fn attend(
        &self,
        text: &Range<usize>,
        (query, key, value): (&[f32], &[f32], &[f32]),
        attended: &mut [f32],
    ) {
        let hidden = self.sizes.hidden;
        let size = hidden / self.sizes.heads;
        let span = text.start * hidden..text.end * hidden;
        let (Some(query), Some(key), Some(value), Some(attended)) = (
            query.get(span.clone()),
            key.get(span.clone()),
            value.get(span.clone()),
            attended.get_mut(span),
        ) else {
            return;
        };
        let factor = 1.0 / (size as f32).sqrt();
        let padded = text.len().next_multiple_of(LANES);
        let (mut keys, mut values) = (vec![0.0; padded * size], vec![0.0; text.len() * size]);
        let mut scores = vec![0.0; padded];
        for head in 0..self.sizes.heads {
            let of_head = head * size..(head + 1) * size;
            let rows = key.chunks_exact(hidden).zip(value.chunks_exact(hidden));
            for (at, ((key, value), copy)) in rows.zip(values.chunks_exact_mut(size)).enumerate() {
                let block = keys.chunks_exact_mut(size * LANES).nth(at / LANES);
                let block = block.unwrap_or_default().as_chunks_mut::<LANES>().0;
                let key = key.get(of_head.clone()).unwrap_or_default();
                for (place, one) in block.iter_mut().zip(key) {
                    if let Some(place) = place.get_mut(at % LANES) {
                        *place = *one * factor;
                    }
                }
                if let Some(value) = value.get(of_head.clone()) {
                    copy.copy_from_slice(value);
                }
            }
            for (query, attended) in
                query.chunks_exact(hidden).zip(attended.chunks_exact_mut(hidden))
            {
                let query = query.get(of_head.clone()).unwrap_or_default();
                let attended = attended.get_mut(of_head.clone()).unwrap_or_default();
                cpu::attend(query, &keys, &values, &mut scores, attended);
            }
        }
    }
}
