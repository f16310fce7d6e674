//! "Did you mean" suggestions.

/// At most three of `names` that are similar to `wanted`, best first.
pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MAX_SUGGESTIONS: usize = 3;
    const MIN_SIMILARITY: f64 = 0.75;
    let wanted = normal(wanted);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(Similarity, &str)> = names
        .into_iter()
        .map(|name| (Similarity::of(&wanted, &normal(name)), name))
        .filter(|(similarity, _)| similarity.combined >= MIN_SIMILARITY)
        .collect();
    near.sort_by(|(a, a_name), (b, b_name)| {
        let best_first = b.combined.total_cmp(&a.combined).then(b.edit.total_cmp(&a.edit));
        best_first.then_with(|| a_name.cmp(b_name))
    });
    near.dedup_by(|(_, a), (_, b)| a == b);
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// The similarity of two names, from 0 to 1.
struct Similarity {
    /// The combined score; decides first.
    combined: f64,
    /// The edit similarity; breaks ties.
    edit: f64,
}

impl Similarity {
    fn of(wanted: &str, name: &str) -> Self {
        const FLOOR: f64 = 0.8;
        let edit = strsim::normalized_damerau_levenshtein(wanted, name);
        let long_enough = wanted.len() >= 3 && name.len() >= 3;
        let inside = name.contains(wanted) || wanted.contains(name);
        let one_slip = strsim::damerau_levenshtein(wanted, name) <= 1;
        let combined = if long_enough && (inside || one_slip) { edit.max(FLOOR) } else { edit };
        Self { combined, edit }
    }
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
    fn the_nearest_come_first_and_no_more_than_three() {
        let names = ["log_4", "log_3", "log_22", "log_2", "logs", "log"];
        assert_eq!(similar("log", names), ["log", "logs", "log_2"]);
        assert_eq!(similar("log_2", names), ["log_2", "log_22", "log_3"]);
        assert_eq!(similar("lgos", names), ["logs"]);
    }

    #[test]
    fn a_name_is_suggested_once() {
        assert_eq!(similar("git_lo", ["git_log", "git_log"]), ["git_log"]);
    }

    #[test]
    fn any_text_is_a_name() {
        assert_eq!(similar("ÜBERSICHT", ["übersicht"]), ["übersicht"]);
        check(" git status ", &["git_status"]);
        check("\u{0}\u{10ffff}", &[]);
        assert_eq!(similar("x", [""; 2]), [""; 0]);
    }

    #[test]
    fn nothing_similar_gives_no_suggestion() {
        check("kubectl_get", &[]);
        check("", &[]);
        check("ab", &[]);
    }
}
