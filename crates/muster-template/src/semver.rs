//! Semantic versions as in Masterminds/semver: parsed leniently (`v1.2`), ordered by the specification.

use std::{cmp::Ordering, fmt, sync::LazyLock};

use regex::Regex;

pub(crate) mod constraint;

/// A version.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
    /// Whether Go has it as a struct rather than a pointer; only the type name differs.
    pub(crate) by_value: bool,
}

const VERSION: &str = r"v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";

/// Compiles a pattern of this module; a test compiles all of them.
fn pattern(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static WHOLE_VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(&format!("^{VERSION}$")));

impl Version {
    /// Parses `text`; errors have the messages of Masterminds/semver.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "Invalid Semantic Version".to_owned();
        let captures = WHOLE_VERSION.as_ref().and_then(|whole| whole.captures(text));
        let captures = captures.ok_or_else(invalid)?;
        let group = |i| captures.get(i).map_or("", |found| found.as_str());
        let segment = |i| match group(i).trim_start_matches('.') {
            "" => Ok(0),
            digits => digits.parse().map_err(|_| {
                format!(
                    "Error parsing version segment: strconv.ParseUint: parsing {digits:?}: \
                     value out of range"
                )
            }),
        };
        let (pre, metadata) = (group(5).to_owned(), group(8).to_owned());
        let zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit())
        };
        let (major, minor, patch) = (segment(1)?, segment(2)?, segment(3)?);
        if pre.split('.').any(zero) {
            return Err("Version segment starts with 0".to_owned());
        }
        let original = text.to_owned();
        Ok(Self { major, minor, patch, pre, metadata, original, by_value: false })
    }

    /// A version derived from this one, with its `v` prefix if it has one.
    pub(crate) fn derived(&self, numbers: (u64, u64, u64), pre: &str, metadata: &str) -> Self {
        let (major, minor, patch) = numbers;
        let (pre, metadata) = (pre.to_owned(), metadata.to_owned());
        let original = String::new();
        let mut next = Self { major, minor, patch, pre, metadata, original, by_value: true };
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        next.original = format!("{prefix}{next}");
        next
    }

    /// Compares by precedence; metadata is ignored.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (&*self.pre, &*other.pre) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (pre, other) => compare_pre(pre, other),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_pre(one: &str, other: &str) -> Ordering {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        let (one, other) = match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (one, other) => (one.unwrap_or_default(), other.unwrap_or_default()),
        };
        let order = match (one.parse::<u64>(), other.parse::<u64>()) {
            _ if one == other => Ordering::Equal,
            _ if one.is_empty() => Ordering::Less,
            _ if other.is_empty() => Ordering::Greater,
            (Ok(n), Ok(m)) if n > m => Ordering::Greater,
            (Ok(_), Ok(_)) => Ordering::Less,
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{WHOLE_VERSION, constraint};

    #[test]
    fn every_pattern_compiles() {
        assert!(WHOLE_VERSION.is_some());
        assert!(constraint::PATTERNS.is_some());
    }
}
