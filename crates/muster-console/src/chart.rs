//! Small charts in SVG, drawn by the server.

use crate::html::{Element, el};

/// The width of charts: that of a narrow screen, so that text is drawn there at about its nominal size.
const WIDTH: u32 = 320;
/// The height of a row: a line of text and a bar below it.
const ROW: u32 = 38;
/// The longest name in characters.
const NAME: usize = 30;

/// A bar with its name, its value, the part of the value that is bad, and its label.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bad: f64,
    pub(crate) label: String,
}

/// Draws horizontal bars.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> Element {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let rows = bars.iter().zip(0_u32..).map(|(bar, at)| {
        let y = at * ROW;
        let rect = |class: &str, value: f64| {
            el("rect")
                .class(class)
                .attr("x", "0")
                .attr("y", (y + 20).to_string())
                .attr("height", "10")
                .attr("rx", "3")
                .attr("width", format!("{:.1}", value.max(0.0) / most * f64::from(WIDTH)))
        };
        el("g")
            .put(labels(y, &bar.name, &bar.label))
            .put((rect("bar", bar.value), (bar.bad > 0.0).then(|| rect("bar bad", bar.bad))))
    });
    svg(title, ROW * u32::try_from(bars.len()).unwrap_or_default()).put(rows.collect::<Vec<_>>())
}

/// A column with its value, the part of the value that is bad, and its tooltip.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) value: f64,
    pub(crate) bad: f64,
    pub(crate) about: String,
}

/// The height of columns, and the space below them for the labels of the axis.
const COLUMN_HEIGHT: u32 = 84;
const AXIS: u32 = 20;

/// Draws vertical columns on a time axis. `ends` are the labels of the axis, and `top` is the label above it.
pub(crate) fn columns(title: &str, columns: &[Column], ends: [&str; 2], top: &str) -> Element {
    let count = u32::try_from(columns.len()).unwrap_or(1).max(1);
    let most = columns.iter().map(|column| column.value).fold(0.0, f64::max);
    let pitch = f64::from(WIDTH) / f64::from(count);
    let drawn = columns.iter().zip(0_u32..).map(|(column, at)| {
        let rect = |class: &str, value: f64| {
            let height =
                if most > 0.0 { value / most * f64::from(COLUMN_HEIGHT - 18) } else { 0.0 };
            let height = if value > 0.0 { height.max(2.0) } else { 0.0 };
            el("rect")
                .class(class)
                .attr("x", format!("{:.1}", f64::from(at) * pitch + 1.0))
                .attr("y", format!("{:.1}", f64::from(COLUMN_HEIGHT) - height))
                .attr("width", format!("{:.1}", (pitch - 3.0).max(1.0)))
                .attr("height", format!("{height:.1}"))
                .attr("rx", "2")
        };
        let bad = (column.bad > 0.0).then(|| rect("bar bad", column.bad));
        el("g").put(el("title").put(&column.about)).put((rect("bar", column.value), bad))
    });
    let base = format!("M0 {COLUMN_HEIGHT}.5h{WIDTH}");
    let last =
        word("about", WIDTH, COLUMN_HEIGHT + 16, ends[1].to_owned()).attr("text-anchor", "end");
    svg(title, COLUMN_HEIGHT + AXIS)
        .put(el("path").class("base").attr("d", base))
        .put(drawn.collect::<Vec<_>>())
        .put((word("about", 0, COLUMN_HEIGHT + 16, ends[0].to_owned()), last))
        .put(word("about", 0, 10, top.to_owned()))
}

fn svg(title: &str, height: u32) -> Element {
    el("svg")
        .class("chart")
        .attr("viewBox", format!("0 0 {WIDTH} {height}"))
        .attr("role", "img")
        .put(el("title").put(title))
}

/// The labels of a row: its name at the left end and its value at the right end.
fn labels(y: u32, name: &str, value: &str) -> (Element, Element) {
    let value = word("value", WIDTH, y + 14, value.to_owned()).attr("text-anchor", "end");
    (word("name", 0, y + 14, shortened(name, NAME)), value)
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

/// Draws rows of steps. Each row runs after the one above it, and the steps of a row run in parallel.
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
            // Names may be cut.
            let full = el("title").put(format!("{}: {}", node.name, node.about));
            drawn.push(el("g").put(full).put((edge, frame, words)));
        }
    }
    chart.put(drawn)
}

/// A span of time since the start of a timeline. All spans of a timeline must use the same unit.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) length: u64,
    pub(crate) is_bad: bool,
    pub(crate) label: String,
}

/// Draws spans on a time axis.
#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
pub(crate) fn timeline(title: &str, spans: &[Span]) -> Element {
    let end = spans.iter().map(|span| span.from + span.length).max().unwrap_or_default().max(1);
    let scaled = |value: u64| value as f64 / end as f64 * f64::from(WIDTH);
    let chart = svg(title, ROW * u32::try_from(spans.len()).unwrap_or_default());
    let rows = spans.iter().zip(0_u32..).map(|(span, at)| {
        let y = at * ROW;
        let bar = el("rect")
            .class(if span.is_bad { "bar bad" } else { "bar" })
            .attr("x", format!("{:.1}", scaled(span.from)))
            .attr("y", (y + 20).to_string())
            .attr("height", "10")
            .attr("rx", "3")
            .attr("width", format!("{:.1}", scaled(span.length).max(2.0)));
        el("g").put(labels(y, &span.name, &span.label)).put(bar)
    });
    chart.put(rows.collect::<Vec<_>>())
}
