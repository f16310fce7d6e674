//! Encryption at rest: AES-256-GCM, with the key of a value as associated data, so that a value cannot be
//! moved to another key.

use std::{collections::BTreeSet, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use thiserror::Error;

/// A key with fewer different bytes is a word or a pattern, not random.
const MIN_DISTINCT_BYTES: usize = 12;

/// Why an encryption key cannot be used. The text never contains the key.
#[derive(Debug, Error)]
pub enum InvalidEncryptionKey {
    /// It is not 32 encoded bytes.
    #[error(
        "the encryption key must be 32 bytes in base64 or hexadecimal digits\nhint: make one with `openssl rand -base64 32`"
    )]
    Form,
    /// It is not random.
    #[error("the encryption key is not random\nhint: make one with `openssl rand -base64 32`")]
    Guessable,
}

/// Encrypts and decrypts stored values.
pub struct Seal(LessSafeKey);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// Parses an encryption key in base64 or hexadecimal.
    pub fn new(key: &str) -> Result<Self, InvalidEncryptionKey> {
        let bytes = hexadecimal(key)
            .or_else(|| STANDARD.decode(key).ok())
            .ok_or(InvalidEncryptionKey::Form)?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| InvalidEncryptionKey::Form)?;
        if bytes.iter().collect::<BTreeSet<_>>().len() < MIN_DISTINCT_BYTES {
            return Err(InvalidEncryptionKey::Guessable);
        }
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| InvalidEncryptionKey::Form)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    pub(crate) fn seal(&self, key: &str, mut value: Vec<u8>) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let (unique, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(key.as_bytes()));
        self.0.seal_in_place_append_tag(unique, aad, &mut value).ok()?;
        Some([nonce.as_slice(), &value].concat())
    }

    pub(crate) fn open(&self, key: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, value) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut value = value.to_vec();
        let plain = self.0.open_in_place(nonce, Aad::from(key.as_bytes()), &mut value).ok()?;
        Some(plain.to_vec())
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::Seal;

    const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";

    #[test]
    fn invalid_keys() {
        let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        assert!(Seal::new(KEY).is_ok());
        assert!(Seal::new(hex).is_ok());
        for (key, expected) in [
            ("", "32 bytes"),
            ("MDEy", "32 bytes"),
            ("not base64 at all, and long enough to be", "32 bytes"),
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "not random"),
            (&"ab".repeat(32), "not random"),
        ] {
            let message = Seal::new(key).unwrap_err().to_string();
            assert!(message.contains(expected), "{key}: {message}");
            assert!(key.is_empty() || !message.contains(key));
        }
    }

    #[test]
    fn a_sealed_value_opens_under_its_own_key_only() {
        let seal = Seal::new(KEY).unwrap();
        let sealed = seal.seal("a", b"canary".to_vec()).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"canary"));
        assert_eq!(seal.open("a", &sealed).unwrap(), b"canary");
        assert_eq!(seal.open("b", &sealed), None);
        let mut tampered = sealed.clone();
        *tampered.last_mut().unwrap() ^= 1;
        assert_eq!(seal.open("a", &tampered), None);
        assert_eq!(seal.open("a", &[]), None);
        assert_ne!(seal.seal("a", b"canary".to_vec()).unwrap(), sealed);
    }
}
