//! Substring search: filters and the names that they accept.

use std::sync::Arc;

use crate::{
    catalog::{
        Audience, BackendInfo, CatalogSnapshot, CatalogSource, Offer, ToolEntry, search::ToolFilter,
    },
    name::{BackendName, ToolName},
    schema,
};

fn source(
    title: &str,
    category: Option<&str>,
    tags: &[&str],
    tools: &[(&str, &str)],
) -> CatalogSource {
    let backend = BackendName::new(title);
    let info = BackendInfo {
        title: title.into(),
        description: "never searched".into(),
        category: category.map(Into::into),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
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
        audience: Audience::default(),
    });
    let offer = Offer { tools: entries.collect(), ..Offer::default() };
    CatalogSource::new(backend, info, offer)
}

fn catalog() -> CatalogSnapshot {
    let git = [("git_status", "Show the tree"), ("git_log", "List commits")];
    CatalogSnapshot::default()
        .with(source("git-tools", Some("vcs"), &["Version-Control", "history"], &git))
        .with(source("Docker", Some("Containers"), &[], &[("docker_ps", "List containers")]))
        .with(source("notes", None, &["straße"], &[("note", "ΟΔΟΣ")]))
        .with(source("blank", Some(""), &["tag"], &[("empty", "")]))
}

const ALL: [&str; 5] = ["git_status", "git_log", "docker_ps", "note", "empty"];

fn names(catalog: &CatalogSnapshot, filter: &ToolFilter) -> Vec<String> {
    catalog.search(filter).map(|(_, entry)| entry.name.to_string()).collect()
}

#[track_caller]
fn check(query: Option<&str>, category: Option<&str>, cli: Option<&str>, expect: &[&str]) {
    assert_eq!(names(&catalog(), &ToolFilter::new(query, category, cli)), expect);
}

#[track_caller]
fn check_query(query: &str, expect: &[&str]) {
    check(Some(query), None, None, expect);
}

#[test]
fn empty_filters_accept_everything_in_load_order() {
    check(None, None, None, &ALL);
    check(Some(""), None, None, &ALL);
    check(None, Some(""), Some(""), &ALL);
}

#[test]
fn a_query_matches_a_substring_of_any_field_in_any_case() {
    check_query("GIT_STA", &["git_status"]);
    check_query("list", &["git_log", "docker_ps"]);
    check_query("dock", &["docker_ps"]);
    check_query("git-TOOLS", &["git_status", "git_log"]);
    check_query("vc", &["git_status", "git_log"]);
    check_query("version-control", &["git_status", "git_log"]);
    check_query("container", &["docker_ps"]);
    check_query("nowhere", &[]);
    check_query("never searched", &[]);
}

#[test]
fn a_query_is_taken_literally_and_not_trimmed() {
    check_query("git.log", &[]);
    check_query("git*", &[]);
    check_query("^git", &[]);
    check_query("list ", &["git_log", "docker_ps"]);
    check_query(" list", &["git_log", "docker_ps"]);
    check_query("vcs ", &["git_status", "git_log"]);
    check_query("containers ", &["docker_ps"]);
    check_query("history ", &[]);
}

#[test]
fn a_query_may_span_adjacent_fields() {
    check_query("git_log list", &["git_log"]);
    check_query("commits git-tools vcs version-control history", &["git_log"]);
    check_query("list git_log", &[]);
    // An empty category adds no second space.
    check_query("blank tag", &["empty"]);
    check_query("empty  blank", &["empty"]);
}

#[test]
fn letters_are_only_lowercased() {
    check_query("οδος", &["note"]);
    check_query("ΟΔΟΣ", &["note"]);
    check_query("οδοσ", &[]);
    check_query("STRAßE", &["note"]);
    check_query("strasse", &[]);
}

#[test]
fn category_and_title_match_exactly() {
    check(None, Some("VCS"), None, &["git_status", "git_log"]);
    check(None, Some("containers"), None, &["docker_ps"]);
    check(None, Some("vc"), None, &[]);
    check(None, Some(" vcs"), None, &[]);
    check(None, None, Some("docker"), &["docker_ps"]);
    check(None, None, Some("git"), &[]);
    check(None, Some("notes"), None, &[]);
}

#[test]
fn filters_are_combined_with_and() {
    check(Some("list"), Some("vcs"), None, &["git_log"]);
    check(Some("list"), None, Some("docker"), &["docker_ps"]);
    check(None, Some("vcs"), Some("docker"), &[]);
    check(Some("list"), Some("vcs"), Some("git-tools"), &["git_log"]);
    check(Some(""), Some("containers"), Some(""), &["docker_ps"]);
}

#[test]
fn the_last_of_equal_names_is_found() {
    let second = source("again", Some("new"), &[], &[("git_status", "Replaced"), ("last", "")]);
    let catalog = catalog().with(second);
    let check = |query: &str, category: Option<&str>, expect: &[&str]| {
        assert_eq!(names(&catalog, &ToolFilter::new(Some(query), category, None)), expect);
    };
    check("", None, &["git_log", "docker_ps", "note", "empty", "git_status", "last"]);
    check("show the tree", None, &[]);
    check("replaced", None, &["git_status"]);
    check("git_status", Some("vcs"), &[]);
    check("git_status", Some("new"), &["git_status"]);
    let twice = source("twice", None, &[], &[("a", "first"), ("b", ""), ("a", "second")]);
    let catalog = CatalogSnapshot::default().with(twice);
    assert_eq!(names(&catalog, &ToolFilter::default()), ["b", "a"]);
    assert_eq!(names(&catalog, &ToolFilter::new(Some("first"), None, None)), [""; 0]);
}
