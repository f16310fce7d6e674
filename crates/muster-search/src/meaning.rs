//! The port to a model that embeds texts.

use std::fmt;

use super::{clauses::clauses, products::without_names, search::Place, words::repeats_name};

/// The number of characters of a description that are embedded; more hardly change the vector.
const LONGEST: usize = 360;

/// Embeds texts.
pub trait Embed: fmt::Debug + Send + Sync {
    /// A vector of length 1 for each text: the more similar two texts are, the closer their product is to 1.
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>>;
}

/// The vectors of a query.
#[derive(Debug, Clone)]
pub struct QueryMeaning {
    /// The vector of the whole query.
    pub whole: Vec<f32>,
    /// Its clauses with their vectors; none if it asks for one thing.
    pub clauses: Vec<(String, Vec<f32>)>,
    /// The vector of the query without the names of products, if it has any.
    pub without_products: Option<Vec<f32>>,
}

impl QueryMeaning {
    /// Embeds a query, its clauses, and the query without names; `None` if the model gives no vector.
    pub fn of(model: &dyn Embed, text: &str) -> Option<Self> {
        let clauses = clauses(text);
        let rest = without_names(text);
        let texts = std::iter::once(text).chain(clauses.iter().copied()).chain(rest.as_deref());
        let mut vectors = model.embed(&texts.collect::<Vec<_>>()).into_iter();
        let whole = vectors.next()?;
        let clauses: Vec<_> =
            clauses.into_iter().map(str::to_owned).zip(vectors.by_ref()).collect();
        Some(Self { whole, clauses, without_products: vectors.next() })
    }
}

/// The vectors of a search: of its query, and of documents.
#[derive(Clone, Copy)]
pub struct Meaning<'a> {
    /// What the query means.
    pub query: &'a QueryMeaning,
    /// The vector of a document; `None` if it is not embedded.
    pub vector: &'a dyn Fn(Place<'_>) -> Option<&'a [f32]>,
}

impl fmt::Debug for Meaning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meaning").field("query", self.query).finish_non_exhaustive()
    }
}

/// The number of partial sums: the compiler does not reorder sums of floating-point numbers, so that one sum would not be
/// computed by vector instructions.
const LANES: usize = 16;

/// The cosine similarity of two vectors of length 1.
pub(crate) fn nearness(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    rest + lanes.iter().sum::<f32>()
}

/// The text that is embedded for a tool: its name, server and description, unless that only repeats the name.
pub fn described(server: &str, tool: &str, description: &str) -> String {
    let description = if repeats_name(description, tool) { "" } else { description };
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
    use super::{described, nearness, split};

    #[test]
    fn a_description_that_repeats_the_name_is_not_embedded() {
        let bare = described("shop", "list_orders", "");
        for description in ["list_orders", "List orders.", " list-Orders "] {
            assert_eq!(described("shop", "list_orders", description), bare);
        }
        assert!(described("shop", "list_orders", "List all orders").ends_with("List all orders"));
    }

    #[test]
    fn vectors_of_any_length_are_compared() {
        for length in [1, 15, 16, 17, 384] {
            let vector: Vec<f32> = (0..length).map(|at| (at % 5) as f32).collect();
            let expect: f32 = vector.iter().map(|one| 2.0 * one * one).sum();
            let twice: Vec<f32> = vector.iter().map(|one| 2.0 * one).collect();
            assert_eq!(nearness(&vector, &twice).to_bits(), expect.to_bits(), "{length}");
        }
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(split("create_pullRequest-v2"), "create pull Request v2");
    }
}
