//! What is embedded, and what is remembered instead.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use muster_core::{
    catalog::{About, Entry, Offer, Snapshot, Source},
    name::{BackendName, ToolName},
    ranking::meaning::Embed,
    schema,
};

use super::{Meanings, Progress, SIGN};
use crate::dispatch::State;

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Embed for Counting {
    fn embed(&self, text: &str) -> Vec<f32> {
        if text != SIGN {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        vec![text.len() as f32, 1.0]
    }
}

fn state(tools: &[&str]) -> State {
    let entry = |name: &&str| Entry {
        name: ToolName::new(format!("x_{name}")),
        backend: BackendName::new("b"),
        local_name: (*name).into(),
        description: "Does it".into(),
        input_schema: schema::input_schema(&[]).into(),
        params: None,
        definition: None,
        validator: Arc::default(),
    };
    let about = About {
        title: Arc::from("b"),
        description: Arc::from(""),
        category: None,
        tags: Arc::from([]),
    };
    let offer = Offer { tools: tools.iter().map(entry).collect(), ..Offer::default() };
    let source = Source::new(BackendName::new("b"), about, offer);
    State { catalog: Snapshot::default().with(source), ..State::default() }
}

/// A gateway's start: what it remembers is in the file alone.
fn started(model: &Arc<Counting>, file: &Path) -> Meanings {
    let model = Arc::clone(model);
    Meanings::new(Box::new(move || Some(model.clone()))).kept_in(file.to_owned())
}

fn embed_all(meanings: &Meanings, state: &State) {
    while matches!(meanings.embed_some(state), Progress::Some) {}
}

#[test]
fn nothing_is_embedded_twice_not_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors");
    let model = Arc::new(Counting::default());
    let names: Vec<String> = (0..40).map(|number| format!("tool_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asked = || model.0.load(Ordering::Relaxed);

    let first = started(&model, &file);
    embed_all(&first, &state(&names));
    assert_eq!(asked(), 40);
    embed_all(&first, &state(&[]));
    assert!(first.known().is_empty());
    embed_all(&first, &state(&names));
    assert_eq!((asked(), first.known().len()), (40, 40), "a server that came back");

    let second = started(&model, &file);
    embed_all(&second, &state(&[&names[..], &["one_more"]].concat()));
    assert_eq!((asked(), second.known().len()), (41, 41), "a gateway that started again");
    let vector = |meanings: &Meanings| meanings.known()[&ToolName::new("x_tool_7")].vector.clone();
    assert_eq!(vector(&first), vector(&second));
}

#[test]
fn without_a_file_it_works_as_well() {
    let model = Arc::new(Counting::default());
    let folder = tempfile::tempdir().unwrap();
    let meanings = started(&model, folder.path());
    embed_all(&meanings, &state(&["a", "b"]));
    assert_eq!(meanings.known().len(), 2, "a folder is in the way of the file");
}
