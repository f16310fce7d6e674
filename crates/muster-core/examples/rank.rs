//! Ranks tools for queries, line by line: the bridge between `bench/retrieval/run.py` and the ranker.
//!
//! Reads JSON lines: `{"tool": {id, server, name, description, input_schema}}` adds a tool,
//! `{"query": text, "without": [ids]}` asks. Writes one JSON line for each query.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    io::{self, BufRead as _, Write as _},
};

use muster_core::ranking::{
    document::{Document, parameters},
    index::Index,
};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut tools: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut index = None;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let mut line: Value = serde_json::from_str(&line?)?;
        if let Some(tool) = line.get_mut("tool") {
            let server = text(tool, "server").to_owned();
            tools.entry(server).or_default().push(tool.take());
            continue;
        }
        let index = index.get_or_insert_with(|| index_of(&tools));
        let without: BTreeSet<&str> = line
            .get("without")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let id = |source: &str, position: usize| {
            tools
                .get(source)
                .and_then(|tools| tools.get(position))
                .map_or("", |tool| text(tool, "id"))
        };
        let hits = index.search(
            text(&line, "query"),
            &|place| !without.contains(id(place.source, place.position)),
            100,
        );
        let ids: Vec<&str> =
            hits.iter().map(|hit| id(hit.place.source, hit.place.position)).collect();
        let mut answer = json!({"ids": ids});
        if line.get("explain").is_some() {
            answer["why"] =
                json!(hits.iter().take(5).map(|hit| format!("{hit:?}")).collect::<Vec<_>>());
        }
        writeln!(out, "{answer}")?;
    }
    out.flush()?;
    Ok(())
}

fn index_of(tools: &BTreeMap<String, Vec<Value>>) -> Index {
    let mut index = Index::default();
    for (server, tools) in tools {
        let nothing = Value::Null;
        let parameters: Vec<_> = tools
            .iter()
            .map(|tool| parameters(tool.get("input_schema").unwrap_or(&nothing)))
            .collect();
        let documents: Vec<_> = tools
            .iter()
            .zip(&parameters)
            .map(|(tool, parameters)| Document {
                name: text(tool, "name"),
                server,
                description: text(tool, "description"),
                parameters,
                ..Document::default()
            })
            .collect();
        index = index.with(server, &documents);
    }
    index
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
