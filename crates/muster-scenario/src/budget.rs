//! How large an answer is for the one who pays for it.

/// Tokens, roughly: four bytes each, which is about right for English and JSON.
pub const fn approximate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}
