//! Arguments that a meta-tool does not take. They are refused, because ignoring them silently would mislead agents.

use muster_core::{json::RawObject, suggest};
use serde_json::value::RawValue;

use super::{MetaTool, list_core_tools, page::echo};

/// Keys that agents confuse with the name of a tool, which all meta-tools that take one accept.
pub(super) const NAME_KEYS: [&str; 3] = ["tool_name", "toolName", "tool"];

/// Synonyms: what agents call an argument, and its names here.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["q", "search", "text", "task", "keyword", "keywords", "words"], &["query", "grep"]),
    (&["regex", "regexp", "match", "filter", "find"], &["grep", "pattern"]),
    (&["glob", "name_pattern"], &["pattern"]),
    (&["pattern", "query"], &["grep"]),
    (&["label", "labels", "tag"], &["labels", "tags"]),
    (&["backend", "source", "mcp_server", "mcpserver"], &["server"]),
    (&["description"], &["description_filter"]),
    (&["schema", "schemas", "with_schema"], &["include_schema"]),
    (&["head", "lines", "n", "k", "top_k", "max", "max_results", "page_size"], &["limit"]),
    (&["page", "cursor", "skip", "start", "from"], &["offset"]),
    (&["jsonpath", "json_path", "jq", "select"], &["path"]),
    (&["last", "end"], &["tail"]),
    (&["id", "output", "output_id"], &["handle"]),
    (&["image", "index", "block_number"], &["block"]),
    (&["url", "resource", "address"], &["uri"]),
    (&["tools"], &["names"]),
    (&["prompt"], &["name"]),
    (&["args", "params", "parameters", "input"], &["arguments"]),
    (&["tokens", "budget", "max_length"], &["max_tokens"]),
];

/// Names the first argument that a tool does not take, and the nearest that it does.
pub(super) fn refusal(tool: &MetaTool, given: &RawValue) -> Option<String> {
    let given = RawObject::parse(given)?;
    let schema: &RawValue = serde_json::from_str(tool.input_schema).ok()?;
    let schema = RawObject::parse(schema)?;
    let properties = RawObject::parse(schema.get("properties")?)?;
    let mut valid: Vec<&str> = properties.iter().map(|(key, _)| key).collect();
    // Schemas are short: these are taken wherever they make sense, listed or not.
    let steps = valid.contains(&"steps");
    let calls = steps || valid.contains(&"calls");
    let (finds, shows) = (valid.contains(&"pattern"), valid.contains(&"names"));
    let unlisted = [
        ("limit", valid.contains(&"offset") || valid.contains(&"handle")),
        ("max_tokens", true),
        ("include_schema", finds || shows || tool.name == list_core_tools::TOOL.name),
        ("effect", calls),
        ("input", steps),
        ("args", steps),
        ("description", steps),
        ("onFailure", steps),
        ("on_failure", steps),
        ("case_sensitive", finds),
        ("category", finds),
        ("tags", finds),
    ];
    for (key, _) in unlisted.into_iter().filter(|(_, takes)| *takes) {
        if !valid.contains(&key) {
            valid.push(key);
        }
    }
    let takes = |key: &str| {
        valid.contains(&key)
            || key == "_meta"
            || valid.contains(&"name") && NAME_KEYS.contains(&key)
    };
    let is_given = |value: &RawValue| value.get() != "null";
    let (unknown, _) = given.iter().find(|(key, value)| !takes(key) && is_given(value))?;
    let (name, unknown, all) = (tool.name, echo(unknown), valid.join("`, `"));
    Some(match nearest(unknown, &valid) {
        Some(near) => {
            format!("`{name}` has no argument `{unknown}`; did you mean `{near}`? It takes `{all}`")
        }
        None => format!("`{name}` has no argument `{unknown}`; it takes `{all}`"),
    })
}

fn nearest<'a>(unknown: &str, valid: &[&'a str]) -> Option<&'a str> {
    let is_valid = |name: &&str| valid.iter().copied().find(|known| known == name);
    let word = unknown.to_lowercase();
    let similar = suggest::similar(&word, valid.iter().copied()).into_iter().next();
    similar.or_else(|| {
        let synonyms = SYNONYMS.iter().filter(|(words, _)| words.contains(&&*word));
        synonyms.flat_map(|(_, names)| *names).find_map(is_valid)
    })
}
