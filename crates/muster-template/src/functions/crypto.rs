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

use super::{Args, Function, Type, encoding::BASE64, plain};
use crate::run::{Answer, Fail, Run};

const TEXT: &[Type] = &[Type::Text];
const TWO: &[Type] = &[Type::Text; 2];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("sha1sum", TEXT, |run, args| run.text(hex(&Sha1::digest(args.bytes(0))))),
    plain("sha256sum", TEXT, |run, args| run.text(hex(&Sha256::digest(args.bytes(0))))),
    plain("sha512sum", TEXT, |run, args| run.text(hex(&Sha512::digest(args.bytes(0))))),
    plain("adler32sum", TEXT, |run, args| run.text(adler32(args.bytes(0)).to_string())),
    plain("encryptAES", TWO, encrypt),
    plain("decryptAES", TWO, decrypt),
    plain("bcrypt", TEXT, |run, args| run.text(bcrypt_of(run, args.bytes(0))?)),
    plain("htpasswd", TWO, |run, args| {
        let name = args.str(0);
        if name.contains(':') {
            return run.text(format!("invalid username: {name}"));
        }
        run.text(format!("{name}:{}", bcrypt_of(run, args.bytes(1))?))
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

/// The password itself, cut or filled up to 32 bytes.
fn key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(password) {
        *to = *from;
    }
    key
}

fn encrypt(run: &Run<'_>, args: Args<'_>) -> Answer {
    let plain = args.bytes(1);
    if plain.is_empty() {
        return run.text("");
    }
    run.room(plain.len())?;
    let iv: [u8; 16] = run.random()?;
    let cipher = cbc::Encryptor::<Aes256>::new(&key(args.bytes(0)).into(), &iv.into());
    let mut bytes = iv.to_vec();
    bytes.extend(cipher.encrypt_padded_vec::<Pkcs7>(plain));
    run.text(BASE64.encode(&bytes))
}

fn decrypt(run: &Run<'_>, args: Args<'_>) -> Answer {
    if args.bytes(1).is_empty() {
        return run.text("");
    }
    let bytes = BASE64.decode(args.bytes(1))?;
    let not_blocks = || Fail::new("crypto/cipher: input not full blocks");
    let (iv, bytes) = bytes.split_first_chunk::<16>().ok_or_else(not_blocks)?;
    let cipher = cbc::Decryptor::<Aes256>::new(&key(args.bytes(0)).into(), &(*iv).into());
    let mut plain = cipher.decrypt_padded_vec::<NoPadding>(bytes).map_err(|_| not_blocks())?;
    // The last byte says how many were added; the original believes it.
    let added = plain.last().copied().map(usize::from);
    let kept = added.and_then(|added| plain.len().checked_sub(added));
    plain.truncate(kept.ok_or_else(|| Fail::new("the decrypted text ends in bad padding"))?);
    run.text(plain)
}

fn bcrypt_of(run: &Run<'_>, password: &[u8]) -> Answer<String> {
    const COST: u32 = 10;
    const STEPS: usize = 100_000;
    const LONGEST: usize = 72;
    if password.len() > LONGEST {
        let problem = "bcrypt: password length exceeds 72 bytes";
        return Ok(format!("failed to encrypt string with bcrypt: {problem}"));
    }
    run.work(STEPS)?;
    let hash = bcrypt::hash_with_salt(password, COST, run.random()?);
    let hash = hash.map_err(|problem| Fail::new(problem.to_string()))?;
    Ok(hash.format_for_version(bcrypt::Version::TwoA))
}
