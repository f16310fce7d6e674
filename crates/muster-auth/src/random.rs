//! Random tokens, SHA-256 digests and base64url.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use thiserror::Error;

/// The system's random number generator failed.
#[derive(Debug, Clone, Copy, Error)]
#[error("the system cannot provide random numbers")]
pub struct NoRandomness;

/// A random token: 256 bits as 43 URL-safe characters.
pub fn token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(base64url(&bytes))
}

/// The SHA-256 digest of a text in base64url. This is also the `S256` challenge of a PKCE verifier.
pub fn digest_of(text: &str) -> String {
    base64url(&sha256(text.as_bytes()))
}

/// The SHA-256 digest of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// Encodes URL-safe base64 without padding.
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes URL-safe base64 without padding.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Compares two secrets by their digests, so that the time taken reveals nothing about them.
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
    fn pkce_challenge_of_rfc_7636() {
        let challenge = digest_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
