//! The port to sentence embeddings.

use std::fmt;

/// The longest text that is embedded; more hardly changes the vector.
const MAX_CHARS: usize = 360;

/// Computes sentence embeddings.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// The unit vector of a text. Similar texts have a dot product near 1.
    fn embed(&self, text: &str) -> Vec<f32>;
}

/// The cosine similarity of two unit vectors, from -1 to 1.
pub fn cosine_similarity(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The text that is embedded for a tool: the words of its name, its server and its description.
pub fn embedding_text(server: &str, tool: &str, description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("{}. {}. {words}", split_name(tool), split_name(server));
    text.chars().take(MAX_CHARS).collect()
}

/// Splits an identifier into words.
fn split_name(name: &str) -> String {
    let mut words = String::new();
    let mut after_small = false;
    for c in name.chars() {
        if after_small && c.is_uppercase() {
            words.push(' ');
        }
        after_small = c.is_lowercase() || c.is_ascii_digit();
        words.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn identifiers_are_split() {
        assert_eq!(split_name("create_pullRequest-v2"), "create pull Request v2");
    }
}
