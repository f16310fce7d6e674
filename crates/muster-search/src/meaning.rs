//! The port to a model that embeds texts.

use std::fmt;

/// The number of characters of a description that are embedded; more hardly change the vector.
const LONGEST: usize = 360;

/// Embeds texts.
pub trait Embed: fmt::Debug + Send + Sync {
    /// A vector of length 1 for each text: the more similar two texts are, the closer their product is to 1.
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>>;
}

/// The cosine similarity of two vectors of length 1.
pub fn nearness(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The text that is embedded for a tool: its name, server and description.
pub fn described(server: &str, tool: &str, description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("{}. {}. {words}", split(tool), split(server));
    text.chars().take(LONGEST).collect()
}

/// The words of a name, separated by spaces.
fn split(name: &str) -> String {
    let mut words = String::new();
    let mut before_is_small = false;
    for sign in name.chars() {
        if before_is_small && sign.is_uppercase() {
            words.push(' ');
        }
        before_is_small = sign.is_lowercase() || sign.is_ascii_digit();
        words.push(if sign.is_alphanumeric() { sign } else { ' ' });
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(split("create_pullRequest-v2"), "create pull Request v2");
    }
}
