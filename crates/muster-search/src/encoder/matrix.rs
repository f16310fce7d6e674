//! Matrices of 8-bit integers with a scale for each row, and their product with rows of numbers.

use std::borrow::Cow;

use crate::encoder::{
    cpu, math,
    weights::{ModelLoadError, Weights},
};

/// The largest quantised input, if the sums of products with weights fit into 32 bits. Wider layers have smaller ones.
const LARGEST: i32 = 8_191;
/// The least range of inputs that is as exact as the weights are.
const LEAST_RANGE: i32 = 127;

/// A matrix: each value is an integer times the scale of its row.
pub(crate) struct Matrix {
    /// The integers, which are signed, row by row.
    values: Cow<'static, [u8]>,
    columns: usize,
    scales: Vec<f32>,
}

impl Matrix {
    /// None if the sizes do not agree.
    pub(crate) fn new(
        values: Cow<'static, [u8]>,
        columns: usize,
        scales: Vec<f32>,
    ) -> Option<Self> {
        let fits = columns > 0 && input_range(columns) >= LEAST_RANGE;
        (fits && values.len() == columns.checked_mul(scales.len())?).then_some(Self {
            values,
            columns,
            scales,
        })
    }

    /// A matrix of floating-point numbers, rounded.
    pub(crate) fn quantised(numbers: &[f32], columns: usize) -> Option<Self> {
        let mut values = Vec::with_capacity(numbers.len());
        let mut scales = Vec::new();
        for row in numbers.chunks_exact(columns.max(1)) {
            let scale = math::largest(row).max(f32::MIN_POSITIVE) / 127.0;
            #[expect(clippy::cast_possible_truncation, reason = "at most 127, which is rounded")]
            values.extend(row.iter().map(|one| ((one / scale).round() as i8).cast_unsigned()));
            scales.push(scale);
        }
        Self::new(Cow::Owned(values), columns, scales)
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn rows(&self) -> usize {
        self.scales.len()
    }

    /// Adds a row to a vector. A row that does not exist is 0.
    pub(crate) fn add_row(&self, number: usize, vector: &mut [f32]) {
        let start = number.saturating_mul(self.columns);
        let row = self.values.get(start..start.saturating_add(self.columns));
        if let (Some(row), Some(scale)) = (row, self.scales.get(number)) {
            for (sum, value) in vector.iter_mut().zip(row) {
                *sum += f32::from(value.cast_signed()) * scale;
            }
        }
    }
}

/// The largest input of a matrix with this number of columns: no sum of as many products with a weight, of at most 128,
/// overflows.
fn input_range(columns: usize) -> i32 {
    let columns = i32::try_from(columns).unwrap_or(i32::MAX).max(1);
    (i32::MAX / 128 / columns).min(LARGEST)
}

/// A dense layer.
pub(crate) struct Linear {
    weights: Matrix,
    bias: Vec<f32>,
}

impl Linear {
    pub(crate) fn read(
        weights: &Weights,
        name: &str,
        (from, to): (usize, usize),
    ) -> Result<Self, ModelLoadError> {
        let bias = weights.vector(&format!("{name}.bias"), to)?;
        let name = format!("{name}.weight");
        let matrix = weights.matrix(&name, from)?;
        match to > 0 && matrix.rows() == to {
            true => Ok(Self { weights: matrix, bias }),
            false => Err(weights.missing(&name)),
        }
    }

    /// The output for each row of the input.
    pub(crate) fn of(&self, input: &Quantised) -> Vec<f32> {
        let (from, to) = (self.weights.columns, self.bias.len());
        let mut sums = vec![0; input.values.len() / from * to];
        cpu::products(&self.weights.values, &input.values, from, &mut sums);
        let mut output = vec![0.0; input.scales.len() * to];
        let rows = output.chunks_exact_mut(to).zip(sums.chunks_exact(to));
        for ((output, sums), scale) in rows.zip(&input.scales) {
            cpu::scale(sums, *scale, &self.weights.scales, &self.bias, output);
        }
        output
    }
}

/// Rows of input as integers, each with its scale.
pub(crate) struct Quantised {
    /// Filled up with zeros to whole groups of rows.
    values: Vec<i16>,
    scales: Vec<f32>,
}

impl Quantised {
    pub(crate) fn of(rows: &[f32], columns: usize) -> Self {
        let count = rows.len() / columns;
        let mut values = vec![0; count.next_multiple_of(cpu::ROWS) * columns];
        let mut scales = vec![0.0; count];
        let range = input_range(columns) as f32;
        let integers = values.chunks_exact_mut(columns).zip(&mut scales);
        for (row, (values, scale)) in rows.chunks_exact(columns).zip(integers) {
            cpu::quantise(row, range, values, scale);
        }
        Self { values, scales }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{LARGEST, Linear, Matrix, Quantised, input_range};

    #[test]
    fn no_sum_of_a_wide_layer_overflows() {
        // The widths of MiniLM, BERT-base and BERT-large.
        for columns in [384, 1_536, 768, 3_072, 1_024, 4_096] {
            let weights = Cow::Owned(vec![128; columns * 4]);
            let weights = Matrix::new(weights, columns, vec![1.0; 4]).unwrap();
            let layer = Linear { weights, bias: vec![0.0; 4] };
            let output = layer.of(&Quantised::of(&vec![-1.0; columns], columns));
            let expect = 128.0 * columns as f32;
            assert!(output.iter().all(|one| (one / expect - 1.0).abs() < 1e-5), "{output:?}");
        }
        assert_eq!((input_range(1_536), input_range(3_072)), (LARGEST, 5_461));
        assert!(Matrix::new(Cow::Owned(vec![0; 1 << 20]), 1 << 20, vec![1.0]).is_none());
    }
}
