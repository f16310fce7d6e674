//! Text that nobody can guess, and digests of it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use thiserror::Error;

/// The system has no randomness.
#[derive(Debug, Clone, Copy, Error)]
#[error("the system has no randomness to give")]
pub struct NoRandomness;

/// 256 random bits as 43 characters that are safe in addresses.
pub fn token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(base64url(&bytes))
}

/// The SHA-256 digest of a text, in characters that are safe in addresses. Also the `S256` challenge of
/// a PKCE verifier.
pub fn digest_of(text: &str) -> String {
    base64url(&sha256(text.as_bytes()))
}

/// The SHA-256 digest.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// Base64 as addresses and tokens have it.
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads what [`base64url`] wrote.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Whether two secrets are the same. Their digests are compared, so the time it takes says nothing.
pub fn same(left: &str, right: &str) -> bool {
    sha256(left.as_bytes()) == sha256(right.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{digest_of, token};

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }

    #[test]
    fn challenge_of_the_example_in_rfc_7636() {
        let challenge = digest_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
