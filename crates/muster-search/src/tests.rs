//! Searches over small catalogs, and what holds for every search.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    document::{Document, Parameter},
    index::Index,
    meaning::{Embed, Meaning, QueryMeaning},
    search::{Named, Place},
    verdict::{MatchStrength, SearchVerdict},
};

const EVERYTHING: &dyn Fn(Place<'_>) -> bool = &|_| true;

fn tool<'a>(name: &'a str, description: &'a str) -> Document<'a> {
    Document { name, description, ..Document::default() }
}

fn index() -> Index {
    Index::default()
        .with(
            "git",
            &[
                tool("git_status", "Shows the working tree status"),
                tool("git_commit", "Records changes to the repository"),
                tool("git_log", "Shows the commit logs"),
            ],
        )
        .with(
            "files",
            &[
                tool("read_file", "Reads the whole content of a file"),
                tool("list_directory", "Lists what is in a folder"),
                Document {
                    parameters: &[Parameter { name: "pattern", description: "a glob expression" }],
                    ..tool("search_files", "Finds files by name")
                },
            ],
        )
        .with(
            "weather",
            &[tool("forecast", "Predicts temperature and rain for a city"), tool("help", "")],
        )
}

fn names(index: &Index, text: &str) -> Vec<String> {
    let hits = index.search(text, EVERYTHING, 10).hits;
    hits.iter().map(|hit| format!("{}/{}", hit.place.source, hit.place.position)).collect()
}

#[track_caller]
fn first(text: &str, expect: &str) {
    assert_eq!(names(&index(), text).first().map(String::as_str), Some(expect), "{text}");
}

#[test]
fn the_right_tool_comes_first() {
    first("show me what is inside this file", "files/0");
    first("what will the weather be tomorrow, will it rain?", "weather/0");
    first("show me the log of commits", "git/2");
    first("glob", "files/2");
    first("folders", "files/1");
    first("repo changes", "git/1");
}

#[test]
fn typos_and_beginnings_are_understood() {
    first("temprature", "weather/0");
    first("comit", "git/1");
    first("forec", "weather/0");
}

#[test]
fn names_come_first() {
    for text in ["git_log", "Git-Log", "git log", "GitLog", "GIT_LOG"] {
        let index = index();
        let answer = index.search(text, EVERYTHING, 10);
        assert_eq!(answer.hits[0].place, Place { source: "git", position: 2 }, "{text}");
        assert_eq!(answer.hits[0].named, Named::Alone);
        assert_eq!(answer.verdict, SearchVerdict::Found);
    }
    let index = index();
    let answer = index.search("use list_directory on the file content", EVERYTHING, 10);
    assert_eq!(answer.hits[0].named, Named::Within);
    assert_eq!(answer.hits[0].place, Place { source: "files", position: 1 });
    // A name that is made of words that say nothing is still a name.
    first("help", "weather/1");
}

#[test]
fn full_names_and_aliases_are_names() {
    let index = index().with(
        "more",
        &[Document {
            full_names: &["x_more_frobnicate"],
            aliases: &["git log"],
            ..tool("frobnicate", "")
        }],
    );
    let place = |text: &str| index.search(text, EVERYTHING, 3).hits[0].place.source.to_owned();
    assert_eq!(place("x_more_frobnicate"), "more");
    assert_eq!(names(&index, "git log")[..2], ["git/2", "more/0"]);
}

#[test]
fn a_description_that_repeats_the_name_adds_nothing() {
    let score = |description| {
        let shop = [tool("list_orders", description), tool("send_mail", "Sends a mail")];
        let index = Index::default().with("shop", &shop);
        index.search("list the orders of today", EVERYTHING, 1).hits[0].score
    };
    for description in ["list_orders", "List Orders"] {
        assert_eq!(score(description).to_bits(), score("").to_bits(), "{description}");
    }
    assert!(score("Lists all orders") > score(""));
}

#[test]
fn hits_say_why() {
    let index = index();
    let answer = index.search("repo temprature forec glob", EVERYTHING, 10);
    let mut why = BTreeSet::new();
    for found in answer.hits.iter().flat_map(|hit| &hit.matches) {
        why.insert(format!("{} {} {:?} {:?}", found.word, found.term, found.how, found.fields));
    }
    let why: Vec<_> = why.into_iter().collect();
    assert_eq!(
        why,
        [
            "forec forecast Prefix [Name]",
            "glob glob Same [ParameterText]",
            "repo repositori Synonym [Description]",
            "temprature temperatur Spelling [Description]",
        ]
    );
}

#[test]
fn missing_tools_are_not_found() {
    let index = index();
    let answer = index.search("order a pizza with extra cheese", EVERYTHING, 10);
    assert!(matches!(answer.verdict, SearchVerdict::NoSuchTool { .. }), "{answer:?}");
    assert_eq!(answer.unmatched_terms, ["order", "pizza", "extra", "cheese"]);
    let answer = index.search(
        "book a flight, reserve a hotel room and find a good restaurant in the city",
        EVERYTHING,
        10,
    );
    let SearchVerdict::NoSuchTool { nearest_servers } = answer.verdict else {
        panic!("{answer:?}")
    };
    assert_eq!(nearest_servers, ["files", "weather"]);
}

#[test]
fn strengths_say_how_much_of_the_query_matches() {
    let index = index();
    let best = |text: &str| {
        let answer = index.search(text, EVERYTHING, 10);
        (answer.hits[0].strength, answer.verdict, answer.unmatched_terms)
    };
    let none = Vec::<String>::new;
    let cases = [
        ("read a file", MatchStrength::Strong, SearchVerdict::Found, none()),
        ("git_log", MatchStrength::Strong, SearchVerdict::Found, none()),
        (
            "list the folder by postgres",
            MatchStrength::Possible,
            SearchVerdict::Found,
            vec!["postgres".into()],
        ),
        ("read an email", MatchStrength::Weak, SearchVerdict::Unsure, vec!["email".into()]),
        // A sentence has words that no description has.
        (
            "predict rain and temperature for the city of Paris on Monday",
            MatchStrength::Strong,
            SearchVerdict::Found,
            vec!["paris".into(), "monday".into()],
        ),
    ];
    for (text, strength, verdict, unmatched) in cases {
        assert_eq!(best(text), (strength, verdict, unmatched), "{text}");
    }
}

/// Tools of one server have its words in common, which makes all of them match.
#[test]
fn a_match_far_behind_the_best_is_not_shown_as_strong() {
    use MatchStrength::{Possible, Strong, Weak};
    for (strength, score, expect) in [
        (Strong, 8.7, Strong),
        (Strong, 7.0, Strong),
        (Strong, 5.9, Possible),
        (Strong, 4.0, Weak),
        (Weak, 8.7, Weak),
    ] {
        assert_eq!(strength.beside_best(score, 8.7), expect, "{strength:?} {score}");
    }
}

#[test]
fn nothing_held_back_can_be_seen() {
    let index = index();
    let answer = index.search("repository", &|place| place.source != "git", 10);
    assert_eq!(answer.hits, []);
    assert_eq!(answer.unmatched_terms, ["repository"]);
    assert_eq!(answer.verdict, SearchVerdict::NoSuchTool { nearest_servers: vec![] });
    let answer = index.search("git_log", &|place| place.source != "git", 10);
    assert!(answer.hits.iter().all(|hit| hit.place.source != "git"));
}

#[test]
fn any_text_and_any_index_will_do() {
    for text in ["", " ", "?", "the", "=gitlog", "\u{0}", "日", "ß ﬀ İ"] {
        let _answer = index().search(text, EVERYTHING, 10);
        assert_eq!(Index::default().search(text, EVERYTHING, 10).hits, []);
    }
    assert_eq!(index().search("git", EVERYTHING, 0).hits, []);
    assert!(Index::default().with("a", &[]).is_empty());
}

#[test]
fn a_source_is_replaced_as_a_whole() {
    let index = index().with("git", &[tool("blame", "Tells who wrote a line")]);
    assert_eq!(index.len(), 6);
    assert_eq!(names(&index, "repository"), [""; 0]);
    assert_eq!(names(&index, "who wrote this line?"), ["git/0"]);
    assert_eq!(index.without("git").without("files").without("weather").len(), 0);
    assert!(index.bytes() > 0);
    assert_eq!(format!("{:?}", index.without("nobody")), format!("{index:?}"));
}

/// Words of which few are made, so that many tools share some.
fn text(most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => "(get|list|delete|file|files|user|issue|repo|search|log|in|the|weather|status)",
        1 => "[a-e]{1,6}",
        1 => "\\PC{0,6}",
    ];
    let gap = prop_oneof![Just("_"), Just(" "), Just("-")];
    prop::collection::vec((word, gap), 0..most)
        .prop_map(|words| words.into_iter().map(|(word, gap)| word + gap).collect())
}

fn sources() -> impl Strategy<Value = Vec<Vec<(String, String)>>> {
    prop::collection::vec(prop::collection::vec((text(3), text(8)), 0..6), 0..6)
}

fn documents(tools: &[(String, String)]) -> Vec<Document<'_>> {
    tools.iter().map(|(name, description)| tool(name, description)).collect()
}

fn built<'a>(sources: impl Iterator<Item = (usize, &'a Vec<(String, String)>)>) -> Index {
    sources.fold(Index::default(), |index, (number, tools)| {
        index.with(&format!("source{number}"), &documents(tools))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_the_sources_does_not_matter(
        sources in sources(), query in text(6), detour in 0_usize..6
    ) {
        let forwards = built(sources.iter().enumerate());
        let mut backwards = built(sources.iter().enumerate().rev());
        // Nor does what a source held before.
        if let Some(tools) = sources.get(detour) {
            let name = format!("source{detour}");
            backwards = backwards.with(&name, &[tool("list files", "other")]).without(&name);
            backwards = backwards.with(&name, &documents(tools));
        }
        let one = forwards.search(&query, EVERYTHING, 10);
        let other = backwards.search(&query, EVERYTHING, 10);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn filters_come_before_the_limit(sources in sources(), query in text(6), limit in 0_usize..5) {
        let index = built(sources.iter().enumerate());
        let admit = |place: Place<'_>| (place.position + place.source.len()).is_multiple_of(2);
        let everything = index.search(&query, EVERYTHING, usize::MAX).hits;
        let filtered = index.search(&query, &admit, limit).hits;
        let expect: Vec<_> =
            everything.into_iter().filter(|hit| admit(hit.place)).take(limit).collect();
        prop_assert_eq!(filtered, expect);
    }

    #[test]
    fn known_documents_are_counted_like_others(sources in sources(), query in text(6)) {
        let index = built(sources.iter().enumerate());
        let admit = |place: Place<'_>| (place.position + place.source.len()).is_multiple_of(2);
        let some = index.documents(&|place| admit(place) && place.position % 3 == 0);
        let everything = index.search(&query, EVERYTHING, usize::MAX);
        let expect = everything.hits.iter().filter(|hit| admit(hit.place)).count();
        for sure in [None, Some(&some), Some(&index.documents(&admit))] {
            prop_assert_eq!(index.search_words(&query, &admit, sure, 3).total, expect);
        }
    }

    #[test]
    fn an_exact_name_is_first(sources in sources(), at in any::<prop::sample::Index>()) {
        let index = built(sources.iter().enumerate());
        let names: Vec<&String> = sources.iter().flatten().map(|(name, _)| name).collect();
        prop_assume!(!names.is_empty());
        let name = at.get(&names);
        prop_assume!(name.chars().any(char::is_alphanumeric));
        let answer = index.search(name, EVERYTHING, 3);
        let place = answer.hits[0].place;
        let number: usize = place.source.trim_start_matches("source").parse().unwrap();
        let squeezed = |text: &str| super::words::squeezed(text);
        prop_assert_eq!(squeezed(&sources[number][place.position].0), squeezed(name));
        prop_assert_eq!(answer.verdict, SearchVerdict::Found);
    }

    #[test]
    fn better_never_comes_after_worse(sources in sources(), query in "\\PC{0,40}") {
        let index = built(sources.iter().enumerate());
        let answer = index.search(&query, EVERYTHING, 10);
        prop_assert!(answer.hits.is_sorted_by(|a, b| (a.named, a.score) >= (b.named, b.score)));
        prop_assert!((0.0..=1.0).contains(&answer.strength));
    }
}

#[test]
fn the_name_of_an_absent_product_decides_only_where_nothing_else_does() {
    let tool = |name, description| Document { name, description, ..Document::default() };
    let index = Index::default().with(
        "hub",
        &[
            tool("create_issue", "Creates an issue in a GitHub repository"),
            tool("export_account_statement_history_report", "Exports a report"),
            tool("send_mail", "Sends a mail"),
        ],
    );
    let verdict = |query: &str, near: Option<f32>| {
        let found = match near {
            None => index.search(query, &|_| true, 5),
            Some(near) => {
                let (asked, vector) = (one_request(vec![1.0]), [near]);
                let meaning = Meaning { query: &asked, vector: &|_| Some(&vector) };
                index.search_meaning(query, &|_| true, meaning, None, 5)
            }
        };
        (found.verdict, found.absent_products)
    };
    let no_such_tool = SearchVerdict::NoSuchTool { nearest_servers: vec!["hub"] };
    let jira = vec!["Jira"];
    assert_eq!(verdict("create a task in Jira", None), (no_such_tool.clone(), jira.clone()));
    assert_eq!(verdict("create a task in Jira", Some(0.6)), (no_such_tool.clone(), jira.clone()));
    // The rest of the query is found, or a product that is here is named as well.
    let found = verdict("export the account statement history report of Stripe", None);
    assert_eq!(found, (SearchVerdict::Found, vec!["Stripe"]));
    assert_eq!(verdict("create a task in Jira", Some(0.7)), (SearchVerdict::Found, jira.clone()));
    let both = "create a GitHub issue for the ticket in Jira";
    assert_eq!(verdict(both, None), (SearchVerdict::Unsure, jira.clone()));
    assert_eq!(verdict(both, Some(0.6)), (SearchVerdict::Unsure, jira));
    let (verdict, absent) = verdict("send a mail to jira@example.com", None);
    assert!(verdict != no_such_tool && absent.is_empty(), "{verdict:?} {absent:?}");
}

#[test]
fn the_alternative_to_an_absent_product_does_what_is_asked_for() {
    let about = ["flight of birds", "the weather, jir"];
    let index = Index::default()
        .with("birds", &[tool("create_flight_plan", about[0])])
        .with("jir", &[tool("jir_run", about[1])]);
    let vectors = Topics.embed(&about);
    let by_words = |query| index.search(query, EVERYTHING, 5).alternative.map(|at| at.source);
    let by_meaning = |query| {
        let asked = QueryMeaning::of(&Topics, query).unwrap();
        let vector =
            |place: Place<'_>| vectors.get(usize::from(place.source == "jir")).map(Vec::as_slice);
        let meaning = Meaning { query: &asked, vector: &vector };
        index.search_meaning(query, EVERYTHING, meaning, None, 5).alternative.map(|at| at.source)
    };
    for (query, words, meaning) in [
        ("create a flight plan in Jira", Some("birds"), Some("birds")),
        // One word is in many tools.
        ("flight in Jira", None, Some("birds")),
        ("send an invoice with Jira", None, None),
        // Nothing is absent.
        ("create a flight plan", None, None),
    ] {
        assert_eq!((by_words(query), by_meaning(query)), (words, meaning), "{query}");
    }
}

fn one_request(whole: Vec<f32>) -> QueryMeaning {
    QueryMeaning { whole, clauses: Vec::new(), without_products: None }
}

/// Embeds flights, invoices and weather as the axes of a space, and each text as the mean of those that it mentions.
#[derive(Debug)]
struct Topics;

impl Embed for Topics {
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let axis = |text: &str, topic: &str| if text.contains(topic) { 1.0 } else { 0.1 };
        let vector = |text: &&str| {
            let vector = ["flight", "invoice", "weather"].map(|topic| axis(text, topic));
            let length = vector.iter().map(|one| one * one).sum::<f32>().sqrt();
            vector.map(|one| one / length).to_vec()
        };
        texts.iter().map(vector).collect()
    }
}

#[test]
fn a_tool_without_an_embedding_keeps_its_place() {
    let index = Index::default().with(
        "gateway",
        &[
            tool("service_delete", "Deletes a service"),
            tool("token_revoke", "Revokes a static token"),
            tool("events", "Shows events"),
        ],
    );
    let best = |query: &str, known: &'static [usize]| {
        let (asked, vectors) = (one_request(vec![1.0]), [[0.5], [0.9], [0.1]]);
        let vector = |place: Place<'_>| {
            known.contains(&place.position).then(|| vectors[place.position].as_slice())
        };
        let meaning = Meaning { query: &asked, vector: &vector };
        let answer = index.search_meaning(query, EVERYTHING, meaning, None, 5);
        answer.hits.first().map(|hit| hit.place.position)
    };
    for known in [&[0, 1, 2][..], &[0, 2], &[1], &[]] {
        assert_eq!(best("revoke a static token", known), Some(1), "{known:?}");
    }
    // One word of many is no such evidence.
    let parking = "pay with a token at the parking meter in the old town";
    assert_eq!(best(parking, &[0, 2]), Some(0));
}

#[test]
fn each_clause_of_a_query_has_a_tool_among_the_first() {
    // Both flights and invoices: nearer to the whole query than a tool for one of them, and right for neither request.
    let names = ["alpha", "beta", "gamma"];
    let about = ["flight of birds, and a flight invoice", "book a flight", "send an invoice"];
    let documents: Vec<_> = names.iter().map(|name| tool(name, "")).collect();
    let index = Index::default().with("all", &documents);
    let vectors = Topics.embed(&about);
    let best = |query: &str| {
        let asked = QueryMeaning::of(&Topics, query).unwrap();
        let meaning = Meaning {
            query: &asked,
            vector: &|place| vectors.get(place.position).map(Vec::as_slice),
        };
        let answer = index.search_meaning(query, EVERYTHING, meaning, None, 3);
        answer.hits.iter().map(|hit| hit.place.position).collect::<Vec<_>>()
    };
    assert_eq!(best("the cheapest flight, then a monthly invoice")[2], 0);
    assert_eq!(best("the flight invoice of yesterday")[0], 0, "one request");
    // The second clause is near to nothing here, so that the whole query counts.
    assert_eq!(best("a flight invoice and some nice music")[0], 0, "an aside");
}
