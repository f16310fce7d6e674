//! Ranks tools for queries, line by line: what `bench/retrieval/run.py` drives.
//!
//!     rank [FOLDER]
//!
//! Reads JSON lines: `{"tool": {id, server, name, description, input_schema}}` adds a tool,
//! `{"query": text, "without": [ids]}` asks, as if the tools with those ids were hidden. With a model in
//! FOLDER, which embeds the queries, tools must have a `vector`. Writes one JSON line for each query.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
};

use muster_search::{
    document::{Document, parameters},
    encoder::Model,
    index::Index,
    meaning::{Meaning, QueryMeaning},
    search::Place,
    verdict::SearchVerdict,
};
use serde_json::{Value, json};

/// As many as the evaluator looks at.
const LIMIT: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let model = folder.as_deref().map(Model::load).transpose()?;
    let mut tools: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut vectors: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    let mut index = None;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let mut line: Value = serde_json::from_str(&line?)?;
        if let Some(tool) = line.get_mut("tool") {
            let server = text(tool, "server").to_owned();
            let vector = vector(tool);
            if !vector.is_empty() {
                vectors.insert(text(tool, "id").to_owned(), vector);
            }
            tools.entry(server).or_default().push(tool.take());
            continue;
        }
        let index = index.get_or_insert_with(|| index_of(&tools));
        let without = line.get("without").and_then(Value::as_array).into_iter().flatten();
        let without: BTreeSet<&str> = without.filter_map(Value::as_str).collect();
        let id = |place: Place<'_>| {
            let tool = tools.get(place.source).and_then(|tools| tools.get(place.position));
            tool.map_or("", |tool| text(tool, "id"))
        };
        let admit = |place: Place<'_>| !without.contains(id(place));
        let asked = text(&line, "query");
        let vector = |place: Place<'_>| {
            let tool = tools.get(place.source)?.get(place.position)?;
            vectors.get(text(tool, "id")).map(Vec::as_slice)
        };
        let answer = match model.as_ref().and_then(|model| QueryMeaning::of(model, asked)) {
            None => index.search(asked, &admit, LIMIT),
            Some(query) => {
                let meaning = Meaning { query: &query, vector: &vector };
                index.search_meaning(asked, &admit, meaning, None, LIMIT)
            }
        };
        let scores: Vec<f32> = answer.hits.iter().map(|hit| hit.score).collect();
        let matches: Vec<&str> = answer.hits.iter().map(|hit| hit.strength.as_str()).collect();
        let ids: Vec<&str> = answer.hits.iter().map(|hit| id(hit.place)).collect();
        let verdict = match answer.verdict {
            SearchVerdict::Found => "found",
            SearchVerdict::Unsure => "unsure",
            SearchVerdict::NoSuchTool { .. } => "no such tool",
        };
        writeln!(
            out,
            "{}",
            json!({"ids": ids, "scores": scores, "matches": matches, "verdict": verdict, "strength": answer.strength, "absent": answer.absent_products, "alternative": answer.alternative.map(id)})
        )?;
    }
    out.flush()?;
    Ok(())
}

fn index_of(tools: &BTreeMap<String, Vec<Value>>) -> Index {
    tools.iter().fold(Index::default(), |index, (server, tools)| {
        let schema = |tool: &'_ Value| tool.get("input_schema").cloned().unwrap_or_default();
        let schemas: Vec<Value> = tools.iter().map(schema).collect();
        let parameters: Vec<_> = schemas.iter().map(parameters).collect();
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
        index.with(server, &documents)
    })
}

#[expect(clippy::cast_possible_truncation, reason = "as exact as such numbers are")]
fn vector(value: &Value) -> Vec<f32> {
    let numbers = value.get("vector").and_then(Value::as_array).into_iter().flatten();
    numbers.filter_map(Value::as_f64).map(|number| number as f32).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
