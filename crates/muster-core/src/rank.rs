//! Which tools a query in words is about: an index over names and first lines, and scores from it.
//!
//! The score is BM25F: a word counts for more the fewer tools have it, a hit in the name for more
//! than one in the description, and each field is measured against its own average length.

use std::collections::BTreeSet;

use indexmap::IndexMap;

/// How fast more of the same word stops to matter.
const SATURATION: f64 = 1.5;
/// How much a long field is held against it.
const LENGTH: f64 = 0.75;
/// What a hit in the name and one in the summary weigh.
const WEIGHTS: [f64; 2] = [3.0, 1.0];
/// Words that half of all tools have in their names, and that say little about what a tool is for.
const COMMON: [&str; 2] = ["list", "get"];
/// What such a word counts for.
const COMMON_SHARE: f64 = 0.25;

/// Words of tools, by word.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// For each tool the number of words in its fields.
    lengths: Vec<[f64; 2]>,
    /// The averages of these.
    average: [f64; 2],
    /// Where each word occurs, in the order of the tools.
    words: IndexMap<String, Vec<Posting>>,
}

#[derive(Debug, Clone)]
struct Posting {
    tool: usize,
    times: [f64; 2],
}

/// A tool that a query is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its place in what was indexed.
    pub tool: usize,
    /// How well it fits; more is better, and never zero.
    pub score: f64,
}

impl Index {
    /// An index over names and summaries.
    pub fn new<'a>(tools: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut index = Self::default();
        for (tool, (name, summary)) in tools.into_iter().enumerate() {
            let fields = [words(name), words(summary)];
            let mut lengths = [0.0; 2];
            for (field, found) in fields.into_iter().enumerate() {
                for word in found {
                    if let Some(length) = lengths.get_mut(field) {
                        *length += 1.0;
                    }
                    index.count(word, tool, field);
                }
            }
            index.lengths.push(lengths);
        }
        #[expect(clippy::cast_precision_loss, reason = "there are never so many tools")]
        let count = index.lengths.len().max(1) as f64;
        for lengths in &index.lengths {
            for (sum, length) in index.average.iter_mut().zip(lengths) {
                *sum += length / count;
            }
        }
        index
    }

    fn count(&mut self, word: String, tool: usize, field: usize) {
        let postings = self.words.entry(word).or_default();
        if postings.last().is_none_or(|last| last.tool != tool) {
            postings.push(Posting { tool, times: [0.0; 2] });
        }
        let times = postings.last_mut().and_then(|last| last.times.get_mut(field));
        if let Some(times) = times {
            *times += 1.0;
        }
    }

    /// What `query` is about, in the order of the tools. A tool that has none of the words is not
    /// there.
    pub fn search(&self, query: &str) -> Vec<Hit> {
        let mut scores = vec![0.0; self.lengths.len()];
        for word in words(query).collect::<BTreeSet<_>>() {
            let Some(postings) = self.words.get(word.as_str()) else { continue };
            let share = if COMMON.contains(&&*word) { COMMON_SHARE } else { 1.0 };
            let weight = share * self.rarity(postings.len());
            for posting in postings {
                let frequency = self.frequency(posting);
                let score = weight * frequency * (SATURATION + 1.0) / (SATURATION + frequency);
                if let Some(sum) = scores.get_mut(posting.tool) {
                    *sum += score;
                }
            }
        }
        let scored = scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0);
        scored.map(|(tool, score)| Hit { tool, score }).collect()
    }

    /// How much it says that a word occurs, if it occurs in so many tools.
    #[expect(clippy::cast_precision_loss, reason = "there are never so many tools")]
    fn rarity(&self, occurring: usize) -> f64 {
        let (all, occurring) = (self.lengths.len() as f64, occurring as f64);
        (1.0 + (all - occurring + 0.5) / (occurring + 0.5)).ln()
    }

    /// How often a word occurs in a tool, all fields weighed.
    fn frequency(&self, posting: &Posting) -> f64 {
        let lengths = self.lengths.get(posting.tool).copied().unwrap_or_default();
        let fields = posting.times.iter().zip(lengths).zip(self.average).zip(WEIGHTS);
        fields
            .map(|(((times, length), average), weight)| {
                let relative = if average > 0.0 { length / average } else { 1.0 };
                weight * times / (1.0 - LENGTH + LENGTH * relative)
            })
            .sum()
    }
}

/// Brings the `count` best to the front, in order; of equals the one that was indexed first. Who wants
/// five of ten thousand need not wait for all to be sorted.
pub fn best_first(hits: &mut [Hit], count: usize) {
    let better = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.tool.cmp(&b.tool));
    if count < hits.len() {
        hits.select_nth_unstable_by(count, better);
    }
    if let Some(best) = hits.get_mut(..count.min(hits.len())) {
        best.sort_unstable_by(better);
    }
}

/// The words of a text in small letters: runs of letters and digits, `camelCase` taken apart.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| !sign.is_alphanumeric()).flat_map(parts).map(|word| word.to_lowercase())
}

fn parts(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let mut before_is_small = false;
        let humps = rest.char_indices().find(|(_, sign)| {
            let hump = before_is_small && sign.is_uppercase();
            before_is_small = sign.is_lowercase();
            hump
        });
        let (word, after) = rest.split_at(humps.map_or(rest.len(), |(at, _)| at));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::{Hit, Index, best_first, words};

    #[track_caller]
    fn check_words(text: &str, expect: &[&str]) {
        assert_eq!(words(text).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn words_of_names_and_sentences() {
        check_words("x_files_read", &["x", "files", "read"]);
        check_words("listPodsInNamespace", &["list", "pods", "in", "namespace"]);
        check_words("HTTPServer v2", &["httpserver", "v2"]);
        check_words(
            "Liest Straßen, auch ÜBER-lange!",
            &["liest", "straßen", "auch", "über", "lange"],
        );
        check_words(" -- ", &[]);
    }

    const TOOLS: [(&str, &str); 6] = [
        ("x_k8s_list_pods", "List the pods of a namespace"),
        ("x_k8s_list_nodes", "List the nodes of the cluster"),
        ("x_git_list_branches", "List branches"),
        ("x_git_list_tags", "List tags"),
        ("x_github_get_issue", "Get one issue of a repository"),
        ("x_files_read", "Read a file"),
    ];

    fn ranked(tools: &[(&str, &str)], query: &str) -> Vec<Hit> {
        let mut hits = Index::new(tools.iter().copied()).search(query);
        let all = hits.len();
        best_first(&mut hits, all);
        hits
    }

    #[track_caller]
    fn check(query: &str, expect: &[&str]) {
        let found = ranked(&TOOLS, query);
        let names: Vec<&str> = found.iter().map(|hit| TOOLS[hit.tool].0).collect();
        assert_eq!(names, expect, "{query}");
        assert!(found.iter().all(|hit| hit.score > 0.0));
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
    }

    #[test]
    fn rare_words_count_more() {
        assert_eq!(ranked(&TOOLS, "list pods").first().map(|hit| hit.tool), Some(0));
        check("issue", &["x_github_get_issue"]);
        check("READ", &["x_files_read"]);
        check("git branches", &["x_git_list_branches", "x_git_list_tags"]);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        check("weather", &[]);
        check("", &[]);
        assert!(Index::new([]).search("x").is_empty());
    }

    #[test]
    fn equals_stay_in_order() {
        let tools = [("b_same", "words"), ("a_same", "words"), ("c_same", "words")];
        let order: Vec<usize> = ranked(&tools, "same").iter().map(|hit| hit.tool).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn a_name_counts_more_than_a_summary() {
        let tools = [("one", "deploy things"), ("deploy", "things one")];
        assert_eq!(ranked(&tools, "deploy").first().map(|hit| hit.tool), Some(1));
    }
    #[test]
    fn the_best_are_the_same_however_many_are_wanted() {
        let all = ranked(&TOOLS, "list git pods");
        for count in 0..=all.len() + 1 {
            let mut some = Index::new(TOOLS).search("list git pods");
            best_first(&mut some, count);
            let count = count.min(all.len());
            assert_eq!(some[..count], all[..count]);
        }
    }
}
