//! Tests of which tools are embedded, and which vectors come from the cache.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use muster_core::{
    catalog::{BackendInfo, CatalogSnapshot, CatalogSource, Offer, ToolAudience, ToolEntry},
    name::{BackendName, ToolName},
    schema,
};
use muster_search::meaning::Embed;

use super::{FINGERPRINT_TEXT, Progress, ToolEmbeddings, VectorCache};
use crate::dispatch::GatewaySnapshot;

/// Counts how many texts it embeds.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Embed for Counting {
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let tools = texts.iter().filter(|text| **text != FINGERPRINT_TEXT).count();
        self.0.fetch_add(tools, Ordering::Relaxed);
        texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect()
    }
}

fn state(tools: &[&str]) -> GatewaySnapshot {
    let entry = |name: &&str| ToolEntry {
        name: ToolName::new(format!("x_{name}")),
        backend: BackendName::new("b"),
        local_name: (*name).into(),
        description: "Does it".into(),
        input_schema: schema::input_schema(&[]).into(),
        params: None,
        definition: None,
        effect: None,
        validator: Arc::default(),
        audience: ToolAudience::default(),
    };
    let about = BackendInfo {
        title: Arc::from("b"),
        description: Arc::from(""),
        category: None,
        tags: Arc::from([]),
    };
    let offer = Offer { tools: tools.iter().map(entry).collect(), ..Offer::default() };
    let source = CatalogSource::new(BackendName::new("b"), about, offer);
    GatewaySnapshot {
        catalog: CatalogSnapshot::default().with(source),
        ..GatewaySnapshot::default()
    }
}

/// A gateway that has just started: its only cache is the file.
fn started(model: &Arc<Counting>, file: &Path) -> Thinking {
    let model = Arc::clone(model);
    let embeddings = ToolEmbeddings::new(Box::new(move || Some(model.clone())));
    Thinking(embeddings.cached_in(file.to_owned()), None)
}

/// A gateway with its cache.
struct Thinking(ToolEmbeddings, Option<VectorCache>);

impl Thinking {
    fn embed_all(&mut self, state: &GatewaySnapshot) {
        while matches!(self.0.embed_some(state, &mut self.1), Progress::Some) {}
    }
}

#[test]
fn nothing_is_embedded_twice_not_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors");
    let model = Arc::new(Counting::default());
    let names: Vec<String> = (0..40).map(|number| format!("tool_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asked = || model.0.load(Ordering::Relaxed);

    let mut first = started(&model, &file);
    first.embed_all(&state(&names));
    assert_eq!(asked(), 40);
    first.embed_all(&state(&[]));
    assert!(first.0.known().is_empty());
    first.embed_all(&state(&names));
    assert_eq!((asked(), first.0.known().len()), (40, 40), "a server that came back");

    let mut second = started(&model, &file);
    second.embed_all(&state(&[&names[..], &["one_more"]].concat()));
    assert_eq!((asked(), second.0.known().len()), (41, 41), "a gateway that started again");
    let vector =
        |thinking: &Thinking| thinking.0.known()[&ToolName::new("x_tool_7")].vector.clone();
    assert_eq!(vector(&first), vector(&second));
}

#[test]
fn without_a_file_it_works_as_well() {
    let model = Arc::new(Counting::default());
    let folder = tempfile::tempdir().unwrap();
    let mut embeddings = started(&model, folder.path());
    embeddings.embed_all(&state(&["a", "b"]));
    assert_eq!(embeddings.0.known().len(), 2, "a folder is in the way of the file");
}
