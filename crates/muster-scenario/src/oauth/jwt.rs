//! ID tokens as JWTs: unsigned as in the original, or signed.

use std::{fmt, io};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

/// A signing key.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
    random: SystemRandom,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// A new key.
    pub fn new() -> io::Result<Self> {
        let failed = |_| io::Error::other("cannot generate a key");
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .map_err(|err| io::Error::other(err.to_string()))?;
        Ok(Self { pair, id: crate::instance::random_hex(), random })
    }

    /// The public key as a JWK.
    pub fn public(&self) -> Value {
        // The first byte marks an uncompressed point.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": encode(x), "y": encode(y),
        })
    }
}

/// Encodes bytes as base64url without padding.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The PKCE challenge of a verifier.
pub fn challenge_of(verifier: &str) -> String {
    encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// Encodes a token with these claims.
pub fn token(claims: &Value, key: Option<&SigningKey>) -> String {
    typed_token(claims, Some("JWT"), key)
}

/// Encodes a token with these claims and this type.
pub fn typed_token(claims: &Value, typ: Option<&str>, key: Option<&SigningKey>) -> String {
    let mut head = match key {
        Some(key) => json!({"alg": "ES256", "kid": key.id}),
        None => json!({"alg": "none"}),
    };
    if let (Some(head), Some(typ)) = (head.as_object_mut(), typ) {
        head.insert("typ".to_owned(), typ.into());
    }
    let signed = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
    let signature = key.and_then(|key| key.pair.sign(&key.random, signed.as_bytes()).ok());
    format!("{signed}.{}", signature.map(encode).unwrap_or_default())
}

/// Decodes the claims of a token without verifying it.
pub fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_head, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn tokens_round_trip() {
        let written = json!({"sub": "me", "aud": ["a", "b"]});
        let plain = token(&written, None);
        assert!(plain.ends_with('.'), "no signature: {plain}");
        assert_eq!(claims(&plain), Some(written.clone()));
        let key = SigningKey::new().unwrap();
        let signed = token(&written, Some(&key));
        assert_eq!(claims(&signed), Some(written));
        let (text, signature) = signed.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.pair.public_key());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(text.as_bytes(), &signature).unwrap();
        public.verify(b"something else", &signature).unwrap_err();
    }

    #[test]
    fn pkce_challenge_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge_of(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
