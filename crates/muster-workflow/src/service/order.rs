//! The start order of services.

use std::collections::{BTreeMap, BTreeSet};

/// Groups of names: each depends only on earlier groups, so that a group can be started concurrently.
/// Names outside of `needs` are ignored. Cycles come last, together.
pub fn start_order(needs: &BTreeMap<String, Vec<String>>) -> Vec<Vec<String>> {
    let mut left: BTreeSet<&str> = needs.keys().map(String::as_str).collect();
    let mut groups = Vec::new();
    while !left.is_empty() {
        let waits = |name: &str| {
            let needs = needs.get(name).map(Vec::as_slice).unwrap_or_default();
            needs.iter().any(|need| left.contains(need.as_str()))
        };
        let mut group: Vec<&str> = left.iter().copied().filter(|name| !waits(name)).collect();
        if group.is_empty() {
            group = left.iter().copied().collect();
        }
        for name in &group {
            left.remove(name);
        }
        groups.push(group.into_iter().map(str::to_owned).collect());
    }
    groups
}

/// The cycle through `name`, if there is one; its first and last names are the same.
pub fn dependency_cycle(name: &str, needs: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![name.to_owned()]];
    while let Some(way) = ways.pop() {
        let last = way.last()?;
        for need in needs.get(last).map(Vec::as_slice).unwrap_or_default() {
            let mut longer = way.clone();
            longer.push(need.clone());
            if need == name {
                return Some(longer);
            }
            if seen.insert(need) {
                ways.push(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{dependency_cycle, start_order};

    fn needs(text: &str) -> BTreeMap<String, Vec<String>> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines = text.split(';').filter_map(|line| line.split_once(':'));
        lines.map(|(name, needs)| (name.trim().to_owned(), words(needs))).collect()
    }

    #[test]
    fn dependencies_come_first() {
        let check = |text: &str, expect: &str| {
            let groups = start_order(&needs(text));
            let shown: Vec<String> = groups.iter().map(|group| group.join(" ")).collect();
            assert_eq!(shown.join(" | "), expect, "{text}");
        };
        check("", "");
        check("a:; b:", "a b");
        check("web: api; api: db cache; db:; cache: outside", "cache db | api | web");
        check("a: b; b: a; c: a; d:", "d | a b c");
        check("a: a", "a");
    }

    #[test]
    fn circles_are_found() {
        let check = |text: &str, expect: &str| {
            let found = dependency_cycle("a", &needs(text)).unwrap_or_default();
            assert_eq!(found.join(" "), expect, "{text}");
        };
        check("a: b; b: c; c:", "");
        check("a: b; b: c; c: a", "a b c a");
        check("a: a", "a a");
        check("a: b; b: c; c: b", "");
    }
}
