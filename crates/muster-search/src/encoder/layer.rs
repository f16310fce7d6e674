//! The layers of the encoder.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};

use crate::encoder::weights::{ModelLoadError, Weights};

/// Added to a variance, against division by zero.
const EPSILON: f32 = 1e-12;

/// A dense layer.
pub(crate) struct Linear {
    weights: Array2<f32>,
    bias: Array1<f32>,
}

impl Linear {
    pub(crate) fn read(
        weights: &Weights,
        name: &str,
        (from, to): (usize, usize),
    ) -> Result<Self, ModelLoadError> {
        let table = weights.table(&format!("{name}.weight"), from)?;
        let bias = weights.vector(&format!("{name}.bias"), to)?;
        // Transposed, so that the product reads rows of both.
        Ok(Self { weights: table.reversed_axes().as_standard_layout().into_owned(), bias })
    }

    pub(crate) fn of(&self, input: &ArrayView2<'_, f32>) -> Array2<f32> {
        input.dot(&self.weights) + &self.bias
    }
}

/// Layer normalisation: mean 0 and variance 1 in each row, then scale and shift.
pub(crate) struct Norm {
    scale: Array1<f32>,
    shift: Array1<f32>,
}

impl Norm {
    pub(crate) fn read(weights: &Weights, name: &str, size: usize) -> Result<Self, ModelLoadError> {
        Ok(Self {
            scale: weights.vector(&format!("{name}.weight"), size)?,
            shift: weights.vector(&format!("{name}.bias"), size)?,
        })
    }

    pub(crate) fn of(&self, mut rows: Array2<f32>) -> Array2<f32> {
        for mut row in rows.rows_mut() {
            let mean = row.mean().unwrap_or_default();
            row -= mean;
            let variance = row.iter().map(|one| one * one).sum::<f32>() / row.len() as f32;
            row /= (variance + EPSILON).sqrt();
            row *= &self.scale;
            row += &self.shift;
        }
        rows
    }
}

/// A transformer layer: self-attention, then a feed-forward network.
pub(crate) struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    seen: Linear,
    seen_norm: Norm,
    wide: Linear,
    narrow: Linear,
    norm: Norm,
    heads: usize,
}

impl Layer {
    pub(crate) fn read(
        weights: &Weights,
        number: usize,
        (size, inner, heads): (usize, usize, usize),
    ) -> Result<Self, ModelLoadError> {
        let name = |rest: &str| format!("encoder.layer.{number}.{rest}");
        let linear = |rest: &str, sizes| Linear::read(weights, &name(rest), sizes);
        Ok(Self {
            query: linear("attention.self.query", (size, size))?,
            key: linear("attention.self.key", (size, size))?,
            value: linear("attention.self.value", (size, size))?,
            seen: linear("attention.output.dense", (size, size))?,
            seen_norm: Norm::read(weights, &name("attention.output.LayerNorm"), size)?,
            wide: linear("intermediate.dense", (size, inner))?,
            narrow: linear("output.dense", (inner, size))?,
            norm: Norm::read(weights, &name("output.LayerNorm"), size)?,
            heads,
        })
    }

    pub(crate) fn of(&self, input: &Array2<f32>) -> Array2<f32> {
        let attended = self.attend(&input.view());
        let seen = self.seen_norm.of(self.seen.of(&attended.view()) + input);
        let mut wide = self.wide.of(&seen.view());
        wide.mapv_inplace(gelu);
        self.norm.of(self.narrow.of(&wide.view()) + &seen)
    }

    fn attend(&self, input: &ArrayView2<'_, f32>) -> Array2<f32> {
        let (query, key, value) = (self.query.of(input), self.key.of(input), self.value.of(input));
        let mut attended = Array2::zeros(query.raw_dim());
        let size = query.ncols() / self.heads.max(1);
        for head in 0..self.heads {
            let part = s![.., head * size..(head + 1) * size];
            let mut scores = query.slice(part).dot(&key.slice(part).t());
            scores /= (size as f32).sqrt();
            for mut row in scores.axis_iter_mut(Axis(0)) {
                let most = row.fold(f32::MIN, |most, one| most.max(*one));
                row.mapv_inplace(|one| (one - most).exp());
                let sum = row.sum();
                row /= sum;
            }
            attended.slice_mut(part).assign(&scores.dot(&value.slice(part)));
        }
        attended
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x / std::f32::consts::SQRT_2))
}

/// The error function, to seven digits (Abramowitz and Stegun, 7.1.26).
fn erf(x: f32) -> f32 {
    const FACTORS: [f32; 5] = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let sum = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn the_error_function() {
        for (x, expect) in
            [(0.0, 0.0), (0.5, 0.520_5), (1.0, 0.842_7), (-1.0, -0.842_7), (3.0, 0.999_98)]
        {
            let x: f32 = x;
            assert!((erf(x) - expect).abs() < 1e-4, "{x}: {}", erf(x));
        }
    }
}
