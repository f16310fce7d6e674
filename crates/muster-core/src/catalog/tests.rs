//! Name resolution, search and sharing across catalog changes.

use std::{cell::Cell, sync::Arc};

use muster_search::{index::Index, verdict::SearchVerdict};

use super::{
    BackendInfo, CatalogSnapshot, CatalogSource, NameCollision, Offer, ToolAudience, ToolEntry,
};
use crate::{
    name::{BackendName, ToolName},
    schema,
};

fn source(backend: &str, tools: &[(&str, &str)]) -> CatalogSource {
    source_for(ToolAudience::default(), backend, tools)
}

fn source_for(audience: ToolAudience, backend: &str, tools: &[(&str, &str)]) -> CatalogSource {
    let backend = BackendName::new(backend);
    let info = BackendInfo {
        title: backend.as_str().into(),
        description: "".into(),
        category: None,
        tags: Arc::from([]),
    };
    let entries = tools.iter().map(|&(name, description)| ToolEntry {
        name: ToolName::new(name),
        backend: backend.clone(),
        local_name: name.into(),
        description: description.into(),
        input_schema: schema::input_schema(&[]).into(),
        params: None,
        definition: None,
        effect: None,
        validator: Arc::default(),
        audience,
    });
    let offer = Offer { tools: entries.collect(), ..Offer::default() };
    CatalogSource::new(backend, info, offer)
}

fn called(catalog: &CatalogSnapshot, name: &str) -> Option<String> {
    catalog.get(name).map(|entry| format!("{} {}", entry.backend, entry.description))
}

#[test]
fn removing_the_winner_reveals_the_other() {
    for (collision, wins, then) in
        [(NameCollision::LastWins, "b 2", "a 1"), (NameCollision::FirstWins, "a 1", "b 2")]
    {
        let catalog = CatalogSnapshot::with_collisions(collision)
            .with(source("a", &[("same", "1"), ("mine", "")]))
            .with(source("b", &[("same", "2")]));
        assert_eq!(called(&catalog, "same").as_deref(), Some(wins));
        assert_eq!(catalog.len(), 2);
        assert_eq!(catalog.callable().count(), 2);
        let [winner, other] = [wins, then].map(|text| text.split_once(' ').unwrap().0);
        let without = catalog.without(&BackendName::new(winner));
        assert_eq!(called(&without, "same").as_deref(), Some(then));
        assert!(without.former_backend("same").is_none());
        let none = without.without(&BackendName::new(other));
        assert!(none.is_empty());
        assert_eq!(none.former_backend("same").map(|backend| backend.as_str()), Some(other));
        assert!(none.with(source("c", &[("same", "3")])).former_backend("same").is_none());
        assert_eq!(
            called(&catalog, "same").as_deref(),
            Some(wins),
            "the old snapshot is unchanged"
        );
    }
}

#[test]
fn a_replaced_source_keeps_its_position() {
    let catalog = CatalogSnapshot::default()
        .with(source("a", &[("same", "1")]))
        .with(source("b", &[("same", "2")]))
        .with(source("a", &[("same", "3"), ("same", "4"), ("new", "")]));
    assert_eq!(called(&catalog, "same").as_deref(), Some("b 2"));
    let backends: Vec<_> = catalog.sources().map(|source| source.backend.to_string()).collect();
    assert_eq!(backends, ["a", "b"]);
    let alone = catalog.without(&BackendName::new("b"));
    assert_eq!(called(&alone, "same").as_deref(), Some("a 4"));
    assert_eq!(alone.callable().count(), 2);
}

fn found(catalog: &CatalogSnapshot, query: &str) -> Vec<String> {
    let ranked = catalog.ranker(catalog.index().all()).search(query, |_, _| true, None, None, 10);
    assert_eq!(ranked.total, ranked.found.len());
    ranked.found.iter().map(|found| found.entry.description.to_string()).collect()
}

#[test]
fn search_follows_catalog_changes() {
    let first = CatalogSnapshot::default().with(source("a", &[("read_file", "Read a file")]));
    assert_eq!(found(&first, "read file"), ["Read a file"]);
    let second = first
        .with(source("b", &[("read_file", "Read another file"), ("send_mail", "Send mail")]))
        .with(source("c", &[("list_pods", "List pods")]));
    assert_eq!(found(&second, "read file"), ["Read another file"], "a shadowed tool is not found");
    assert_eq!(found(&second.without(&BackendName::new("b")), "read file"), ["Read a file"]);
    assert_eq!(found(&second.without(&BackendName::new("b")), "send mail"), [""; 0]);
    assert_eq!(found(&first, "read file"), ["Read a file"]);
    let ranker = second.ranker(second.index().all());
    let hidden = ranker.search("pods", |source, _| source.backend.as_str() != "c", None, None, 10);
    assert!(hidden.found.is_empty() && hidden.total == 0);
    assert!(matches!(hidden.verdict, SearchVerdict::NoSuchTool { .. }));
}

#[test]
fn the_tools_of_the_gateway_change_no_score_of_others() {
    let others = CatalogSnapshot::default()
        .with(source(
            "a",
            &[("list_files", "List the files of a folder"), ("send_mail", "Send mail")],
        ))
        .with(source("b", &[("list_events", "List events"), ("create_event", "Create an event")]));
    let own = [
        ("core_service_list", "List all services"),
        ("core_config_get", "Show the configuration"),
        ("core_events", "List the events of the gateway"),
    ];
    let with_own = others.with(source_for(ToolAudience::Operators, "core", &own));
    let scores = |catalog: &CatalogSnapshot, query: &str| -> Vec<(String, f32)> {
        let ranker = catalog.ranker(catalog.index().without_gateway());
        let found = ranker.search(query, |_, _| true, None, None, 10).found;
        found.iter().map(|found| (found.entry.name.to_string(), found.score)).collect()
    };
    for query in ["list events", "list all files", "servise list", "show me the configuration"] {
        assert_eq!(scores(&with_own, query), scores(&others, query), "{query}");
    }
    assert_eq!(found(&with_own, "configuration"), ["Show the configuration"]);
    let backend = BackendName::new("core");
    let index = with_own.index_with_descriptions([&backend].into_iter(), |_| "Weather");
    assert!(index.without_gateway().len() == 4 && index.all().len() == 7);
    let without = with_own.without(&backend);
    assert_eq!(found(&without, "configuration"), [""; 0]);
}

#[test]
fn the_tools_of_the_gateway_are_searched_without_looking_at_others() {
    let many: Vec<(String, String)> = (0..2_000)
        .map(|number| (format!("list_{number}"), format!("List the services of area {number}")))
        .collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, words)| (name.as_str(), words.as_str())).collect();
    let own = [("core_service_list", "List all services"), ("core_config_get", "Show settings")];
    let catalog = CatalogSnapshot::default().with(source("a", &many)).with(source_for(
        ToolAudience::Operators,
        "core",
        &own,
    ));
    let asked = Cell::new(0);
    let is_own = |source: &CatalogSource, _: &Arc<ToolEntry>| {
        asked.set(asked.get() + 1);
        source.backend.as_str() == "core"
    };
    let search = |index: &Index| {
        let ranked = catalog.ranker(index).search("list services", is_own, None, None, 10);
        let found = ranked.found.iter();
        let scores: Vec<_> = found.map(|one| (one.entry.name.to_string(), one.score)).collect();
        (scores, ranked.total, ranked.verdict == SearchVerdict::Found)
    };
    let by_admission = search(catalog.index().all());
    assert!(!by_admission.0.is_empty() && by_admission.2);
    asked.set(0);
    assert_eq!(search(catalog.index().for_gateway()), by_admission);
    assert!(asked.get() < 10, "asked {} times", asked.get());
}

#[test]
fn replaced_descriptions_are_searched() {
    let catalog =
        CatalogSnapshot::default().with(source("a", &[("x", "Read a file"), ("y", "Mail")]));
    let words = |entry: &'_ ToolEntry| if &*entry.local_name == "x" { "Weather" } else { "Mail" };
    let backend = BackendName::new("a");
    let index = catalog.index_with_descriptions([&backend].into_iter(), words);
    let names = |query: &str| -> Vec<String> {
        let found = catalog.ranker(index.all()).search(query, |_, _| true, None, None, 10).found;
        found.iter().map(|found| found.entry.name.to_string()).collect()
    };
    assert_eq!(names("weather"), ["x"]);
    assert_eq!(names("file"), [""; 0]);
}
