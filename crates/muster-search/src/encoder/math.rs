//! Functions of vectors, written so that the compiler makes vector instructions of them.
//!
//! They are always inlined, to be compiled for the instructions of their caller (see `cpu.rs`).

/// The number of partial sums: as many as the widest vectors hold, because sums of floating-point numbers
/// are not reordered by the compiler.
pub(super) const LANES: usize = 16;
/// Added to a variance, against division by zero.
const EPSILON: f32 = 1e-12;

/// The largest absolute value.
#[inline(always)]
pub(super) fn largest(row: &[f32]) -> f32 {
    folded(row, |most, one| most.max(one.abs()), f32::max)
}

/// The sum.
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    folded(row, |sum, one| sum + one, |a, b| a + b)
}

#[inline(always)]
fn folded(
    row: &[f32],
    step: impl Fn(f32, f32) -> f32 + Copy,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, one) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, *one);
        }
    }
    let rest = rest.iter().fold(0.0, |sum, one| step(sum, *one));
    lanes.into_iter().fold(rest, join)
}

/// A row as integers from `-largest` to `largest`, and what to multiply them with.
#[inline(always)]
pub(super) fn quantise(row: &[f32], largest: f32, integers: &mut [i16], scale: &mut f32) {
    let found = self::largest(row).max(LEAST);
    *scale = found / largest;
    let factor = largest / found;
    for (integer, one) in integers.iter_mut().zip(row) {
        // The sum has the integer in its lowest bits.
        let bits = (one * factor + ROUND).to_bits();
        *integer = (bits as u16).cast_signed();
    }
}

/// The least largest value of a row: a factor by a smaller one would be infinite, and zeros times it no numbers.
const LEAST: f32 = 1e-30;
/// Numbers below 2^22 that are added to it are rounded to integers.
const ROUND: f32 = 12_582_912.0;

/// The products of rows of weights, which are signed, with rows of input.
#[inline(always)]
pub(super) fn products(weights: &[u8], input: &[i16], columns: usize, sums: &mut [i32]) {
    let count = weights.len() / columns;
    for (input, sums) in input.chunks_exact(columns).zip(sums.chunks_exact_mut(count.max(1))) {
        for (weights, sum) in weights.chunks_exact(columns).zip(sums) {
            *sum = weights.iter().zip(input).fold(0, |sum: i32, (weight, one)| {
                sum.wrapping_add(i32::from(weight.cast_signed()).wrapping_mul(i32::from(*one)))
            });
        }
    }
}

/// The output of a dense layer for the products of integers.
#[inline(always)]
pub(super) fn scale(sums: &[i32], factor: f32, scales: &[f32], bias: &[f32], output: &mut [f32]) {
    let values = sums.iter().zip(scales).zip(bias);
    for (out, ((sum, scale), bias)) in output.iter_mut().zip(values) {
        *out = *sum as f32 * (scale * factor) + bias;
    }
}

/// Self-attention of one row: the values, weighted by how well their keys match the query.
///
/// The keys are in blocks of [`LANES`], each by dimension, and the last block is filled up with zeros. The values are by row, and
/// their number is that of the keys. `scores` has room for all blocks.
#[inline(always)]
pub(super) fn attend(
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    scores: &mut [f32],
    output: &mut [f32],
) {
    let (blocks, _) = scores.as_chunks_mut::<LANES>();
    for (sums, keys) in blocks.iter_mut().zip(keys.chunks_exact(query.len() * LANES)) {
        *sums = weighted(query, keys.as_chunks().0.iter());
    }
    let rows = values.chunks_exact(query.len());
    let count = rows.len();
    if let Some(rest) = scores.get_mut(count..) {
        rest.fill(f32::MIN);
    }
    softmax(scores);
    let (blocks, rest) = output.as_chunks_mut::<LANES>();
    for (at, sums) in blocks.iter_mut().enumerate() {
        *sums = weighted(scores, rows.clone().filter_map(|row| row.as_chunks().0.get(at)));
    }
    rest.fill(0.0);
    for (share, row) in scores.iter().zip(rows) {
        add_scaled(rest, *share, row.as_chunks::<LANES>().1);
    }
}

/// The sum of vectors of [`LANES`] numbers, each times its factor. The length is fixed, so that the sums stay in registers.
#[inline(always)]
fn weighted<'a>(factors: &[f32], vectors: impl Iterator<Item = &'a [f32; LANES]>) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (factor, vector) in factors.iter().zip(vectors) {
        for (sum, one) in sums.iter_mut().zip(vector) {
            *sum += factor * one;
        }
    }
    sums
}

/// Adds `factor` times a vector to another.
#[inline(always)]
pub(super) fn add_scaled(sums: &mut [f32], factor: f32, vector: &[f32]) {
    for (sum, one) in sums.iter_mut().zip(vector) {
        *sum += factor * one;
    }
}

/// Layer normalisation: mean 0 and variance 1, then scale and shift.
#[inline(always)]
pub(super) fn normalise(row: &mut [f32], scale: &[f32], shift: &[f32]) {
    let count = row.len() as f32;
    let mean = sum(row) / count;
    row.iter_mut().for_each(|one| *one -= mean);
    let variance = folded(row, |sum, one| sum + one * one, |a, b| a + b) / count;
    let factor = 1.0 / (variance + EPSILON).sqrt();
    for ((one, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
        *one = *one * factor * scale + shift;
    }
}

/// Softmax.
#[inline(always)]
fn softmax(row: &mut [f32]) {
    let most = row.iter().fold(f32::MIN, |most, one| most.max(*one));
    row.iter_mut().for_each(|one| *one = exp(*one - most));
    let factor = 1.0 / sum(row);
    row.iter_mut().for_each(|one| *one *= factor);
}

/// The activation of the feed-forward network.
#[inline(always)]
pub(super) fn gelu(row: &mut [f32]) {
    for x in row {
        *x = 0.5 * *x * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// The error function, to seven digits (Abramowitz and Stegun, 7.1.26).
#[inline(always)]
fn erf(x: f32) -> f32 {
    const FACTORS: [f32; 5] = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let sum = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - sum * exp(-x * x)).copysign(x)
}

/// The exponential function, to seven digits, without a call that stops vector instructions.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Beyond it the result is 0 or infinite in this precision.
    const MOST: f32 = 87.0;
    /// ln 2 in two parts: products of the first with small integers are exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    const FACTORS: [f32; 6] =
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];
    let x = x.clamp(-MOST, MOST);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * LN_2.0 - whole * LN_2.1;
    let sum = FACTORS.iter().fold(0.0, |sum, factor| sum * rest + factor);
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    (sum * rest * rest + rest + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::{LANES, attend, erf, exp, largest, quantise, softmax, sum};

    #[test]
    fn attention_of_texts_and_heads_that_do_not_fill_the_lanes() {
        for (count, size) in [(1, 8), (15, 32), (16, 16), (17, 40), (60, 32)] {
            // All scores are negative, so that a place without a key, whose score is 0, would outweigh them.
            let number = |at: usize| (at * 37 % 23) as f32 / 23.0;
            let query: Vec<f32> = (0..size).map(|at| number(at) - 2.0).collect();
            let key = |row: usize, at: usize| number(row * size + at + 5) + 1.0;
            let values: Vec<f32> = (0..count * size).map(|at| number(at + 11)).collect();
            let padded = count.next_multiple_of(LANES);
            let mut keys = vec![0.0; padded * size];
            for row in 0..count {
                for at in 0..size {
                    keys[(row / LANES * size + at) * LANES + row % LANES] = key(row, at);
                }
            }
            let mut output = vec![7.0; size];
            attend(&query, &keys, &values, &mut vec![7.0; padded], &mut output);
            let score = |row| (0..size).map(|at| query[at] * key(row, at)).sum::<f32>();
            let mut shares: Vec<f32> = (0..count).map(score).collect();
            softmax(&mut shares);
            for (at, found) in output.iter().enumerate() {
                let expect: f32 = (0..count).map(|row| shares[row] * values[row * size + at]).sum();
                assert!((found - expect).abs() < 1e-5, "{count}, {size}: {found}, {expect}");
            }
        }
    }

    #[test]
    fn the_exponential_function() {
        for step in -870_i16..=870 {
            let x = f32::from(step) / 10.0;
            let error = (exp(x) - x.exp()).abs() / x.exp();
            assert!(error < 1e-6, "{x}: {} instead of {}", exp(x), x.exp());
        }
        assert!(exp(-1e9) < 1e-37 && exp(1e9).is_finite());
    }

    #[test]
    fn the_error_function() {
        for (x, expect) in
            [(0.0, 0.0), (0.5, 0.520_5), (1.0, 0.842_7), (-1.0, -0.842_7), (3.0, 0.999_98)]
        {
            let x: f32 = x;
            assert!((erf(x) - expect).abs() < 1e-4, "{x}: {}", erf(x));
        }
    }

    #[test]
    fn vectors_that_do_not_fill_the_lanes() {
        let row: Vec<f32> = (0..37_i16).map(|at| f32::from(at) - 20.0).collect();
        assert_eq!((sum(&row), largest(&row)), (-74.0, 20.0));
        let mut integers = [0; 37];
        let mut scale = 0.0;
        quantise(&row, 50.0, &mut integers, &mut scale);
        assert_eq!((integers[0], integers[21], integers[36], scale), (-50, 2, 40, 0.4));
        quantise(&[0.0; 37], 8_191.0, &mut integers, &mut scale);
        assert!(integers == [0; 37] && scale > 0.0);
        let mut shares = [1.0, 1.0, 1.0];
        softmax(&mut shares);
        assert!(shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-6));
    }
}
