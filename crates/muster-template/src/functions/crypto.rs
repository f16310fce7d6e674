//! Checksums, password hashes, and AES as sprig does it.

use aes::{
    Aes256,
    cipher::{
        BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _,
        block_padding::{NoPadding, Pkcs7},
    },
};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::{Args, Function, ParamType, encoding::BASE64, plain};
use crate::state::{EvalError, EvalResult, RenderState};

const TEXT: &[ParamType] = &[ParamType::Text];
const TWO: &[ParamType] = &[ParamType::Text; 2];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("sha1sum", TEXT, |state, args| state.text(hex(&Sha1::digest(args.bytes(0))))),
    plain("sha256sum", TEXT, |state, args| state.text(hex(&Sha256::digest(args.bytes(0))))),
    plain("sha512sum", TEXT, |state, args| state.text(hex(&Sha512::digest(args.bytes(0))))),
    plain("adler32sum", TEXT, |state, args| state.text(adler32(args.bytes(0)).to_string())),
    plain("encryptAES", TWO, encrypt),
    plain("decryptAES", TWO, decrypt),
    plain("bcrypt", TEXT, |state, args| state.text(bcrypt_of(state, args.bytes(0))?)),
    plain("htpasswd", TWO, |state, args| {
        let name = args.str(0);
        if name.contains(':') {
            return state.text(format!("invalid username: {name}"));
        }
        state.text(format!("{name}:{}", bcrypt_of(state, args.bytes(1))?))
    }),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % MODULUS;
        b = (b + a) % MODULUS;
    }
    b << 16 | a
}

/// The password as a key: truncated or zero-padded to 32 bytes.
fn key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(password) {
        *to = *from;
    }
    key
}

fn encrypt(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let plain = args.bytes(1);
    if plain.is_empty() {
        return state.text("");
    }
    state.charge_bytes(plain.len())?;
    let iv: [u8; 16] = state.random()?;
    let cipher = cbc::Encryptor::<Aes256>::new(&key(args.bytes(0)).into(), &iv.into());
    let mut bytes = iv.to_vec();
    bytes.extend(cipher.encrypt_padded_vec::<Pkcs7>(plain));
    state.text(BASE64.encode(&bytes))
}

fn decrypt(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    if args.bytes(1).is_empty() {
        return state.text("");
    }
    let bytes = BASE64.decode(args.bytes(1))?;
    let not_blocks = || EvalError::new("crypto/cipher: input not full blocks");
    let (iv, bytes) = bytes.split_first_chunk::<16>().ok_or_else(not_blocks)?;
    let cipher = cbc::Decryptor::<Aes256>::new(&key(args.bytes(0)).into(), &(*iv).into());
    let mut plain = cipher.decrypt_padded_vec::<NoPadding>(bytes).map_err(|_| not_blocks())?;
    // The last byte is the length of the padding; sprig does not verify the rest.
    let added = plain.last().copied().map(usize::from);
    let kept = added.and_then(|added| plain.len().checked_sub(added));
    plain.truncate(kept.ok_or_else(|| EvalError::new("the decrypted text ends in bad padding"))?);
    state.text(plain)
}

fn bcrypt_of(state: &RenderState<'_>, password: &[u8]) -> EvalResult<String> {
    const COST: u32 = 10;
    const STEPS: usize = 100_000;
    const LONGEST: usize = 72;
    if password.len() > LONGEST {
        let problem = "bcrypt: password length exceeds 72 bytes";
        return Ok(format!("failed to encrypt string with bcrypt: {problem}"));
    }
    state.charge_steps(STEPS)?;
    let hash = bcrypt::hash_with_salt(password, COST, state.random()?);
    let hash = hash.map_err(|problem| EvalError::new(problem.to_string()))?;
    Ok(hash.format_for_version(bcrypt::Version::TwoA))
}
