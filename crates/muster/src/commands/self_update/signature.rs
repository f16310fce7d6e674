//! The signature of a release, in the format of minisign.

use minisign_verify::{PublicKey, Signature};

/// The public key of releases, which is set at build time: the second line of a `minisign.pub`.
const KEY: Option<&str> = option_env!("MUSTER_UPDATE_PUBLIC_KEY");

/// The key that releases are signed with.
pub(super) struct ReleaseKey(PublicKey);

impl ReleaseKey {
    /// The key of this build.
    pub(super) fn built_in() -> Result<Self, String> {
        match KEY.map(str::trim).filter(|key| !key.is_empty()) {
            Some(key) => Self::parse(key),
            None => Err("this build has no key to verify releases with".to_owned()),
        }
    }

    fn parse(key: &str) -> Result<Self, String> {
        let key = PublicKey::from_base64(key);
        key.map(Self).map_err(|_| "the release key of this build cannot be used".to_owned())
    }

    /// Verifies that `signature` is a signature by this key of the file `name` with this content. The signed comment
    /// must have the name, so that an old release cannot be passed off as a new one.
    pub(super) fn verify(&self, name: &str, content: &[u8], signature: &str) -> Result<(), String> {
        let signature = Signature::decode(signature)
            .map_err(|_| format!("the signature of `{name}` cannot be read"))?;
        self.0
            .verify(content, &signature, false)
            .map_err(|_| format!("`{name}` is not signed with the release key of this build"))?;
        let file = format!("file:{name}");
        if !signature.trusted_comment().split_whitespace().any(|word| word == file) {
            return Err(format!("the signature of `{name}` was made for another file"));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use minisign::KeyPair;

    use super::ReleaseKey;

    /// Generates a key pair, and its public half in the form that builds have.
    pub(in super::super) fn pair() -> (KeyPair, ReleaseKey) {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let key = ReleaseKey::parse(&pair.pk.to_base64()).unwrap();
        (pair, key)
    }

    /// The signature that `minisign -S` makes of a file.
    pub(in super::super) fn sign(pair: &KeyPair, name: &str, content: &[u8]) -> String {
        let comment = format!("timestamp:1\tfile:{name}\thashed");
        let content = Cursor::new(content);
        minisign::sign(None, &pair.sk, content, Some(&comment), None).unwrap().to_string()
    }

    #[test]
    fn only_signatures_of_the_key_for_the_file_are_accepted() {
        let (signer, key) = pair();
        let (other, _) = pair();
        let good = sign(&signer, "muster_2", b"two");
        key.verify("muster_2", b"two", &good).unwrap();
        let commented = good.replace("file:muster_2", "file:muster_3");
        for (name, content, signature, expected) in [
            ("muster_2", b"TWO", good.as_str(), "is not signed with the release key"),
            ("muster_3", b"two", good.as_str(), "was made for another file"),
            ("muster_3", b"two", &commented, "is not signed with the release key"),
            ("muster_2", b"two", &sign(&other, "muster_2", b"two"), "is not signed with"),
            ("muster_2", b"two", "", "cannot be read"),
        ] {
            let refused = key.verify(name, content, signature).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        assert!(ReleaseKey::parse("RW").is_err());
    }
}
