//! What texts mean, as vectors: the port to whoever can tell.

use std::fmt;

/// What comes after so many letters of a description hardly changes what it means.
const LONGEST: usize = 360;

/// Tells what a text means.
pub trait Embed: fmt::Debug + Send + Sync {
    /// A vector of length 1: the nearer two texts are in meaning, the nearer their product is to 1.
    fn embed(&self, text: &str) -> Vec<f32>;
}

/// How near two vectors of length 1 are, from -1 to 1.
pub fn nearness(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What is embedded of a tool: the words of its name, who offers it, and what it does.
pub fn described(server: &str, tool: &str, description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("{}. {}. {words}", split(tool), split(server));
    text.chars().take(LONGEST).collect()
}

/// The words of a name, with blanks between them.
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
