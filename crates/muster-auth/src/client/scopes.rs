//! Sets of OAuth scopes, written with spaces between them.

/// The union of two sets, in order of first occurrence.
pub(super) fn union(left: &str, right: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for scope in left.split_whitespace().chain(right.split_whitespace()) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

/// Whether `granted` contains all scopes of `wanted`.
pub(super) fn covers(granted: &str, wanted: &str) -> bool {
    let granted: Vec<&str> = granted.split_whitespace().collect();
    wanted.split_whitespace().all(|scope| granted.contains(&scope))
}

#[cfg(test)]
mod tests {
    use super::{covers, union};

    #[test]
    fn scopes() {
        assert_eq!(union("a b", " b  c a"), "a b c");
        assert_eq!(union("", ""), "");
        assert!(covers("a b", "b"));
        assert!(covers("", ""));
        assert!(!covers("ab", "a"));
    }
}
