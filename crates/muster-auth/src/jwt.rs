//! JSON Web Tokens: parsing and verification.
//!
//! Only signatures by public-key algorithms are accepted: neither `none` nor shared secrets.

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use thiserror::Error;

use crate::{jwks::PublicKey, random::from_base64url};

/// The clock skew that is tolerated between two machines, in seconds.
pub const LEEWAY: u64 = 60;

/// The maximum length of a token.
const MAX_LENGTH: usize = 16 * 1024;

/// Why a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwtError {
    /// It is not a JWT.
    #[error("it is not a signed token")]
    Malformed,
    /// Its signature algorithm is not accepted.
    #[error("its signature algorithm is not accepted")]
    Algorithm,
    /// Its `typ` is that of a token for another purpose.
    #[error("it is a token for another purpose")]
    Type,
    /// No key of the issuer fits.
    #[error("its key is not one of the issuer's")]
    UnknownKey,
    /// The signature is invalid.
    #[error("its signature is wrong")]
    Signature,
    /// It has another issuer.
    #[error("it is from another issuer")]
    Issuer,
    /// It has another audience.
    #[error("it is for another audience")]
    Audience,
    /// It has another nonce.
    #[error("it belongs to another login")]
    Nonce,
    /// It has expired, or has no expiry.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    NotYetValid,
    /// It has no subject.
    #[error("it names no subject")]
    Subject,
    /// A required claim is missing or has another value.
    #[error("a claim that is required is missing or different")]
    Claim,
}

/// A parsed token that is not verified yet.
#[derive(Debug)]
pub struct Jwt<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    header: Header,
    claims: Claims,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that a recipient must understand.
    #[serde(default)]
    crit: Option<serde_json::Value>,
    /// The type of the token.
    #[serde(default)]
    typ: Option<String>,
}

/// Token types that share issuers and audiences with accepted tokens, but do not authenticate a user.
const OTHER_TYPES: &[&str] = &["logout+jwt", "secevent+jwt", "dpop+jwt"];

/// The claims of a token.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Claims {
    /// The issuer.
    #[serde(default)]
    pub iss: String,
    /// The subject.
    #[serde(default)]
    pub sub: String,
    /// The audiences.
    #[serde(default)]
    pub aud: AudienceClaim,
    /// When it expires.
    pub exp: Option<f64>,
    /// When it becomes valid.
    pub nbf: Option<f64>,
    /// When it was issued.
    pub iat: Option<f64>,
    /// The nonce of the login it belongs to.
    pub nonce: Option<String>,
    /// The user's e-mail address.
    pub email: Option<String>,
    /// Whether the issuer has verified the address. Some issuers write it as a string.
    #[serde(default)]
    pub email_verified: Option<serde_json::Value>,
    /// The user's name.
    pub name: Option<String>,
    /// The user's groups.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
}

/// The `aud` claim: one audience or several.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct AudienceClaim(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for AudienceClaim {
    fn from(value: OneOrMany) -> Self {
        match value {
            OneOrMany::One(one) => Self(vec![one]),
            OneOrMany::Many(many) => Self(many),
        }
    }
}

/// The claims that a token must have.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedClaims<'a> {
    /// The issuer.
    pub issuer: &'a str,
    /// The token must have one of these audiences.
    pub audiences: &'a [String],
    /// The nonce, if it must have one.
    pub nonce: Option<&'a str>,
    /// The current time.
    pub now: u64,
}

impl<'a> Jwt<'a> {
    /// Parses a token; `None` if it is not a JWT.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| from_base64url(part);
        Some(Self {
            signed,
            signature: from_base64url(signature)?,
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: serde_json::from_slice(&decode(claims)?).ok()?,
        })
    }

    /// The issuer, not verified.
    pub fn unverified_issuer(&self) -> &str {
        &self.claims.iss
    }

    /// The claims, not verified.
    pub const fn unverified_claims(&self) -> &Claims {
        &self.claims
    }

    /// Its type; empty if it names none.
    pub fn typ(&self) -> &str {
        self.header.typ.as_deref().unwrap_or_default()
    }

    /// Whether it is not signed at all.
    pub fn is_unsigned(&self) -> bool {
        self.header.alg.eq_ignore_ascii_case("none")
    }

    /// Verifies the signature with one of the keys, and then the claims.
    pub fn verify(
        self,
        keys: &[PublicKey],
        expected: &ExpectedClaims<'_>,
    ) -> Result<Claims, JwtError> {
        let algorithm = Algorithm::from_name(&self.header.alg).ok_or(JwtError::Algorithm)?;
        // A critical extension that we do not understand may change the meaning of the token.
        if self.header.crit.is_some() {
            return Err(JwtError::Algorithm);
        }
        let typ = self.header.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        if OTHER_TYPES.contains(&typ) {
            return Err(JwtError::Type);
        }
        let mut candidates = keys.iter().filter(|key| {
            let same_id =
                self.header.kid.is_none() || key.id.is_none() || key.id == self.header.kid;
            let only = key.algorithm.as_deref();
            let same_algorithm =
                only.is_none_or(|only| canonical(only) == canonical(&self.header.alg));
            same_id && same_algorithm && algorithm.accepts(key)
        });
        let first = candidates.next().ok_or(JwtError::UnknownKey)?;
        let signed = std::iter::once(first)
            .chain(candidates)
            .any(|key| algorithm.check(key, self.signed.as_bytes(), &self.signature));
        if !signed {
            return Err(JwtError::Signature);
        }
        self.claims.check(expected)?;
        Ok(self.claims)
    }
}

impl Claims {
    /// Checks everything but the signature.
    fn check(&self, expected: &ExpectedClaims<'_>) -> Result<(), JwtError> {
        let slashless = |text: &str| text.trim_end_matches('/').to_owned();
        if slashless(&self.iss) != slashless(expected.issuer) {
            return Err(JwtError::Issuer);
        }
        if !self.aud.0.iter().any(|audience| expected.audiences.contains(audience)) {
            return Err(JwtError::Audience);
        }
        if expected.nonce.is_some() && self.nonce.as_deref() != expected.nonce {
            return Err(JwtError::Nonce);
        }
        // Refuse tokens without expiry: they would stay valid forever.
        let expires = self.exp.and_then(seconds).ok_or(JwtError::Expired)?;
        if expected.now >= expires.saturating_add(LEEWAY) {
            return Err(JwtError::Expired);
        }
        let from = self.nbf.and_then(seconds).max(self.iat.and_then(seconds)).unwrap_or(0);
        if from > expected.now.saturating_add(LEEWAY) {
            return Err(JwtError::NotYetValid);
        }
        if self.sub.is_empty() {
            return Err(JwtError::Subject);
        }
        Ok(())
    }

    /// When it expires; 0 if it has no expiry.
    pub fn expires(&self) -> u64 {
        self.exp.and_then(seconds).unwrap_or(0)
    }
}

/// The canonical name of an algorithm: `Ed25519` is another name of `EdDSA`.
fn canonical(algorithm: &str) -> &str {
    if algorithm == "Ed25519" { "EdDSA" } else { algorithm }
}

/// Converts a date of a token: seconds, possibly with a fraction.
fn seconds(number: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the range"
    )]
    (number.is_finite() && (0.0..1e15).contains(&number)).then_some(number as u64)
}

/// A signature algorithm.
#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Rsa(&'static signature::RsaParameters),
    Curve(&'static str, &'static dyn signature::VerificationAlgorithm),
}

impl Algorithm {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Curve("P-256", &signature::ECDSA_P256_SHA256_FIXED),
            "ES384" => Self::Curve("P-384", &signature::ECDSA_P384_SHA384_FIXED),
            "EdDSA" | "Ed25519" => Self::Curve("Ed25519", &signature::ED25519),
            _ => return None,
        })
    }

    fn accepts(self, key: &PublicKey) -> bool {
        use crate::jwks::KeyMaterial;
        match (self, &key.material) {
            (Self::Rsa(_), KeyMaterial::Rsa { .. }) => true,
            (Self::Curve(wanted, _), KeyMaterial::Curve { name, .. }) => wanted == *name,
            (Self::Rsa(_), KeyMaterial::Curve { .. })
            | (Self::Curve(..), KeyMaterial::Rsa { .. }) => false,
        }
    }

    fn check(self, key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
        use crate::jwks::KeyMaterial;
        match (self, &key.material) {
            (Self::Rsa(parameters), KeyMaterial::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Self::Curve(_, algorithm), KeyMaterial::Curve { point, .. }) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            (Self::Rsa(_), KeyMaterial::Curve { .. })
            | (Self::Curve(..), KeyMaterial::Rsa { .. }) => false,
        }
    }
}
