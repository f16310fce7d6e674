//! A page is read by a strict parser, which shares nothing with its writer.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use muster_core::observer::CallStatus;

use super::{GatewayGauges, METRICS, MetricsFormat, seconds};
use crate::{
    Telemetry,
    fixture::{entry, finished},
};

/// The samples of one family: name and labels, and the value.
type Samples = Vec<(String, BTreeMap<String, String>, f64)>;

/// Parses a page, and panics where it breaks a rule of the format.
fn parse(page: &str, format: MetricsFormat) -> BTreeMap<String, (String, Samples)> {
    let mut families: BTreeMap<String, (String, Samples)> = BTreeMap::new();
    let mut current = String::new();
    let mut lines = page.lines().peekable();
    let mut seen = BTreeSet::new();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert!(format == MetricsFormat::OpenMetrics && lines.peek().is_none());
            return families;
        }
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(!text.is_empty() && is_name(name), "{line}");
            let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
            let (of, kind) = kind.split_once(' ').unwrap();
            assert_eq!(of, name);
            current = name.to_owned();
            let before = families.insert(current.clone(), (kind.to_owned(), Vec::new()));
            assert!(before.is_none(), "{name} twice");
            continue;
        }
        assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line} twice");
        let (name, labels, value) = sample(line);
        let (kind, samples) = families.get_mut(&current).unwrap();
        let suffixes: &[&str] = match (kind.as_str(), format) {
            ("counter", MetricsFormat::OpenMetrics) => &["_total"],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line}"));
        assert!(suffixes.contains(&suffix), "{line}");
        if format == MetricsFormat::Prometheus && kind == "counter" {
            assert!(name.ends_with("_total"), "{line}");
        }
        samples.push((name, labels, value));
    }
    assert_eq!(format, MetricsFormat::Prometheus, "no EOF");
    families
}

fn is_name(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let mut text = String::new();
            let mut letters = value.char_indices();
            let end = loop {
                match letters.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => text.push(match letters.next().unwrap().1 {
                        'n' => '\n',
                        letter @ ('\\' | '"') => letter,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, letter) => text.push(letter),
                }
            };
            assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
            rest = value.get(end + 1..).unwrap();
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    (name.to_owned(), labels, rest.strip_prefix(' ').unwrap().parse().unwrap())
}

fn telemetry() -> Telemetry {
    let telemetry = Telemetry::default();
    let observer = telemetry.observer();
    for (server, tool, status, micros) in [
        ("git", "x_git_log", CallStatus::Ok, Some(1_500)),
        ("git", "x_git_log", CallStatus::Failed, Some(700_000)),
        ("a\"b\\c\nd", "odd", CallStatus::Denied, None),
    ] {
        let tool = entry(server, tool);
        if micros.is_some() {
            observer.running(&tool);
        }
        observer.finished(finished(Some(&tool), status, micros));
    }
    observer.finished(finished(None, CallStatus::Unknown, None));
    telemetry
}

fn gauges() -> GatewayGauges {
    GatewayGauges {
        version: "1.2.3",
        servers: [("connected", 2), ("failed", 1)].into(),
        tools: [("git".to_owned(), 7)].into(),
        sessions: 3,
        connections: 4,
        accepted: 50,
        upstream_connections: 6,
    }
}

#[test]
fn both_formats_are_strictly_valid() {
    for format in [MetricsFormat::Prometheus, MetricsFormat::OpenMetrics] {
        let page = telemetry().page(&gauges(), format);
        let families = parse(&page, format);
        for metric in METRICS {
            let suffix = match format {
                MetricsFormat::Prometheus if metric.kind.as_str() == "counter" => "_total",
                _ => "",
            };
            let (kind, samples) = &families[&format!("{}{suffix}", metric.name)];
            assert_eq!(kind, metric.kind.as_str());
            for (name, labels, _) in samples {
                let expected: BTreeSet<&str> = metric.labels.iter().copied().collect();
                let found = labels.keys().map(String::as_str).filter(|label| *label != "le");
                assert_eq!(found.collect::<BTreeSet<_>>(), expected, "{name}");
            }
        }
        let (_, buckets) = &families["muster_call_duration_seconds"];
        let numbers: Vec<f64> = buckets.iter().map(|(_, _, value)| *value).collect();
        let (cumulative, rest) = numbers.split_at(numbers.len() - 2);
        assert!(cumulative.is_sorted());
        assert_eq!((cumulative[cumulative.len() - 1], rest[1]), (2.0, 2.0));
        assert!((rest[0] - 0.7015).abs() < 1e-9, "{rest:?}");
    }
}

#[test]
fn calls_are_labelled() {
    let page = telemetry().page(&gauges(), MetricsFormat::Prometheus);
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("muster_calls")).collect();
    expect![[r#"
        muster_calls_total{server="a\"b\\c\nd",tool="odd",status="denied"} 1
        muster_calls_total{server="git",tool="x_git_log",status="ok"} 1
        muster_calls_total{server="git",tool="x_git_log",status="failed"} 1
        muster_calls_total{server="",tool="other",status="unknown"} 1
        muster_calls_running{server="a\"b\\c\nd"} 0
        muster_calls_running{server="git"} 0"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn scrapers_choose_the_format() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
    assert_eq!(MetricsFormat::requested(prometheus), MetricsFormat::OpenMetrics);
    assert_eq!(MetricsFormat::requested("*/*"), MetricsFormat::Prometheus);
}

#[test]
fn durations_are_exact() {
    for (micros, expected) in [
        (0, "0.0"),
        (250, "0.00025"),
        (1_000_000, "1.0"),
        (2_500_000, "2.5"),
        (60_000_001, "60.000001"),
    ] {
        assert_eq!(seconds(micros), expected);
    }
}
