//! The cost of a JSON path on a value, estimated before it is evaluated.
//!
//! Evaluation cannot be interrupted, and a path of thirty bytes may compare every item of a list with
//! every other. The estimate is an upper bound in visited values.

use serde_json::Value;

/// The longest path, in bytes.
const MAX_PATH: usize = 1_000;
/// How deep brackets and parentheses may be nested.
const MAX_NESTING: usize = 12;
/// The budget of a path: about a second.
const MAX_COST: u64 = 10_000_000;
/// The cost of compiling the pattern of `match` or `search`, for every value it is applied to.
const PATTERN_COST: u64 = 500;

/// What makes a path expensive.
#[derive(Debug, Default, PartialEq, Eq)]
struct PathProfile {
    /// Descendant segments (`..`).
    descendants: u32,
    /// The product of the numbers of selectors in brackets.
    selectors: u64,
    /// Queries inside filters that search the whole value again.
    searches: u32,
    /// Calls of `match` and `search`.
    patterns: u64,
}

/// Why a path is not even parsed, if it is too long or too deep.
pub(super) fn check_length(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH {
        return Err(format!(
            "path must have at most {MAX_PATH} bytes; this one has {}",
            path.len()
        ));
    }
    let mut depth = 0_usize;
    for c in unquoted(path) {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => (),
        }
        if depth > MAX_NESTING {
            return Err(format!("path must not be nested deeper than {MAX_NESTING}"));
        }
    }
    Ok(())
}

/// Why a path is not evaluated on a value, if that would be too expensive.
pub(super) fn check_cost(path: &str, value: &Value) -> Result<(), String> {
    let profile = PathProfile::of(path);
    let (values, depth) = size(value);
    let power = |base: u64, times: u32| base.saturating_pow(times);
    let cost = values
        .saturating_mul(power(depth, profile.descendants))
        .saturating_mul(profile.selectors)
        .saturating_mul(power(values, profile.searches))
        .saturating_mul(1 + profile.patterns * PATTERN_COST);
    if cost <= MAX_COST {
        return Ok(());
    }
    let why = match profile {
        PathProfile { searches: 1.., .. } => "a filter searches the whole value for every item",
        PathProfile { patterns: 1.., .. } => "a pattern is matched with many values",
        PathProfile { descendants: 2.., .. } => "it descends several times",
        _ => "it selects too much",
    };
    Err(format!(
        "this path is too expensive on {values} values: {why}; select a part first, such as \
         $.items[0:100], or use grep"
    ))
}

impl PathProfile {
    fn of(path: &str) -> Self {
        let plain: Vec<char> = unquoted(path).collect();
        let text: String = plain.iter().collect();
        let mut profile = Self { selectors: 1, ..Self::default() };
        profile.descendants = u32::try_from(text.matches("..").count()).unwrap_or(u32::MAX);
        profile.patterns =
            (text.matches("match(").count() + text.matches("search(").count()) as u64;
        // For every open bracket or parenthesis the number of its parts.
        let mut open: Vec<(char, u64)> = Vec::new();
        for (at, c) in plain.iter().enumerate() {
            match c {
                '[' | '(' => open.push((*c, 1)),
                ',' => {
                    if let Some((_, parts)) = open.last_mut() {
                        *parts += 1;
                    }
                }
                ']' | ')' => {
                    if let Some(('[', parts)) = open.pop() {
                        profile.selectors = profile.selectors.saturating_mul(parts);
                    }
                }
                '$' if !open.is_empty()
                    && !is_singular(plain.get(at + 1..).unwrap_or_default()) =>
                {
                    profile.searches += 1;
                }
                _ => (),
            }
        }
        profile
    }
}

/// Whether a query selects one value at most: names and indexes only.
fn is_singular(query: &[char]) -> bool {
    let mut depth = 0_usize;
    for (at, c) in query.iter().enumerate() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return true,
            ']' => depth -= 1,
            '*' | '?' | ':' | ',' if depth > 0 => return false,
            '*' => return false,
            '.' if query.get(at + 1) == Some(&'.') => return false,
            // Operators and the end of an argument end the query.
            '=' | '!' | '<' | '>' | '&' | '|' | ')' | ',' if depth == 0 => return true,
            _ => (),
        }
    }
    true
}

/// A path without the contents of its quoted names and texts.
fn unquoted(path: &str) -> impl Iterator<Item = char> {
    let mut quote = None;
    let mut escaped = false;
    path.chars().filter(move |c| match quote {
        Some(_) if escaped => {
            escaped = false;
            false
        }
        Some(end) => {
            escaped = *c == '\\';
            if *c == end {
                quote = None;
            }
            false
        }
        None => {
            if matches!(c, '\'' | '"') {
                quote = Some(*c);
            }
            true
        }
    })
}

/// The number of values in a value, and how deep they are nested.
fn size(value: &Value) -> (u64, u64) {
    let inner = |sizes: &mut dyn Iterator<Item = (u64, u64)>| {
        let (values, depth) = sizes
            .fold((0, 0), |(values, deepest), (more, depth)| (values + more, depth.max(deepest)));
        (values + 1, depth + 1)
    };
    match value {
        Value::Array(items) => inner(&mut items.iter().map(size)),
        Value::Object(members) => inner(&mut members.values().map(size)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{PathProfile, check_cost, check_length};

    fn items(count: usize) -> Value {
        let items: Vec<Value> = (0..count).map(|id| json!({"id": id, "name": "x"})).collect();
        json!({"items": items})
    }

    #[test]
    fn ordinary_paths_are_cheap() {
        let value = items(100_000);
        for path in [
            "$.items[*].name",
            "$.items[?@.id == 5].name",
            "$..name",
            "$.items[?@.name == $.items[0].name && @.id > $['items'][1].id]",
            "$.items[?@.name == '..*, $[?$..x]']",
            "$.items[0,1,2,3,4,5]['id','name']",
            "$.matches[?@.search_term == 5]",
        ] {
            assert_eq!(check_cost(path, &value), Ok(()), "{path}");
        }
        assert_eq!(check_cost("$.items[?$.items[?@.id==-1]]", &items(500)), Ok(()));
        assert_eq!(check_cost("$.items[?match(@.name, 'a.*')]", &items(1_000)), Ok(()));
    }

    #[test]
    fn paths_that_multiply_are_refused() {
        let value = items(20_000);
        for path in [
            "$.items[?$.items[?@.id==-1]]",
            "$.items[?count($..*) > 3]",
            "$.items[?@.id == value($..id)]",
            "$.items[?match(@.name, 'a{1000}')]",
            "$..*..*..*..*..*",
            "$.items[*,*,*,*,*,*][*,*,*,*,*,*][*,*,*,*,*,*][*,*,*,*,*,*][*,*,*,*,*,*]",
        ] {
            assert!(check_cost(path, &value).is_err(), "{path}");
        }
        assert!(check_length(&format!("${}", "[?(@".repeat(7))).is_err());
        assert!(check_length(&format!("$.{}", "a".repeat(1000))).is_err());
    }

    #[test]
    fn quoted_text_is_no_part_of_the_profile() {
        let profile = PathProfile::of(r#"$['a..b', "c\"$..d,e"][?@.x == 'match($..y)']"#);
        assert_eq!(profile, PathProfile { selectors: 2, ..PathProfile::default() });
    }
}
