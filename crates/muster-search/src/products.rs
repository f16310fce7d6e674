//! Products that a query names and that are not here.
//!
//! Nearness cannot tell that a catalog has nothing for Jira if it has GitHub, whose tools read much the same. Names can. But
//! a name may also be a value, such as part of an address or of a text to search for: what is between quotation marks, and
//! addresses and paths, name no product.

mod list;

use std::ops::Range;

use self::list::{Name, NameCase, Spelled, is_compound};
use super::{
    index::Index,
    query::numbers,
    search::Admit,
    shard::WHOLE,
    synonyms,
    verdict::{Mention, Readings, is_seen},
    words::{self, Words},
};

/// The most products that are named, and the most words of a query that are looked at.
const MOST: usize = 3;
const MOST_WORDS: usize = 128;

/// The signs around a quotation.
const QUOTES: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’')];
/// What comes before the place or the means of what is asked for, and what may come after it.
const PREPOSITIONS: [&str; 8] = ["from", "in", "into", "on", "to", "using", "via", "with"];
const FOLLOWING: [&str; 18] = [
    "about", "after", "and", "as", "before", "but", "by", "for", "from", "or", "that", "then",
    "to", "using", "via", "when", "where", "with",
];
/// The first words of names whose other words name the product by themselves. Not those of vendors whose products have
/// everyday names: a tool that lists teams is not Microsoft Teams.
const VENDORS: [&str; 3] = ["Amazon", "Apache", "AWS"];

/// The terms of the compound names in a text. Its words alone do not tell that a product is mentioned: `OneDrive` and
/// `drive` are the same without stop words, and the words of `StatusPage` are in many descriptions.
pub(super) fn compound_terms(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric());
    let inner = words.filter(|word| word.chars().skip(1).any(char::is_uppercase));
    let small = inner.map(str::to_lowercase).filter(|word| list::is_known_compound(word));
    small.map(|name| compound_term(&name))
}

/// No word and no name of a tool is this term.
fn compound_term(name: &str) -> String {
    format!("{WHOLE}{WHOLE}{name}")
}

/// The products that a query names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NamedProducts {
    /// Those that no visible document mentions.
    pub(super) absent: Vec<&'static str>,
    /// Whether there is one that a visible document mentions.
    pub(super) has_present: bool,
}

/// The products that a query names.
pub(super) fn named(index: &Index, query: &str, admit: &Admit<'_>) -> NamedProducts {
    let mut found = NamedProducts::default();
    for (_, name) in names(&words(query)) {
        let absent = &mut found.absent;
        if is_mentioned(index, name, admit) {
            found.has_present = true;
        } else if absent.len() < MOST && !absent.contains(&name) {
            absent.push(name);
        }
    }
    found
}

/// A query without the names of products, present or not; `None` if it has none.
pub(super) fn without_names(query: &str) -> Option<String> {
    let words = words(query);
    let names = names(&words);
    let is_named = |at: usize| names.iter().any(|(range, _)| range.contains(&at));
    let rest = words.iter().enumerate().filter(|(at, _)| !is_named(*at));
    let rest: Vec<&str> = rest.map(|(_, word)| &*word.word).collect();
    (!names.is_empty()).then(|| rest.join(" "))
}

fn words(query: &str) -> Vec<Spelled> {
    list::spelled(&without_values(query)).take(MOST_WORDS).collect()
}

/// The names of products among these words, and where they are.
fn names(words: &[Spelled]) -> Vec<(Range<usize>, &'static str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let end = |name: &Name| at + list::spelled(name.text).count();
        let here = |name: &&Name| {
            let mut rest = words.iter().skip(at);
            list::spelled(name.text)
                .all(|part| rest.next().is_some_and(|one| one.word == part.word))
                && match name.case {
                    NameCase::Any => true,
                    NameCase::Capital => word.is_capital,
                    NameCase::CapitalOrAlone => {
                        word.is_capital || stands_alone(words, at, end(name))
                    }
                }
        };
        let named = list::beginning_with(&word.word).find(here);
        let next = named.map_or(at + 1, end);
        found.extend(named.map(|name| (at..next, name.text)));
        at = next;
    }
    found
}

/// Whether the words from `start` to `end` are all that follows a preposition, as in "open it in notion and share it", unlike
/// "in linear time" and "the notion of time".
fn stands_alone(words: &[Spelled], start: usize, end: usize) -> bool {
    let is_place = |before: &Spelled| !before.ends_clause && PREPOSITIONS.contains(&&*before.word);
    let ends = words.get(end.saturating_sub(1)).is_none_or(|last| last.ends_clause);
    start.checked_sub(1).and_then(|before| words.get(before)).is_some_and(is_place)
        && (ends || words.get(end).is_none_or(|next| FOLLOWING.contains(&&*next.word)))
}

/// A query without quotations, addresses and paths.
fn without_values(query: &str) -> String {
    let mut kept = String::with_capacity(query.len());
    let mut rest = query;
    // A quotation begins a word, unlike an apostrophe.
    while let Some((start, quote)) = rest.char_indices().find(|(at, sign)| {
        QUOTES.iter().any(|(open, _)| open == sign)
            && rest.get(..*at).is_some_and(|before| {
                before.chars().next_back().is_none_or(|sign| !sign.is_alphanumeric())
            })
    }) {
        let close =
            QUOTES.iter().find(|(open, _)| *open == quote).map_or(quote, |(_, close)| *close);
        let inside = rest.get(start + quote.len_utf8()..).unwrap_or_default();
        let Some(end) = inside.find(close) else { break };
        kept.push_str(rest.get(..start).unwrap_or_default());
        kept.push(' ');
        rest = inside.get(end + close.len_utf8()..).unwrap_or_default();
    }
    kept.push_str(rest);
    let is_value = |chunk: &&str| {
        // `owner/name`, but not `Jira/Confluence`, which are two names.
        let is_path = || {
            let mut parts = chunk.split('/').filter(|part| !part.is_empty());
            chunk.contains('/') && !parts.all(|part| part.starts_with(char::is_uppercase))
        };
        chunk.contains('@') || chunk.contains("://") || is_path()
    };
    let chunks: Vec<&str> = kept.split_whitespace().filter(|chunk| !is_value(chunk)).collect();
    chunks.join(" ")
}

/// Whether a visible document has all words of a name, or of a product without its vendor.
fn is_mentioned(index: &Index, name: &str, admit: &Admit<'_>) -> bool {
    let small = name.to_lowercase();
    // Descriptions write it in one of these ways, which are taken apart differently.
    let squeezed: String = small.split_whitespace().collect();
    if is_compound(name) {
        let marked = vec![numbers(index, &compound_term(&small))];
        let parts = readings(index, name);
        return is_seen(index, &[marked], Mention::Anywhere, admit)
            || is_seen(index, &readings(index, &small), Mention::Near, admit)
            || parts.len() > 1 && is_seen(index, &parts, Mention::SideBySide, admit);
    }
    let without_vendor = name.split_once(' ').filter(|(vendor, _)| VENDORS.contains(vendor));
    let product = without_vendor.map(|(_, product)| product.to_owned());
    let spellings = [name.to_owned(), small, squeezed];
    spellings
        .into_iter()
        .chain(product)
        .any(|name| is_seen(index, &readings(index, &name), Mention::Near, admit))
}

/// The readings of each word of a name.
fn readings(index: &Index, name: &str) -> Vec<Readings> {
    let of_word = |stem: &str| -> Readings {
        let same = synonyms::of(stem).iter().filter(|(_, share)| *share >= synonyms::SAME);
        let stems = std::iter::once(stem).chain(same.map(|(same, _)| same.as_str()));
        stems.map(|stem| numbers(index, stem)).collect()
    };
    words::terms(&Words::of(name)).iter().map(|(_, stem)| of_word(stem)).collect()
}

#[cfg(test)]
mod tests {
    use super::{NamedProducts, named, without_names};
    use crate::{
        document::{Document, Parameter},
        index::Index,
    };

    fn of(query: &str) -> NamedProducts {
        let tool = |name, description| Document { name, description, ..Document::default() };
        let index = Index::default().with(
            "hub",
            &[
                tool("create_issue", "Creates an issue in a GitHub repository"),
                tool("list_events", "Lists the events of a Google calendar"),
                tool("list_pods", "Lists the pods of a k8s cluster"),
                tool("read_row", "Reads a row of a DynamoDB table"),
                tool("list_news", "Lists the latest news"),
                tool("find_hacker", "Finds a hacker"),
                tool("send_spark", "Sends a job to Spark"),
                tool("list_teams", "Lists the teams of an organization"),
            ],
        );
        named(&index, query, &|_| true)
    }

    fn absent(query: &str) -> Vec<&'static str> {
        of(query).absent
    }

    #[test]
    fn products_that_are_not_here_are_named() {
        assert_eq!(absent("create a jira ticket"), ["Jira"]);
        assert_eq!(absent("add a row in google sheets"), ["Google Sheets"]);
        assert_eq!(absent("what is on my google calendar"), [""; 0]);
        assert_eq!(absent("open an issue on github"), [""; 0]);
        assert!(of("open an issue on github").has_present);
        assert!(!of("open an issue").has_present);
    }

    #[test]
    fn the_rest_of_a_query_is_without_names() {
        let rest = without_names("Create an issue in Jira, then mail it with Google Sheets");
        assert_eq!(rest.as_deref(), Some("create an issue in then mail it with"));
        assert_eq!(without_names("create an issue"), None);
    }

    #[test]
    fn one_product_may_be_here_and_another_not() {
        let found = of("Copy the GitHub issue to Trello and Asana");
        assert_eq!(found, NamedProducts { absent: vec!["Trello", "Asana"], has_present: true });
        assert_eq!(absent("the Trello/Asana board"), ["Trello", "Asana"]);
    }

    #[test]
    fn addresses_and_values_are_not_products() {
        for query in [
            "send a mail to jira@example.com",
            "open https://trello.com/b/board",
            "list the issues of acme/jira-sync",
            "create an issue called \"Move from Jira to Trello\"",
            "search for the text ‘asana’",
        ] {
            assert_eq!(absent(query), [""; 0], "{query}");
        }
        // An apostrophe is not a quotation.
        assert_eq!(absent("what's in the team's Jira"), ["Jira"]);
    }

    #[test]
    fn english_words_are_products_only_with_a_capital() {
        assert_eq!(absent("a linear regression on monday"), [""; 0]);
        assert_eq!(absent("Linear regression. Box plots"), [""; 0]);
        assert_eq!(absent("a superset of the notion of a home assistant"), [""; 0]);
        assert_eq!(absent("why does this function stack overflow"), [""; 0]);
        assert_eq!(absent("create the issue in Linear"), ["Linear"]);
        assert_eq!(absent("search on Stack Overflow"), ["Stack Overflow"]);
    }

    #[test]
    fn some_english_words_are_products_where_they_stand_alone_after_a_preposition() {
        for (query, expect) in [
            ("list the dashboards in superset", "Superset"),
            ("put it in notion, and share it", "Notion"),
            ("copy the tasks from linear to a file", "Linear"),
            ("what was asked on stack overflow", "Stack Overflow"),
        ] {
            assert_eq!(absent(query), [expect], "{query}");
        }
        for query in [
            "sort it in linear time",
            "is this set in superset relation to that",
            "what is in the notion of time",
            "look in. notion is a word",
            // These are things too.
            "pay with square",
            "render it in motion",
        ] {
            assert_eq!(absent(query), [""; 0], "{query}");
        }
    }

    #[test]
    fn a_name_is_mentioned_in_one_document_by_any_of_its_names() {
        // Its words are in two documents.
        assert_eq!(absent("what is new on Hacker News"), ["Hacker News"]);
        assert_eq!(absent("restart a deployment on kubernetes"), [""; 0]);
        assert_eq!(absent("run it with Apache Spark"), [""; 0]);
        assert_eq!(absent("post it in Microsoft Teams"), ["Microsoft Teams"]);
    }

    #[test]
    fn a_product_is_mentioned_by_what_a_tool_is_about() {
        let absent = |query: &str, document: Document<'_>| {
            named(&Index::default().with("office", &[document]), query, &|_| true).absent
        };
        let described = |description| Document { description, ..Document::default() };
        let ads = described(
            "Logs in with Google, and counts the clicks on every link of a page that shows ads",
        );
        assert_eq!(absent("clicks in google ads", ads), ["Google Ads"]);
        let listed = described("Opens files of Google Docs, Slides and Sheets");
        assert_eq!(absent("add a row in google sheets", listed), [""; 0]);
        let sheets =
            Document { name: "sheets_read", server: "google-workspace", ..Document::default() };
        assert_eq!(absent("add a row in google sheets", sheets), [""; 0]);
        let tags = &["google"];
        let tagged = Document { name: "sheets_read", tags, ..Document::default() };
        assert_eq!(absent("add a row in google sheets", tagged), [""; 0]);
        let long = format!("{} Docker or Google Sheets", "Counts sheep. ".repeat(200));
        assert_eq!(absent("docker ps", described(&long)), [""; 0]);
        // What it takes is not what it is about.
        let parameters =
            &[Parameter { name: "docker_image", description: "As on Docker or OneDrive" }];
        let deploy = Document { name: "deploy", parameters, ..Document::default() };
        assert_eq!(absent("docker ps", deploy), ["Docker"]);
        assert_eq!(absent("files on OneDrive", deploy), ["OneDrive"]);
    }

    #[test]
    fn a_name_in_one_word_is_not_mentioned_by_its_parts() {
        fn tool<'a>(name: &'a str, description: &'a str) -> Document<'a> {
            Document { name, description, ..Document::default() }
        }
        fn absent(query: &str, documents: &[Document<'_>]) -> Vec<&'static str> {
            named(&Index::default().with("office", documents), query, &|_| true).absent
        }
        let parts = [
            tool("list_drives", "Lists every drive that is linked"),
            tool("page_status", "Reads the page of a status that is in service now"),
        ];
        for name in ["OneDrive", "LinkedIn", "Statuspage", "ServiceNow"] {
            assert_eq!(absent(&format!("what is new on {name}"), &parts), [name]);
            let small = name.to_lowercase();
            let spelled = tool("open", &small);
            assert_eq!(absent(&format!("what is new on {name}"), &[spelled]), [""; 0]);
            let description = format!("Opens a page of {name}, if there is one");
            assert_eq!(
                absent(&format!("what is new on {name}"), &[tool("open", &description)]),
                [""; 0]
            );
        }
        for server in ["ActiveCampaign", "active-campaign-mcp"] {
            let server = Document { name: "open", server, ..Document::default() };
            assert_eq!(absent("contacts in activecampaign", &[server]), [""; 0]);
        }
        assert_eq!(
            absent("contacts in activecampaign", &[tool("list_active_campaigns", "")]),
            [""; 0]
        );
        assert_eq!(
            absent("contacts in activecampaign", &[tool("activate", "Makes a campaign active")]),
            ["ActiveCampaign"]
        );
    }
}
