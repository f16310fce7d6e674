//! The choice of vector instructions while the program runs.
//!
//! The only place of this crate with `unsafe` code: calls of functions that are compiled for instructions which not every
//! processor has, after checking that this processor has them, and loads from slices of the right length.

use super::math;

/// The rows of input that are multiplied together, so that they stay in the L1 cache.
const TILE: usize = 16;
/// The rows of input in one step. Inputs have a multiple of them.
pub(super) const ROWS: usize = 4;

/// Defines a function that runs another one with the widest vector instructions of this processor.
macro_rules! vectorised {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(super) fn $name($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($argument: $type),*) {
                    math::$name($($argument),*);
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) {
                    math::$name($($argument),*);
                }
                if has_avx512() {
                    #[expect(unsafe_code, reason = "the processor has the instructions")]
                    // SAFETY: the processor has the instructions that the function is compiled for.
                    return unsafe { avx512($($argument),*) };
                }
                if has_avx2() {
                    #[expect(unsafe_code, reason = "the processor has the instructions")]
                    // SAFETY: the processor has the instructions that the function is compiled for.
                    return unsafe { avx2($($argument),*) };
                }
            }
            math::$name($($argument),*);
        }
    };
}

vectorised! {
    /// See [`math::quantise`].
    quantise(row: &[f32], largest: f32, integers: &mut [i16], scale: &mut f32)
}
vectorised! {
    /// See [`math::scale`].
    scale(sums: &[i32], factor: f32, scales: &[f32], bias: &[f32], output: &mut [f32])
}
vectorised! {
    /// See [`math::normalise`].
    normalise(row: &mut [f32], scale: &[f32], shift: &[f32])
}
vectorised! {
    /// See [`math::gelu`].
    gelu(row: &mut [f32])
}
vectorised! {
    /// See [`math::attend`].
    attend(query: &[f32], keys: &[f32], values: &[f32], scores: &mut [f32], output: &mut [f32])
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    has_avx512() && is_x86_feature_detected!("avx512vnni")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// The products of rows of weights with rows of input, which have the same number of columns: the sums of the first row of input
/// come first.
pub(super) fn products(weights: &[u8], input: &[i16], columns: usize, sums: &mut [i32]) {
    let count = weights.len() / columns.max(1);
    let tiles = input.chunks(TILE * columns).zip(sums.chunks_mut(TILE * count));
    for (input, sums) in tiles {
        #[cfg(target_arch = "x86_64")]
        if columns.is_multiple_of(vnni::STEP) && count.is_multiple_of(vnni::GROUP) && has_vnni() {
            #[expect(unsafe_code, reason = "the processor has the instructions")]
            // SAFETY: the processor has the instructions that the function is compiled for.
            unsafe {
                vnni::products(weights, input, columns, sums);
            }
            continue;
        }
        #[cfg(target_arch = "x86_64")]
        if columns.is_multiple_of(x86::STEP) && count.is_multiple_of(x86::PAIR) && has_avx2() {
            #[expect(unsafe_code, reason = "the processor has the instructions")]
            // SAFETY: the processor has the instructions that the function is compiled for.
            unsafe {
                x86::products(weights, input, columns, sums);
            }
            continue;
        }
        math::products(weights, input, columns, sums);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi32, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_setzero_si256,
    };

    use super::ROWS;

    /// The columns of one instruction.
    pub(super) const STEP: usize = 16;
    /// The rows of weights in one step.
    pub(super) const PAIR: usize = 2;

    #[target_feature(enable = "avx2")]
    pub(super) fn products(weights: &[u8], input: &[i16], columns: usize, sums: &mut [i32]) {
        let count = weights.len() / columns;
        for (pair, weights) in weights.chunks_exact(PAIR * columns).enumerate() {
            let (first, second) = weights.split_at(columns);
            let groups =
                input.chunks_exact(ROWS * columns).zip(sums.chunks_exact_mut(ROWS * count));
            for (input, sums) in groups {
                for (at, products) in group(first, second, input, columns).into_iter().enumerate() {
                    for (row, sum) in products.into_iter().enumerate() {
                        if let Some(place) = sums.get_mut(row * count + pair * PAIR + at) {
                            *place = sum;
                        }
                    }
                }
            }
        }
    }

    /// The products of two rows of weights with [`ROWS`] rows of input.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn group(first: &[u8], second: &[u8], input: &[i16], columns: usize) -> [[i32; ROWS]; PAIR] {
        let (a, rest) = input.split_at(columns);
        let (b, rest) = rest.split_at(columns);
        let (c, d) = rest.split_at(columns);
        let mut sums = [[_mm256_setzero_si256(); ROWS]; PAIR];
        let weights = steps(first).iter().zip(steps(second));
        let input = steps(a).iter().zip(steps(b)).zip(steps(c).iter().zip(steps(d)));
        for ((first, second), ((a, b), (c, d))) in weights.zip(input) {
            let weights = [_mm256_cvtepi8_epi16(bytes(first)), _mm256_cvtepi8_epi16(bytes(second))];
            let input = [words(a), words(b), words(c), words(d)];
            for (sums, weights) in sums.iter_mut().zip(weights) {
                for (sum, input) in sums.iter_mut().zip(input) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(weights, input));
                }
            }
        }
        sums.map(|sums| totals(sums))
    }

    fn steps<T>(row: &[T]) -> &[[T; STEP]] {
        row.as_chunks().0
    }

    /// The sum of each vector.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn totals([a, b, c, d]: [__m256i; ROWS]) -> [i32; ROWS] {
        let both = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let sums = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let mut totals = [0; ROWS];
        #[expect(unsafe_code, reason = "there is no safe store")]
        // SAFETY: the array has room for the four integers of the vector; its alignment does not matter.
        unsafe {
            _mm_storeu_si128((&raw mut totals).cast::<__m128i>(), sums);
        }
        totals
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn bytes(step: &[u8; STEP]) -> __m128i {
        #[expect(unsafe_code, reason = "there is no safe load")]
        // SAFETY: the array has the 16 bytes of the vector; its alignment does not matter.
        unsafe {
            _mm_loadu_si128((&raw const *step).cast())
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn words(step: &[i16; STEP]) -> __m256i {
        #[expect(unsafe_code, reason = "there is no safe load")]
        // SAFETY: the array has the 32 bytes of the vector; its alignment does not matter.
        unsafe {
            _mm256_loadu_si256((&raw const *step).cast())
        }
    }
}

/// Dot products with vectors of 512 bits, and an instruction that multiplies and adds at once (AVX-512 VNNI).
#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_cvtepi8_epi16,
        _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_setzero_si512, _mm512_shuffle_i32x4,
        _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
        _mm512_unpacklo_epi64,
    };

    use super::ROWS;

    /// The columns of one instruction.
    pub(super) const STEP: usize = 32;
    /// The rows of weights in one step: with [`ROWS`] rows of input, half of the registers hold sums.
    pub(super) const GROUP: usize = 4;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn products(weights: &[u8], input: &[i16], columns: usize, sums: &mut [i32]) {
        let count = weights.len() / columns;
        for (first, weights) in weights.chunks_exact(GROUP * columns).enumerate() {
            let groups =
                input.chunks_exact(ROWS * columns).zip(sums.chunks_exact_mut(ROWS * count));
            for (input, sums) in groups {
                for (row, products) in group(weights, input, columns).into_iter().enumerate() {
                    let start = row * count + first * GROUP;
                    if let Some(place) = sums.get_mut(start..start + GROUP) {
                        place.copy_from_slice(&products);
                    }
                }
            }
        }
    }

    /// The products of [`ROWS`] rows of input with [`GROUP`] rows of weights.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[inline]
    fn group(weights: &[u8], input: &[i16], columns: usize) -> [[i32; GROUP]; ROWS] {
        let (e, f, g, h) = rows(weights, columns);
        let (a, b, c, d) = rows(input, columns);
        let mut sums = [[_mm512_setzero_si512(); GROUP]; ROWS];
        let weights = e.iter().zip(f).zip(g.iter().zip(h));
        let input = a.iter().zip(b).zip(c.iter().zip(d));
        for (((e, f), (g, h)), ((a, b), (c, d))) in weights.zip(input) {
            let weights = [bytes(e), bytes(f), bytes(g), bytes(h)];
            let input = [words(a), words(b), words(c), words(d)];
            for (sums, input) in sums.iter_mut().zip(input) {
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = _mm512_dpwssd_epi32(*sum, weights, input);
                }
            }
        }
        totals(sums)
    }

    /// The sum of each vector. Sixteen vectors are added up together, which takes a third of the instructions.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn totals(sums: [[__m512i; GROUP]; ROWS]) -> [[i32; GROUP]; ROWS] {
        let [a, b, c, d] = sums.map(|sums| lanes(sums));
        let (ab, cd) = (halves(a, b), halves(c, d));
        let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab, cd);
        let odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab, cd);
        let mut totals = [[0; GROUP]; ROWS];
        #[expect(unsafe_code, reason = "there is no safe store")]
        // SAFETY: the array has room for the sixteen integers of the vector; its alignment does not matter.
        unsafe {
            _mm512_storeu_si512((&raw mut totals).cast(), _mm512_add_epi32(even, odd));
        }
        totals
    }

    /// In each lane of 128 bits, the sums of that lane of four vectors.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn lanes([a, b, c, d]: [__m512i; GROUP]) -> __m512i {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
    }

    /// The sums of the first and the third lane, and of the second and the fourth, of one vector and of another.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn halves(a: __m512i, b: __m512i) -> __m512i {
        let low = _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b);
        let high = _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b);
        _mm512_add_epi32(low, high)
    }

    /// Four rows in steps.
    type Rows<'a, T> = (&'a [[T; STEP]], &'a [[T; STEP]], &'a [[T; STEP]], &'a [[T; STEP]]);

    fn rows<T>(rows: &[T], columns: usize) -> Rows<'_, T> {
        let (a, rest) = rows.split_at(columns);
        let (b, rest) = rest.split_at(columns);
        let (c, d) = rest.split_at(columns);
        (a.as_chunks().0, b.as_chunks().0, c.as_chunks().0, d.as_chunks().0)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn bytes(step: &[u8; STEP]) -> __m512i {
        #[expect(unsafe_code, reason = "there is no safe load")]
        // SAFETY: the array has the 32 bytes of the vector; its alignment does not matter.
        let bytes: __m256i = unsafe { _mm256_loadu_si256((&raw const *step).cast()) };
        _mm512_cvtepi8_epi16(bytes)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn words(step: &[i16; STEP]) -> __m512i {
        #[expect(unsafe_code, reason = "there is no safe load")]
        // SAFETY: the array has the 64 bytes of the vector; its alignment does not matter.
        unsafe {
            _mm512_loadu_si512((&raw const *step).cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, products};
    use crate::encoder::math;

    /// A way to multiply, and its name.
    type Path = (&'static str, fn(&[u8], &[i16], usize, &mut [i32]));

    /// The ways that this processor and these sizes allow.
    fn paths(columns: usize, count: usize) -> Vec<Path> {
        let mut paths: Vec<Path> = vec![("as chosen", products)];
        #[cfg(target_arch = "x86_64")]
        {
            use super::{has_avx2, has_vnni, vnni, x86};
            if columns.is_multiple_of(x86::STEP) && count.is_multiple_of(x86::PAIR) && has_avx2() {
                #[expect(unsafe_code, reason = "the processor has the instructions")]
                // SAFETY: the processor has the instructions that the function is compiled for.
                paths.push(("avx2", |weights, input, columns, sums| unsafe {
                    x86::products(weights, input, columns, sums);
                }));
            }
            if columns.is_multiple_of(vnni::STEP) && count.is_multiple_of(vnni::GROUP) && has_vnni()
            {
                #[expect(unsafe_code, reason = "the processor has the instructions")]
                // SAFETY: the processor has the instructions that the function is compiled for.
                paths.push(("vnni", |weights, input, columns, sums| unsafe {
                    vnni::products(weights, input, columns, sums);
                }));
            }
        }
        paths
    }

    #[test]
    fn vector_instructions_give_the_same_products() {
        for (columns, count, rows) in
            [(32, 6, 4), (384, 2, 20), (20, 3, 8), (48, 5, 4), (384, 8, 20), (64, 4, 4)]
        {
            let mut state = 7_u32;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16
            };
            let weights: Vec<u8> = (0..columns * count).map(|_| next() as u8).collect();
            let input: Vec<i16> =
                (0..columns * rows).map(|_| (next() % 16_383) as i16 - 8_191).collect();
            assert_eq!(rows % ROWS, 0);
            let mut plain = vec![0; rows * count];
            math::products(&weights, &input, columns, &mut plain);
            for (name, products) in paths(columns, count) {
                println!("{columns} columns, {count} rows: {name}");
                let mut sums = vec![0; rows * count];
                products(&weights, &input, columns, &mut sums);
                assert_eq!(sums, plain, "{columns} columns, {count} rows: {name}");
            }
        }
    }
}
