//! Signed tokens: read, and held against the keys of whoever should have signed them.
//!
//! Only signatures with public keys are taken. `none` and shared secrets are no proof of anything here.

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use thiserror::Error;

use crate::{jwks::Key, random::from_base64url};

/// How far the clocks of two machines may be apart.
pub const LEEWAY: u64 = 60;

/// Larger ones are not read.
const MAX_LENGTH: usize = 16 * 1024;

/// Why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwtError {
    /// It is no signed token.
    #[error("it is not a signed token")]
    Malformed,
    /// The way it is signed is not taken.
    #[error("it is signed in a way that is not taken")]
    Algorithm,
    /// It is for something else.
    #[error("it is of a kind that lets nobody in")]
    Kind,
    /// Nobody has the key it names.
    #[error("its key is not one of the issuer's")]
    UnknownKey,
    /// The signature does not fit.
    #[error("its signature is wrong")]
    Signature,
    /// Someone else issued it.
    #[error("another issuer made it")]
    Issuer,
    /// It is for somebody else.
    #[error("it is meant for another audience")]
    Audience,
    /// It belongs to another login.
    #[error("it belongs to another login")]
    Nonce,
    /// It is too old.
    #[error("it has expired")]
    Expired,
    /// It is from the future.
    #[error("it is not valid yet")]
    Early,
    /// It does not say whom it is about.
    #[error("it names no subject")]
    Subject,
}

/// A token that was taken apart but not yet believed.
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
    /// What must be understood by whoever takes it, beyond what everybody understands.
    #[serde(default)]
    crit: Option<serde_json::Value>,
    /// What kind of token it is.
    #[serde(default)]
    typ: Option<String>,
}

/// Kinds of tokens that are signed by the same issuers for the same audiences, and let nobody in.
const OTHER_KINDS: &[&str] = &["logout+jwt", "secevent+jwt", "dpop+jwt"];

/// What a token says.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Claims {
    /// Who issued it.
    #[serde(default)]
    pub iss: String,
    /// Whom it is about.
    #[serde(default)]
    pub sub: String,
    /// For whom it is.
    #[serde(default)]
    pub aud: Audience,
    /// Until when it is good.
    pub exp: Option<f64>,
    /// From when on it is good.
    pub nbf: Option<f64>,
    /// When it was made.
    pub iat: Option<f64>,
    /// The login it was made for.
    pub nonce: Option<String>,
    /// Their address.
    pub email: Option<String>,
    /// Their name.
    pub name: Option<String>,
    /// What they are a member of.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
}

/// One or several.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Audience(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Audience {
    fn from(value: OneOrMany) -> Self {
        match value {
            OneOrMany::One(one) => Self(vec![one]),
            OneOrMany::Many(many) => Self(many),
        }
    }
}

/// What a token must say to be believed.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Who must have issued it.
    pub issuer: &'a str,
    /// One of whom it must be for.
    pub audiences: &'a [String],
    /// The login it must belong to, if to any.
    pub nonce: Option<&'a str>,
    /// The time.
    pub now: u64,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart; none if it is not of this kind.
    pub fn read(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let json = |part: &str| from_base64url(part);
        Some(Self {
            signed,
            signature: from_base64url(signature)?,
            header: serde_json::from_slice(&json(header)?).ok()?,
            claims: serde_json::from_slice(&json(claims)?).ok()?,
        })
    }

    /// What it says about who issued it. Not believed yet.
    pub fn claimed_issuer(&self) -> &str {
        &self.claims.iss
    }

    /// What it says. Not believed yet.
    pub const fn claimed(&self) -> &Claims {
        &self.claims
    }

    /// Whether it is not signed at all.
    pub fn is_unsigned(&self) -> bool {
        self.header.alg.eq_ignore_ascii_case("none")
    }

    /// Believes it, if one of the keys signed it and it says what it should.
    pub fn verify(self, keys: &[Key], expected: &Expected<'_>) -> Result<Claims, JwtError> {
        let algorithm = Algorithm::named(&self.header.alg).ok_or(JwtError::Algorithm)?;
        // A signature over something that is not understood proves nothing.
        if self.header.crit.is_some() {
            return Err(JwtError::Algorithm);
        }
        let kind = self.header.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
        let kind = kind.strip_prefix("application/").unwrap_or(&kind);
        if OTHER_KINDS.contains(&kind) {
            return Err(JwtError::Kind);
        }
        let mut fitting = keys.iter().filter(|key| {
            let named = self.header.kid.is_none() || key.id.is_none() || key.id == self.header.kid;
            let meant = key.algorithm.as_deref();
            let meant = meant.is_none_or(|meant| plain(meant) == plain(&self.header.alg));
            named && meant && algorithm.takes(key)
        });
        let first = fitting.next().ok_or(JwtError::UnknownKey)?;
        let signed = std::iter::once(first)
            .chain(fitting)
            .any(|key| algorithm.check(key, self.signed.as_bytes(), &self.signature));
        if !signed {
            return Err(JwtError::Signature);
        }
        self.claims.check(expected)?;
        Ok(self.claims)
    }
}

impl Claims {
    /// Whether they say what they should.
    fn check(&self, expected: &Expected<'_>) -> Result<(), JwtError> {
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
        // What never ends cannot be taken back.
        let end = self.exp.and_then(seconds).ok_or(JwtError::Expired)?;
        if expected.now >= end.saturating_add(LEEWAY) {
            return Err(JwtError::Expired);
        }
        let from = self.nbf.and_then(seconds).max(self.iat.and_then(seconds)).unwrap_or(0);
        if from > expected.now.saturating_add(LEEWAY) {
            return Err(JwtError::Early);
        }
        if self.sub.is_empty() {
            return Err(JwtError::Subject);
        }
        Ok(())
    }

    /// Until when it is good; long ago if it does not say.
    pub fn end(&self) -> u64 {
        self.exp.and_then(seconds).unwrap_or(0)
    }
}

/// One way to sign has two names.
fn plain(algorithm: &str) -> &str {
    if algorithm == "Ed25519" { "EdDSA" } else { algorithm }
}

/// A date as tokens have it: seconds, perhaps with a fraction.
fn seconds(number: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the range"
    )]
    (number.is_finite() && (0.0..1e15).contains(&number)).then_some(number as u64)
}

/// A way to sign.
#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Rsa(&'static signature::RsaParameters),
    Curve(&'static str, &'static dyn signature::VerificationAlgorithm),
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
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

    fn takes(self, key: &Key) -> bool {
        use crate::jwks::Material;
        match (self, &key.material) {
            (Self::Rsa(_), Material::Rsa { .. }) => true,
            (Self::Curve(wanted, _), Material::Curve { name, .. }) => wanted == *name,
            (Self::Rsa(_), Material::Curve { .. }) | (Self::Curve(..), Material::Rsa { .. }) => {
                false
            }
        }
    }

    fn check(self, key: &Key, message: &[u8], signature: &[u8]) -> bool {
        use crate::jwks::Material;
        match (self, &key.material) {
            (Self::Rsa(parameters), Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Self::Curve(_, algorithm), Material::Curve { point, .. }) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            (Self::Rsa(_), Material::Curve { .. }) | (Self::Curve(..), Material::Rsa { .. }) => {
                false
            }
        }
    }
}
