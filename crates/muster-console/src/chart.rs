//! Small charts in SVG, drawn by the server.

use crate::html::{Element, el};

const WIDTH: u32 = 520;
const ROW: u32 = 26;
/// Where bars begin, and how much room they have.
const LEFT: u32 = 160;
const ROOM: u32 = 290;
/// The longest name in characters.
const NAME: usize = 21;

/// A bar: its name, its value, the part of it that is bad, and its label.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bad: f64,
    pub(crate) label: String,
}

/// Horizontal bars.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> Element {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let rows = bars.iter().zip(0_u32..).map(|(bar, at)| {
        let y = at * ROW;
        let rect = |class: &str, value: f64| {
            el("rect")
                .class(class)
                .attr("x", LEFT.to_string())
                .attr("y", (y + 7).to_string())
                .attr("height", "12")
                .attr("rx", "3")
                .attr("width", format!("{:.1}", value.max(0.0) / most * f64::from(ROOM)))
        };
        el("g")
            .put(word("name", 0, y + 17, shortened(&bar.name, NAME)))
            .put((rect("bar", bar.value), (bar.bad > 0.0).then(|| rect("bar bad", bar.bad))))
            .put(word("value", LEFT + ROOM + 10, y + 17, bar.label.clone()))
    });
    svg(title, ROW * u32::try_from(bars.len()).unwrap_or_default()).put(rows.collect::<Vec<_>>())
}

fn svg(title: &str, height: u32) -> Element {
    el("svg")
        .class("chart")
        .attr("viewBox", format!("0 0 {WIDTH} {height}"))
        .attr("role", "img")
        .put(el("title").put(title))
}

fn word(class: &str, x: u32, y: u32, text: String) -> Element {
    el("text").class(class).attr("x", x.to_string()).attr("y", y.to_string()).put(text)
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A step in a graph.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) about: String,
}

const NODE: u32 = 46;
const GAP: u32 = 26;
const MARGIN: u32 = 12;

/// Rows of steps, each after the one above; steps in one row run in parallel.
pub(crate) fn graph(title: &str, rows: &[Vec<Node>]) -> Element {
    let count = |length: usize| u32::try_from(length).unwrap_or_default();
    let height = count(rows.len()) * (NODE + GAP) + 4;
    let chart = svg(title, height);
    let mut drawn = Vec::new();
    for (row, at) in rows.iter().zip(0_u32..) {
        let y = 2 + at * (NODE + GAP);
        let width = (WIDTH / count(row.len()).max(1)).saturating_sub(MARGIN).max(40);
        for (node, column) in row.iter().zip(0_u32..) {
            let x = column * (width + MARGIN) + 2;
            let middle = x + width / 2;
            let most = usize::try_from(width / 8).unwrap_or_default();
            let edge = (at > 0).then(|| {
                let line = format!("M{middle} {}v{}m-4 -6l4 6l4 -6", y - GAP, GAP - 3);
                el("path").class("edge").attr("d", line)
            });
            let frame = el("rect")
                .class("node")
                .attr("x", x.to_string())
                .attr("y", y.to_string())
                .attr("width", (width - 4).to_string())
                .attr("height", NODE.to_string())
                .attr("rx", "8");
            let words = (
                word("name", x + 12, y + 19, shortened(&node.name, most)),
                word("about", x + 12, y + 36, shortened(&node.about, most)),
            );
            drawn.push(el("g").put((edge, frame, words)));
        }
    }
    chart.put(drawn)
}

/// A span of time, in milliseconds since the start.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) length: u64,
    pub(crate) is_bad: bool,
    pub(crate) label: String,
}

/// Spans on an axis of time.
#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
pub(crate) fn timeline(title: &str, spans: &[Span]) -> Element {
    let end = spans.iter().map(|span| span.from + span.length).max().unwrap_or_default().max(1);
    let scaled = |value: u64| value as f64 / end as f64 * f64::from(ROOM);
    let chart = svg(title, ROW * u32::try_from(spans.len()).unwrap_or_default());
    let rows = spans.iter().zip(0_u32..).map(|(span, at)| {
        let y = at * ROW;
        let bar = el("rect")
            .class(if span.is_bad { "bar bad" } else { "bar" })
            .attr("x", format!("{:.1}", f64::from(LEFT) + scaled(span.from)))
            .attr("y", (y + 7).to_string())
            .attr("height", "12")
            .attr("rx", "3")
            .attr("width", format!("{:.1}", scaled(span.length).max(2.0)));
        let words = (
            word("name", 0, y + 17, shortened(&span.name, NAME)),
            word("value", LEFT + ROOM + 10, y + 17, span.label.clone()),
        );
        el("g").put((words.0, bar, words.1))
    });
    chart.put(rows.collect::<Vec<_>>())
}
