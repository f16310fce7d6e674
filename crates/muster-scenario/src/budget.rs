//! The cost of a result in tokens.

/// Estimates tokens as four bytes each, about right for English and JSON.
pub const fn approximate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}
