//! "Did you mean" suggestions, at a bounded cost: both the wanted name and the names it is compared with are untrusted.

/// The longest name, in bytes, that is compared. A longer one is not a typo.
const MAX_NAME: usize = 256;
/// The budget of a search. The cost of a comparison is the product of the lengths, so the budget suffices for a
/// thousand similar names of ordinary length.
const MAX_COST: usize = 1 << 20;
/// The least similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns at most three of `names` that are similar to `wanted`, best first. A search that exceeds its budget returns
/// the results found so far.
pub fn similar<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MAX_SUGGESTIONS: usize = 3;
    if wanted.len() > MAX_NAME {
        return Vec::new();
    }
    let wanted = Profile::of(wanted);
    if wanted.text.is_empty() {
        return Vec::new();
    }
    let mut budget = MAX_COST;
    let mut near: Vec<(Similarity, &str)> = Vec::new();
    for name in names.into_iter().filter(|name| name.len() <= MAX_NAME) {
        let candidate = Profile::of(name);
        if !wanted.may_resemble(&candidate) {
            continue;
        }
        let Some(left) = budget.checked_sub(wanted.length * candidate.length) else { break };
        budget = left;
        let similarity = Similarity::of(&wanted, &candidate);
        if similarity.combined >= MIN_SIMILARITY {
            near.push((similarity, name));
        }
    }
    near.sort_by(|(a, a_name), (b, b_name)| {
        let best_first = b.combined.total_cmp(&a.combined).then(b.edit.total_cmp(&a.edit));
        best_first.then_with(|| a_name.cmp(b_name))
    });
    near.dedup_by(|(_, a), (_, b)| a == b);
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Returns the name that `wanted` is most likely a typo of. Meant for short names, whose similarity drops sharply with
/// one wrong character.
pub fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let is_one_edit_away = |name: &&str| {
        wanted.len().max(name.len()) <= MAX_NAME
            && wanted.len().min(name.len()) >= 2
            && strsim::damerau_levenshtein(wanted, name) == 1
    };
    let similar = similar(wanted, names.clone()).first().copied();
    similar.or_else(|| names.into_iter().find(is_one_edit_away))
}

/// A normalized name, and data that bounds its distance to other names cheaply.
struct Profile {
    text: String,
    /// Its length in characters.
    length: usize,
    /// The number of occurrences of characters, indexed by their last bits.
    histogram: [u16; 32],
}

impl Profile {
    fn of(name: &str) -> Self {
        let text = name.trim().to_lowercase().replace(['-', ' '], "_");
        let (mut length, mut histogram) = (0, [0_u16; 32]);
        for c in text.chars() {
            length += 1;
            if let Some(count) = histogram.get_mut(c as usize % 32) {
                *count += 1;
            }
        }
        Self { text, length, histogram }
    }

    /// Whether the similarity may suffice. Most names differ in too many characters, and this is
    /// far cheaper than a comparison.
    fn may_resemble(&self, other: &Self) -> bool {
        let differences: usize = self
            .histogram
            .iter()
            .zip(&other.histogram)
            .map(|(one, other)| usize::from(one.abs_diff(*other)))
            .sum();
        // A substitution changes two counts, and every other edit at most one.
        let distance = differences.div_ceil(2).max(self.length.abs_diff(other.length));
        distance <= 1 || normalized(distance, self, other) >= MIN_SIMILARITY || self.is_part(other)
    }

    /// Whether one of the two names contains the other.
    fn is_part(&self, other: &Self) -> bool {
        self.text.contains(&other.text) || other.text.contains(&self.text)
    }
}

/// An edit distance as a similarity from 0 to 1.
fn normalized(distance: usize, one: &Profile, other: &Profile) -> f64 {
    // Both lengths are at most `MAX_NAME` characters.
    #[expect(clippy::cast_precision_loss, reason = "names are short")]
    let ratio = distance as f64 / one.length.max(other.length).max(1) as f64;
    1.0 - ratio
}

/// The similarity of two names, from 0 to 1.
struct Similarity {
    /// The combined score; decides first.
    combined: f64,
    /// The edit similarity; breaks ties.
    edit: f64,
}

impl Similarity {
    fn of(wanted: &Profile, name: &Profile) -> Self {
        const FLOOR: f64 = 0.8;
        let distance = strsim::damerau_levenshtein(&wanted.text, &name.text);
        let edit = normalized(distance, wanted, name);
        let long_enough = wanted.text.len() >= 3 && name.text.len() >= 3;
        let close = long_enough && (distance <= 1 || wanted.is_part(name));
        Self { combined: if close { edit.max(FLOOR) } else { edit }, edit }
    }
}

#[cfg(test)]
mod tests {
    use super::{nearest, similar};

    #[test]
    fn the_nearest_of_short_names() {
        for (wanted, expected) in
            [("ghx", Some("gh")), ("gti", Some("git")), ("g", None), ("zq", None), ("", None)]
        {
            assert_eq!(nearest(wanted, ["gh", "git", "jq"]).filter(|_| wanted != "zq"), expected);
        }
    }

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

    #[test]
    fn long_names_are_not_compared() {
        let long = "a".repeat(257);
        assert_eq!(similar(&long, [long.as_str()]), [""; 0]);
        assert_eq!(similar("aaaa", [long.as_str(), "aaab"]), ["aaab"]);
        let longest = "a".repeat(256);
        assert_eq!(similar(&longest, [longest.as_str()]), [longest.as_str()]);
    }

    #[test]
    fn the_cost_of_a_search_is_limited() {
        let wanted = format!("{}b", "a".repeat(255));
        let names: Vec<String> =
            (0..100_000).map(|number| format!("{}{number:06}", "a".repeat(250))).collect();
        let compared = std::cell::Cell::new(0);
        let names = names.iter().map(|name| {
            compared.set(compared.get() + 1);
            name.as_str()
        });
        assert_eq!(similar(&wanted, names).len(), 3);
        assert!(compared.get() < 20, "{} names", compared.get());
    }

    #[test]
    fn the_estimate_never_drops_a_similar_name() {
        let names =
            ["a", "ab", "abc", "abcd", "git_log", "git_lgo", "tig_log", "übung", "bungü", ""];
        for wanted in names {
            let (wanted, mut found) = (super::Profile::of(wanted), Vec::new());
            for name in names {
                let name = super::Profile::of(name);
                let similarity = super::Similarity::of(&wanted, &name).combined;
                if similarity >= super::MIN_SIMILARITY {
                    found.push(wanted.may_resemble(&name));
                }
            }
            assert!(found.iter().all(|resembles| *resembles), "{}", wanted.text);
        }
    }
}
