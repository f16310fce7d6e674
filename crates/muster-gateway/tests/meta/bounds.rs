//! Replies are short, however large the catalog is.

use muster_core::catalog::{Offer, ToolEntry};
use serde_json::Value;

use crate::gateway::{Gateway, listed, plain};

const MOST_BYTES: usize = 96 * 1024;

fn tools(count: usize) -> Vec<ToolEntry> {
    let schema = format!(
        r#"{{"type":"object","properties":{{"text":{{"description":"{}"}}}}}}"#,
        "long ".repeat(200)
    );
    let entry = |number: usize| {
        let description = format!(
            "Tool number {number} reads things of kind {}\n{}",
            number % 97,
            "x".repeat(300)
        );
        plain("many", &format!("core_tool_{number:05}"), &description, &schema)
    };
    (0..count).map(entry).collect()
}

fn gateway(count: usize) -> Gateway {
    Gateway::new().with_tools("many", tools(count), "{}")
}

#[test]
fn ten_thousand_tools_come_in_pages() {
    let gateway = gateway(10_000);
    for (tool, arguments) in [
        ("list_tools", "{}"),
        ("list_tools", r#"{"limit":1000000}"#),
        ("list_core_tools", "{}"),
        ("list_core_tools", r#"{"include_schema":false}"#),
        ("filter_tools", r#"{"pattern":"*","limit":10000}"#),
        ("filter_tools", r#"{"query":"core tool things","limit":10000,"include_schema":true}"#),
        ("filter_tools", r#"{"description_filter":"THINGS","limit":10000}"#),
    ] {
        let text = gateway.text(tool, arguments);
        assert!(text.len() <= MOST_BYTES, "{tool} {arguments}: {}", text.len());
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["total"], 10_000, "{tool} {arguments}");
        assert_eq!(answer["truncated"], true);
        let shown = answer["tools"].as_array().unwrap().len();
        assert_eq!(answer["next_offset"], shown);
        assert!(answer["note"].as_str().unwrap().contains(&format!("offset={shown}")));
    }
    assert!(gateway.text("list_tools", "{}").len() < 12_000);
    assert!(gateway.text("filter_tools", r#"{"query":"things"}"#).len() < 1_500);
    let echoed = gateway.text("filter_tools", &format!(r#"{{"query":"{}"}}"#, "q".repeat(10_000)));
    assert!(echoed.len() < 1_000);
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let gateway = gateway(1_000);
    let mut names: Vec<String> = Vec::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let arguments = format!(r#"{{"limit":1000000,"include_schema":true,"offset":{at}}}"#);
        let page = gateway.json("filter_tools", &arguments);
        let tools = page["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        offset = page["next_offset"].as_u64();
    }
    assert_eq!(names.len(), 1_000);
    assert!(names.is_sorted());
}

#[test]
fn a_tool_too_long_for_any_page_is_shown_short() {
    let schema = format!(r#"{{"type":"object","description":"{}"}}"#, "s".repeat(200_000));
    let tools = vec![plain("big", "big", "Big", &schema), plain("big", "small", "Small", "{}")];
    let gateway = Gateway::new().with_tools("big", tools, "{}");
    let found = gateway.json("filter_tools", r#"{"include_schema":true}"#);
    assert_eq!(found["tools"][0]["summary"], "Big");
    assert_eq!(found["tools"][1]["description"], "Small");
}

#[test]
fn ten_thousand_resources_and_prompts_come_in_pages() {
    let many = |kind: &str| {
        let one = |number: usize| {
            let name = format!("{kind}://{number:05}");
            listed("many", &name, &name, r#"{"name":"n","description":"one of many"}"#)
        };
        (0..10_000).map(one).collect::<Vec<_>>()
    };
    let offer = Offer { resources: many("r"), prompts: many("p"), ..Offer::default() };
    let gateway =
        Gateway::new().with("many", offer, |_| panic!("not called"), |_| panic!("not asked"));
    for tool in ["list_resources", "list_prompts"] {
        let text = gateway.text(tool, r#"{"limit":10000}"#);
        assert!(text.len() <= MOST_BYTES, "{}", text.len());
        let (list, note) = text.split_once("\n---\n").unwrap();
        let shown = serde_json::from_str::<Vec<Value>>(list).unwrap().len();
        assert!(note.starts_with(&format!("{shown} of 10000 ")), "{note}");
    }
}
