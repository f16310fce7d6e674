//! The cost of a JSON path on a value, estimated before it is evaluated.
//!
//! Evaluation cannot be interrupted, and a path of thirty bytes may compare every item of a list with
//! every other. The estimate is an upper bound in visited values.

use regex::RegexBuilder;
use serde_json::Value;

/// The longest path, in bytes.
const MAX_PATH: usize = 1_000;
/// How deep brackets and parentheses may be nested.
const MAX_NESTING: usize = 12;
/// The budget of a path: about a second.
const MAX_COST: u64 = 10_000_000;
/// The cost of the patterns of `match` and `search` by the size of their compiled form: of compiling one, for every value
/// that it is applied to, and of each byte of text.
const PATTERN_COSTS: [PatternCost; 2] = [
    PatternCost { size: 16 * 1024, compile: 500, byte: 7 },
    PatternCost { size: 256 * 1024, compile: 20_000, byte: 100 },
];

/// The cost of a path without patterns.
const NO_PATTERN: PatternCost = PatternCost { size: 0, compile: 0, byte: 0 };

/// The cost of patterns up to a compiled size.
#[derive(Debug, Clone, Copy)]
struct PatternCost {
    size: usize,
    compile: u64,
    byte: u64,
}

/// The properties that make a path expensive.
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
    /// Whether a pattern is not written in the path, but taken from the value.
    has_foreign_pattern: bool,
}

/// The properties that make a value expensive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ValueSize {
    /// The number of values in it.
    values: u64,
    /// How deep they are nested.
    depth: u64,
    /// The bytes of all texts.
    text: u64,
}

/// Refuses a path that is too long or too deeply nested to be parsed.
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

/// The cost of a path, for every value that it is evaluated on.
#[derive(Debug)]
pub(super) struct PathCost {
    profile: PathProfile,
    /// The cost of its most expensive pattern.
    pattern: PatternCost,
}

impl PathCost {
    /// Estimates the cost of a path. Fails if the path is too expensive on any value.
    pub(super) fn of(path: &str) -> Result<Self, String> {
        let profile = PathProfile::of(path);
        let pattern = if profile.patterns > 0 { pattern_cost(path, &profile)? } else { NO_PATTERN };
        Ok(Self { profile, pattern })
    }

    /// Refuses to evaluate the path on a value if that would be too expensive.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        let Self { profile, pattern: PatternCost { compile, byte, .. } } = self;
        let ValueSize { values, depth, text } = size(value);
        let power = |base: u64, times: u32| base.saturating_pow(times);
        let times = power(depth, profile.descendants)
            .saturating_mul(profile.selectors)
            .saturating_mul(power(values, profile.searches));
        let matching = values.saturating_mul(*compile).saturating_add(text.saturating_mul(*byte));
        let cost = matching.saturating_mul(profile.patterns).saturating_add(values);
        if cost.saturating_mul(times) <= MAX_COST {
            return Ok(());
        }
        let why = match profile {
            PathProfile { searches: 1.., .. } => "a filter searches the whole value for every item",
            PathProfile { patterns: 1.., .. } => "a pattern is matched with much text",
            PathProfile { descendants: 2.., .. } => "it descends several times",
            _ => "it selects too much",
        };
        Err(format!(
            "this path is too expensive on {values} values: {why}; select a part first, such as \
             $.items[0:100], or use grep"
        ))
    }
}

/// The cost of the most expensive pattern of a path.
fn pattern_cost(path: &str, profile: &PathProfile) -> Result<PatternCost, String> {
    if profile.has_foreign_pattern {
        return Err("the pattern of match and search must be written in the path".to_owned());
    }
    let fits = |cost: &&PatternCost| {
        let compiles = |text: &String| {
            let built = RegexBuilder::new(text).size_limit(cost.size).build();
            !matches!(built, Err(regex::Error::CompiledTooBig(_)))
        };
        quoted(path).iter().all(compiles)
    };
    let cost = PATTERN_COSTS.iter().find(fits).copied();
    cost.ok_or_else(|| "the pattern of match or search is too large".to_owned())
}

impl PathProfile {
    fn of(path: &str) -> Self {
        let plain: Vec<char> = unquoted(path).collect();
        let text: String = plain.iter().collect();
        let mut profile = Self { selectors: 1, ..Self::default() };
        profile.descendants = u32::try_from(text.matches("..").count()).unwrap_or(u32::MAX);
        profile.patterns =
            (text.matches("match(").count() + text.matches("search(").count()) as u64;
        // For every open bracket or parenthesis, the number of its parts.
        let mut open: Vec<(char, u64)> = Vec::new();
        for (at, c) in plain.iter().enumerate() {
            match c {
                '(' if is_matching(plain.get(..at).unwrap_or_default()) => open.push((MATCHING, 1)),
                '[' | '(' => open.push((*c, 1)),
                ',' => {
                    let is_literal = plain
                        .get(at + 1..)
                        .and_then(|rest| rest.iter().find(|c| !c.is_whitespace()))
                        .is_some_and(|c| matches!(c, '\'' | '"'));
                    if let Some((of, parts)) = open.last_mut() {
                        *parts += 1;
                        profile.has_foreign_pattern |= *of == MATCHING && !is_literal;
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

/// Stands for the parenthesis of `match` or `search`.
const MATCHING: char = '~';

/// Whether a parenthesis behind this text is that of `match` or `search`.
fn is_matching(before: &[char]) -> bool {
    before.ends_with(&['m', 'a', 't', 'c', 'h'])
        || before.ends_with(&['s', 'e', 'a', 'r', 'c', 'h'])
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

/// The quoted names and texts of a path, with single backslashes.
fn quoted(path: &str) -> Vec<String> {
    let (mut texts, mut open, mut escaped) = (Vec::new(), None, false);
    for c in path.chars() {
        match (&mut open, c) {
            (None, '\'' | '"') => open = Some((c, String::new())),
            (None, _) => (),
            (Some((_, text)), c) if std::mem::take(&mut escaped) => {
                if !matches!(c, '\\' | '\'' | '"') {
                    text.push('\\');
                }
                text.push(c);
            }
            (Some(_), '\\') => escaped = true,
            (Some((quote, _)), c) if *quote == c => texts.extend(open.take().map(|(_, text)| text)),
            (Some((_, text)), c) => text.push(c),
        }
    }
    texts
}

fn size(value: &Value) -> ValueSize {
    let inner = |sizes: &mut dyn Iterator<Item = ValueSize>| {
        let sum = sizes.fold(ValueSize::default(), |sum, size| ValueSize {
            values: sum.values + size.values,
            depth: sum.depth.max(size.depth),
            text: sum.text + size.text,
        });
        ValueSize { values: sum.values + 1, depth: sum.depth + 1, ..sum }
    };
    match value {
        Value::Array(items) => inner(&mut items.iter().map(size)),
        Value::Object(members) => inner(&mut members.values().map(size)),
        Value::String(text) => ValueSize { values: 1, depth: 1, text: text.len() as u64 },
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            ValueSize { values: 1, depth: 1, text: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{PathCost, PathProfile, check_length, quoted};

    fn check_cost(path: &str, value: &Value) -> Result<(), String> {
        PathCost::of(path)?.check(value)
    }

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
        let pattern = |path: &str| check_cost(path, &items(10)).unwrap_err();
        assert!(pattern(r"$.items[?match(@.name, '\\w{900}\\w{900}')]").contains("too large"));
        for path in ["$.items[?match(@.name, @.id)]", "$.items[?search( @.name ,$.items[0].name)]"]
        {
            assert!(pattern(path).contains("written in the path"), "{path}");
        }
        let long = json!([{"name": "x".repeat(5_000_000)}]);
        assert!(check_cost("$[?search(@.name, '(a|b)*a(a|b){50}')]", &long).is_err());
        assert!(check_length(&format!("${}", "[?(@".repeat(7))).is_err());
        assert!(check_length(&format!("$.{}", "a".repeat(1000))).is_err());
    }

    #[test]
    fn quoted_text_is_no_part_of_the_profile() {
        let path = r#"$['a..b', "c\"$..d,e"][?@.x == 'match($..y)']"#;
        assert_eq!(quoted(path), ["a..b", r#"c"$..d,e"#, "match($..y)"]);
        assert_eq!(quoted(r"$[?match(@.a, '\\d\.\'')]"), [r"\d\.'"]);
        let profile = PathProfile::of(path);
        assert_eq!(profile, PathProfile { selectors: 2, ..PathProfile::default() });
    }
}
