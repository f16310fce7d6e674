//! How fast tools are found, and what that costs: `rank_speed DIR` with `tools.jsonl` and
//! `queries.jsonl` in it.
//!
//! Catalogs of a given size are made of the tools there, over and over, under new servers. Each query
//! is asked several times and its fastest answer counts, since a busy machine only ever adds time.

use std::{
    error::Error,
    fs,
    hint::black_box,
    io::{self, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use muster_search::{
    document::{Document, parameters},
    index::Index,
};
use serde_json::Value;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const ROUNDS: usize = 5;
/// How many tools a server has.
const SERVER: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: rank_speed DIR")?;
    let tools = lines(&Path::new(&folder).join("tools.jsonl"))?;
    let queries = lines(&Path::new(&folder).join("queries.jsonl"))?;
    let queries: Vec<&str> = queries.iter().map(|query| text(query, "query")).collect();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| tools | search p50 | p99 | max | substring scan p50 | scan ÷ search | build | one server of {SERVER} changes, p50 | mean | memory |\n|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for size in SIZES {
        let catalog: Vec<&Value> = tools.iter().cycle().take(size).collect();
        let parameters: Vec<_> = catalog
            .iter()
            .map(|tool| tool.get("input_schema").map(parameters).unwrap_or_default())
            .collect();
        let documents: Vec<Document<'_>> = catalog
            .iter()
            .zip(&parameters)
            .map(|(tool, parameters)| Document {
                name: text(tool, "name"),
                server: text(tool, "server"),
                description: text(tool, "description"),
                parameters,
                ..Document::default()
            })
            .collect();
        let start = Instant::now();
        let mut index = Index::default();
        for (number, tools) in documents.chunks(SERVER).enumerate() {
            index = index.with(&format!("server{number}"), tools);
        }
        let build = start.elapsed();
        let changes = changes(&index, &documents);
        let mut found: Vec<Duration> = queries
            .iter()
            .map(|query| fastest(|| drop(black_box(index.search(query, &|_| true, 10)))))
            .collect();
        let haystacks: Vec<String> = documents
            .iter()
            .map(|one| format!("{} {} {}", one.name, one.description, one.server).to_lowercase())
            .collect();
        let mut scanned: Vec<Duration> =
            queries.iter().map(|query| fastest(|| scan(&haystacks, query))).collect();
        found.sort_unstable();
        scanned.sort_unstable();
        let (p50, scan) = (at(&found, 0.5), at(&scanned, 0.5));
        writeln!(
            out,
            "| {size} | {p50:.1?} | {:.1?} | {:.1?} | {scan:.1?} | {:.1} | {build:.0?} | {:.0?} | {:.0?} | {:.1} MB |",
            at(&found, 0.99),
            at(&found, 1.0),
            scan.as_secs_f64() / p50.as_secs_f64(),
            at(&changes, 0.5),
            changes.iter().sum::<Duration>() / changes.len() as u32,
            index.bytes() as f64 / 1e6,
        )?;
    }
    Ok(())
}

/// The time to update the index when one server's list changes, for each server in turn.
fn changes(index: &Index, documents: &[Document<'_>]) -> Vec<Duration> {
    const CHANGES: usize = 200;
    let mut index = index.clone();
    let mut times = Vec::new();
    let servers: Vec<_> = documents.chunks(SERVER).enumerate().collect();
    // In steps that meet every server once before any one again, and no neighbours.
    for change in 0..CHANGES {
        let Some((number, tools)) = servers.get(change * 7 % servers.len()) else { continue };
        let start = Instant::now();
        index = index.with(&format!("server{number}"), tools);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times
}

/// What a search costs that looks for the longest word of the query in every tool.
fn scan(haystacks: &[String], query: &str) {
    let word = query.split_whitespace().max_by_key(|word| word.len()).unwrap_or_default();
    let word = word.to_lowercase();
    let found: Vec<usize> = haystacks
        .iter()
        .enumerate()
        .filter(|(_, haystack)| haystack.contains(&word))
        .map(|(at, _)| at)
        .collect();
    black_box(found);
}

fn fastest(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..ROUNDS).map(once).min().unwrap_or_default()
}

fn at(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share) as usize).copied().unwrap_or_default()
}

fn lines(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
