//! Nearest names, for those who almost remembered one.

/// At most three of `names` that `wanted` may have meant, nearest first.
pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const AT_MOST: usize = 3;
    const NEAR_ENOUGH: f64 = 0.75;
    let wanted = normal(wanted);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (nearness(&wanted, &normal(name)), name))
        .filter(|(nearness, _)| *nearness >= NEAR_ENOUGH)
        .collect();
    near.sort_by(|(a, a_name), (b, b_name)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    near.dedup_by(|(_, a), (_, b)| a == b);
    near.into_iter().take(AT_MOST).map(|(_, name)| name).collect()
}

fn nearness(wanted: &str, name: &str) -> f64 {
    let typo = strsim::normalized_damerau_levenshtein(wanted, name);
    let long_enough = wanted.len() >= 3 && name.len() >= 3;
    let inside = name.contains(wanted) || wanted.contains(name);
    let one_slip = strsim::damerau_levenshtein(wanted, name) <= 1;
    if long_enough && (inside || one_slip) { typo.max(0.8) } else { typo }
}

fn normal(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::similar;

    const NAMES: [&str; 4] = ["git_status", "git_log", "git_commit", "docker_ps"];

    #[track_caller]
    fn check(wanted: &str, expect: &[&str]) {
        assert_eq!(similar(wanted, NAMES), expect);
    }

    #[test]
    fn typos_and_parts_are_found() {
        check("git_staus", &["git_status"]);
        check("Git-Status", &["git_status"]);
        check("commit", &["git_commit"]);
        check("git_comit", &["git_commit"]);
        check("x_git_log", &["git_log"]);
        assert_eq!(similar("gti", ["git", "gh"]), ["git"]);
    }

    #[test]
    fn nothing_near_gives_nothing() {
        check("kubectl_get", &[]);
        check("", &[]);
        check("ab", &[]);
    }
}
