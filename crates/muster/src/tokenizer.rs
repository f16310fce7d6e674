//! The tokenizer `o200k_base`, which counts the tokens that texts cost an agent.
//!
//! Its vocabulary is linked into the program as merges, a third of the size of a list of its tokens.

use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR};

use crate::error::CommandError;

/// The name of the vocabulary.
pub(crate) const NAME: &str = "o200k_base";

/// The tokens of one byte, followed by five columns for every other token: the low and the middle byte of its left
/// part, the same of its right part, and the high bits of both, four each. Both parts are ranks of earlier tokens.
/// Stored in columns, the data compresses best in a package.
const MERGES: &[u8] = include_bytes!("tokenizer/o200k_base.merges");
const BYTES: usize = 256;
const COLUMNS: usize = 5;

/// Counts tokens.
pub(crate) struct Tokenizer(CoreBPE);

impl Tokenizer {
    pub(crate) fn load() -> Result<Self, CommandError> {
        let failed =
            |reason: String| CommandError::new(format!("cannot load the tokenizer: {reason}"));
        let tokens =
            tokens(MERGES).ok_or_else(|| failed("its vocabulary is damaged".to_owned()))?;
        let ranks = tokens.into_iter().zip(0..).collect();
        let core = CoreBPE::new(ranks, [].into_iter().collect(), O200K_BASE_PAT_STR);
        core.map(Self).map_err(|err| failed(err.to_string()))
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }
}

/// Reconstructs all tokens in the order of their ranks; `None` if the data is damaged.
fn tokens(merges: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (bytes, columns) = merges.split_at_checked(BYTES)?;
    let count = columns.len() / COLUMNS;
    let mut tokens: Vec<Vec<u8>> = Vec::with_capacity(BYTES + count);
    tokens.extend(bytes.iter().map(|byte| vec![*byte]));
    for row in 0..count {
        let byte = |column: usize| columns.get(column * count + row).copied();
        let high = byte(4)?;
        let part = |first: usize, high: u8| {
            let rank = u32::from_le_bytes([byte(first)?, byte(first + 1)?, high, 0]);
            tokens.get(usize::try_from(rank).ok()?)
        };
        let token = [part(0, high & 0x0f)?.as_slice(), part(2, high >> 4)?].concat();
        tokens.push(token);
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, env, fs, path::Path};

    use super::*;

    /// Computes the merges of a vocabulary: splits each token into the two parts that the encoder merges last.
    fn merges(tokens: &[Vec<u8>]) -> Vec<u8> {
        let ranks: BTreeMap<&[u8], usize> =
            tokens.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank)).collect();
        let mut columns = vec![Vec::new(); COLUMNS];
        for (rank, token) in tokens.iter().enumerate().skip(BYTES) {
            let mut ends: Vec<usize> = (0..=token.len()).collect();
            while ends.len() > 3 {
                let merged = |at: &usize| ranks.get(&token[ends[*at]..ends[at + 2]]).copied();
                let earlier = |at: &usize| merged(at).filter(|merged| *merged < rank);
                let next =
                    (0..ends.len() - 2).filter(|at| earlier(at).is_some()).min_by_key(merged);
                ends.remove(next.expect("a token is made of two earlier ones") + 1);
            }
            let parts = [ranks[&token[..ends[1]]], ranks[&token[ends[1]..]]];
            let [left, right] = parts.map(usize::to_le_bytes);
            let bytes = [left[0], left[1], right[0], right[1], left[2] | (right[2] << 4)];
            columns.iter_mut().zip(bytes).for_each(|(column, byte)| column.push(byte));
        }
        tokens[..BYTES].iter().flatten().copied().chain(columns.concat()).collect()
    }

    /// `UPDATE_EXPECT=1` rewrites the file.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "as expect-test reads it")]
    fn the_vocabulary_is_that_of_tiktoken() {
        let reference = tiktoken_rs::o200k_base().unwrap();
        let token = |rank| reference.decode_bytes(&[rank]).ok();
        let expected: Vec<Vec<u8>> = (0..).map_while(token).collect();
        let is_update = env::var_os("UPDATE_EXPECT").is_some();
        if is_update {
            let file =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenizer/o200k_base.merges");
            fs::write(file, merges(&expected)).unwrap();
            return;
        }
        assert!(tokens(MERGES).unwrap() == expected, "run this test with UPDATE_EXPECT=1");
    }

    #[test]
    fn texts_have_as_many_tokens_as_with_tiktoken() {
        let (ours, reference) = (Tokenizer::load().unwrap(), tiktoken_rs::o200k_base().unwrap());
        for text in [
            "",
            "hello world",
            "{\"name\":\"git_log\"}",
            "naïve façade – 東京 🦀\r\n\t x",
            include_str!("tokenizer.rs"),
        ] {
            assert_eq!(ours.count(text), reference.encode_ordinary(text).len(), "{text}");
        }
    }

    #[test]
    fn a_damaged_vocabulary_is_refused() {
        assert!(tokens(b"short").is_none());
        assert!(tokens(&MERGES[..BYTES + 10 * COLUMNS]).is_none());
    }
}
