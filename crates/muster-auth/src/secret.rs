//! A value that is never shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, a password, a key. It is stored and sent, but never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Keeps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for whom it is meant.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn nothing_of_it_is_printed() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(
            format!("{secret:?} {secret:#?} {:?}", Some(&secret)),
            "Secret Secret Some(Secret)"
        );
        assert_eq!(secret.reveal(), "canary");
    }
}
