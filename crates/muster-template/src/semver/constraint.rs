//! Constraints on versions: `>= 1.2, < 3 || ~4.1`.

use std::{cmp::Ordering, sync::LazyLock};

use regex::{Captures, Regex};

use super::{Version, compare_pre, pattern};

pub(super) struct Patterns {
    range: Regex,
    find: Regex,
    valid: Regex,
    single: Regex,
}

const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
const OPERAND: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
/// Go's `\s`.
const SPACE: &str = r"[\t\n\x0C\r ]";

pub(super) static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let one = format!("({OPERATORS}){SPACE}*({OPERAND})");
    let separator = format!("(?:{SPACE}+|,{SPACE}*)");
    Some(Patterns {
        range: pattern(&format!("{SPACE}*({OPERAND}){SPACE}+-{SPACE}+({OPERAND}){SPACE}*"))?,
        find: pattern(&one)?,
        valid: pattern(&format!("^({SPACE}*{one}{SPACE}*)({separator}{one}{SPACE}*)*$"))?,
        single: pattern(&format!("^{SPACE}*{one}{SPACE}*$"))?,
    })
});

/// Whether `version` satisfies `constraint`.
pub(crate) fn check(constraint: &str, version: &Version) -> Result<bool, String> {
    let Some(patterns) = PATTERNS.as_ref() else { return Ok(false) };
    let constraint = rewrite_ranges(patterns, constraint);
    let mut alternatives = Vec::new();
    for alternative in constraint.split("||") {
        if !patterns.valid.is_match(alternative) {
            return Err(format!("improper constraint: {alternative}"));
        }
        let found = patterns.find.find_iter(alternative);
        let parsed: Result<Vec<_>, _> =
            found.map(|found| Constraint::parse(patterns, found.as_str())).collect();
        alternatives.push(parsed?);
    }
    Ok(alternatives.iter().any(|all| all.iter().all(|constraint| constraint.admits(version))))
}

/// Rewrites `1.2 - 3.4` to `>= 1.2, <= 3.4`.
fn rewrite_ranges(patterns: &Patterns, constraint: &str) -> String {
    let mut rewritten = constraint.to_owned();
    for captures in patterns.range.captures_iter(constraint) {
        let (whole, low, high) = (group(&captures, 0), group(&captures, 1), group(&captures, 11));
        rewritten = rewritten.replacen(whole, &format!(">= {low}, <= {high} "), 1);
    }
    rewritten
}

fn group<'t>(captures: &Captures<'t>, i: usize) -> &'t str {
    captures.get(i).map_or("", |found| found.as_str())
}

struct Constraint {
    operator: String,
    than: Version,
    /// The first number that is a wildcard or missing.
    open: Wildcard,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    Nothing,
    All,
    Minor,
    Patch,
}

impl Constraint {
    fn parse(patterns: &Patterns, text: &str) -> Result<Self, String> {
        let captures = patterns.single.captures(text);
        let captures = captures.ok_or_else(|| format!("improper constraint: {text}"))?;
        let (major, minor) = (group(&captures, 3), group(&captures, 4));
        let (patch, pre) = (group(&captures, 5), group(&captures, 6));
        let is_open = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
        let (open, version) = if is_open(major) {
            (Wildcard::All, format!("0.0.0{pre}"))
        } else if is_open(minor) {
            (Wildcard::Minor, format!("{major}.0.0{pre}"))
        } else if is_open(patch) {
            (Wildcard::Patch, format!("{major}{minor}.0{pre}"))
        } else {
            (Wildcard::Nothing, group(&captures, 2).to_owned())
        };
        let than = Version::parse(&version).map_err(|_| "constraint Parser Error".to_owned())?;
        Ok(Self { operator: group(&captures, 1).to_owned(), than, open })
    }

    fn admits(&self, version: &Version) -> bool {
        let unwanted = !version.pre.is_empty() && self.than.pre.is_empty();
        let order = version.compare(&self.than);
        if self.operator == "!=" {
            return self.differs(version, unwanted);
        }
        if unwanted {
            return false;
        }
        match &*self.operator {
            ">" => self.precedes(version),
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" => self.not_exceeded_by(version),
            "~" | "~>" => self.tilde(version),
            "^" => self.caret(version),
            _ if self.open == Wildcard::Nothing => order == Ordering::Equal,
            _ => self.tilde(version),
        }
    }

    fn differs(&self, version: &Version, unwanted: bool) -> bool {
        let Self { than, open, .. } = self;
        if *open != Wildcard::Nothing {
            if unwanted {
                return false;
            }
            if than.major != version.major {
                return true;
            }
            if than.minor != version.minor && *open != Wildcard::Minor {
                return true;
            }
            if *open == Wildcard::Minor {
                return false;
            }
            if than.patch != version.patch && *open != Wildcard::Patch {
                return true;
            }
            if *open == Wildcard::Patch {
                let any_pre = !version.pre.is_empty() || !than.pre.is_empty();
                return any_pre && compare_pre(&version.pre, &than.pre) != Ordering::Equal;
            }
        }
        version.compare(than) != Ordering::Equal
    }

    fn precedes(&self, version: &Version) -> bool {
        let Self { than, open, .. } = self;
        match (*open, version.major.cmp(&than.major)) {
            (Wildcard::Nothing, _) => version.compare(than) == Ordering::Greater,
            (_, Ordering::Greater) => true,
            (_, Ordering::Less) | (Wildcard::Minor, _) => false,
            (Wildcard::Patch, _) => version.minor > than.minor,
            (Wildcard::All, _) => version.compare(than) == Ordering::Greater,
        }
    }

    fn not_exceeded_by(&self, version: &Version) -> bool {
        let Self { than, open, .. } = self;
        if *open == Wildcard::Nothing {
            return version.compare(than) != Ordering::Greater;
        }
        let minor_exceeds =
            version.major == than.major && version.minor > than.minor && *open != Wildcard::Minor;
        version.major <= than.major && !minor_exceeds
    }

    fn tilde(&self, version: &Version) -> bool {
        let Self { than, open, .. } = self;
        if version.compare(than) == Ordering::Less {
            return false;
        }
        let zero = (than.major, than.minor, than.patch) == (0, 0, 0);
        if zero && matches!(open, Wildcard::Nothing | Wildcard::All) {
            return true;
        }
        version.major == than.major && (version.minor == than.minor || *open == Wildcard::Minor)
    }

    fn caret(&self, version: &Version) -> bool {
        let Self { than, open, .. } = self;
        if version.compare(than) == Ordering::Less {
            return false;
        }
        if than.major > 0 || *open == Wildcard::Minor {
            return version.major == than.major;
        }
        if version.major > 0 {
            return false;
        }
        if than.minor > 0 || *open == Wildcard::Patch {
            return version.minor == than.minor;
        }
        version.minor == 0 && version.patch == than.patch
    }
}
