//! Values that are never printed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token, password or key. It can be stored and sent, but its `Debug` output never shows it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself.
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
    fn debug_output_hides_the_value() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(
            format!("{secret:?} {secret:#?} {:?}", Some(&secret)),
            "Secret Secret Some(Secret)"
        );
        assert_eq!(secret.reveal(), "canary");
    }
}
