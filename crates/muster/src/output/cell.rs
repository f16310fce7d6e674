//! One value as the cell of a table, as its column wants it.

use serde_json::{Map, Value};

/// The most bytes of a text that are shown.
const LONGEST: usize = 50;

/// One value as a cell. `row` is the object that it is a member of.
pub fn cell(column: &str, value: Option<&Value>, row: &Map<String, Value>) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else { return "-".to_owned() };
    let text = value.as_str();
    let lower = column.to_lowercase();
    match (lower.as_str(), value) {
        (
            "name" | "label" | "id" | "workflow" | "url" | "command" | "uri" | "endpoint" | "type"
            | "service_type",
            _,
        ) => plain(value),
        ("health" | "status", _) => {
            text.map_or_else(|| plain(value), |text| or_dash(text).to_owned())
        }
        ("available", Value::Bool(is)) => if *is { "Available" } else { "Unavailable" }.to_owned(),
        ("autostart", Value::Bool(is)) => if *is { "Yes" } else { "No" }.to_owned(),
        ("state", Value::String(state)) => state_word(state, row),
        ("sessionauth", Value::String(state)) => match state.as_str() {
            "authenticated" => "Authenticated",
            "auth_required" => "Pending Auth",
            "token_expired" => "Expired",
            "unknown" | "" => "-",
            other => other,
        }
        .to_owned(),
        ("sessionstatus", Value::String(state)) => match state.as_str() {
            "pending_auth" => "Pending Auth".to_owned(),
            "connected" | "disconnected" | "failed" => capitalised(state),
            other => other.to_owned(),
        },
        ("toolscount" | "timeout", Value::Number(number)) if number.as_f64() == Some(0.0) => {
            "-".to_owned()
        }
        ("timeout", Value::Number(number)) => format!("{number}s"),
        ("connectedat" | "started_at" | "completed_at" | "timestamp", Value::String(time)) => {
            moment(time)
        }
        ("duration_ms", Value::Number(number)) => duration(number.as_f64().unwrap_or_default()),
        ("requiredtools" | "tools", Value::Array(tools)) => tool_names(tools),
        ("steps", Value::Array(steps)) if steps.is_empty() => "No steps".to_owned(),
        ("steps", Value::Array(steps)) => format!("{} steps", steps.len()),
        ("metadata", Value::Object(metadata)) => metadata_words(metadata),
        _ => other(value),
    }
}

/// A value as text.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The name of a tool without what all tools of its kind begin with.
pub fn without_prefix(tool: &str) -> &str {
    let prefixes = ["x_kubernetes_", "x_", "core_", "mcp_"];
    prefixes.iter().find_map(|prefix| tool.strip_prefix(prefix)).unwrap_or(tool)
}

/// Text of at most so many bytes, the last three of which say that there was more.
pub fn cut(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let mut end = longest.saturating_sub(3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", text.get(..end).unwrap_or_default())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn other(value: &Value) -> String {
    match value {
        Value::String(text) => cut(&one_line(text), LONGEST),
        Value::Array(items) => match items.as_slice() {
            [] => "[]".to_owned(),
            [one] => plain(one),
            [one, two] => format!("{}, {}", plain(one), plain(two)),
            many => format!("[{} items]", many.len()),
        },
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let named = ["name", "type", "status", "id"].iter().find_map(|key| members.get(*key));
            named.map_or_else(|| format!("{{{} fields}}", members.len()), plain)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => plain(value),
    }
}

/// A cell has one line.
fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim_end).collect::<Vec<_>>().join(" ")
}

/// A word that begins with a capital letter.
pub fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The state of a server depends on whether it is a process of the gateway's.
fn state_word(state: &str, row: &Map<String, Value>) -> String {
    let small = state.to_lowercase();
    let is_local = match row.get("type").and_then(Value::as_str) {
        Some("stdio") => Some(true),
        Some("streamable-http" | "sse") => Some(false),
        Some(_) | None => None,
    };
    let Some(is_local) = is_local else {
        return match small.as_str() {
            "auth_required" => "Auth Required".to_owned(),
            "running" | "connected" | "stopped" | "disconnected" | "starting" | "stopping"
            | "connecting" | "failed" | "unreachable" | "unknown" | "waiting" | "retrying" => {
                capitalised(&small)
            }
            _ => state.to_owned(),
        };
    };
    let (local, remote) = match small.as_str() {
        "running" | "connected" => ("Running", "Connected"),
        "stopped" | "disconnected" => ("Stopped", "Disconnected"),
        "starting" | "connecting" => ("Starting", "Connecting"),
        "stopping" | "disconnecting" => ("Stopping", "Disconnecting"),
        "auth_required" | "auth required" => ("Auth Required", "Auth Required"),
        "failed" => ("Failed", "Failed"),
        "unreachable" => ("Unreachable", "Unreachable"),
        _ => return state.to_owned(),
    };
    if is_local { local } else { remote }.to_owned()
}

/// A moment without its `T`, its fraction and its `Z`.
fn moment(time: &str) -> String {
    let time = time.replacen('T', " ", 1);
    let time = time.split('.').next().unwrap_or_default();
    time.trim_end_matches('Z').to_owned()
}

fn duration(milliseconds: f64) -> String {
    let seconds = milliseconds / 1000.0;
    match milliseconds {
        short if short < 1000.0 => format!("{short}ms"),
        _ if seconds < 60.0 => format!("{seconds:.1}s"),
        _ if seconds < 3600.0 => format!("{:.1}m", seconds / 60.0),
        _ => format!("{:.1}h", seconds / 3600.0),
    }
}

fn tool_names(tools: &[Value]) -> String {
    if tools.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<String> =
        tools.iter().take(2).map(|tool| without_prefix(&plain(tool)).to_owned()).collect();
    let more = tools.len() - shown.len();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} (+{more} more)") }
}

fn metadata_words(metadata: &Map<String, Value>) -> String {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let enabled = metadata.get("enabled").and_then(Value::as_bool);
    let enabled = enabled.map(|is| if is { "enabled" } else { "disabled" }.to_owned());
    let words: Vec<String> = [text("icon"), text("type"), enabled].into_iter().flatten().collect();
    if words.is_empty() { "[metadata]".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{cell, cut};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(column: &str, value: Value, expect: &str) {
        assert_eq!(cell(column, Some(&value), &Map::new()), expect, "{column}");
    }

    #[test]
    fn cells_by_column() {
        check("name", json!("a_very_long_name".repeat(5)), &"a_very_long_name".repeat(5));
        check("description", json!("x".repeat(60)), &format!("{}...", "x".repeat(47)));
        check("health", json!(""), "-");
        check("available", json!(false), "Unavailable");
        check("autoStart", json!(true), "Yes");
        check("state", json!("auth_required"), "Auth Required");
        check("state", json!("Odd"), "Odd");
        check("sessionAuth", json!("token_expired"), "Expired");
        check("toolsCount", json!(0), "-");
        check("toolsCount", json!(3), "3");
        check("timeout", json!(30), "30s");
        check("started_at", json!("2026-02-03T04:05:06.789Z"), "2026-02-03 04:05:06");
        check("duration_ms", json!(12), "12ms");
        check("duration_ms", json!(1500), "1.5s");
        check("duration_ms", json!(90_000), "1.5m");
        check("duration_ms", json!(5_400_000), "1.5h");
        check("requiredTools", json!([]), "none");
        check("requiredTools", json!(["x_a", "core_b", "c"]), "a, b (+1 more)");
        check("steps", json!([1, 2]), "2 steps");
        check("metadata", json!({"icon": "i", "type": "t", "enabled": false}), "i t disabled");
        check("metadata", json!({"x": 1}), "[metadata]");
        check("other", json!([1, 2, 3]), "[3 items]");
        check("other", json!({"id": 7, "x": 1}), "7");
        check("other", json!({"x": 1}), "{1 fields}");
        check("other", json!("two\nlines"), "two lines");
    }

    #[test]
    fn the_state_of_a_server_says_where_it_is() {
        let state = |kind: &str, state: &str| {
            let row = json!({"type": kind});
            cell("state", Some(&json!(state)), row.as_object().unwrap())
        };
        assert_eq!(state("stdio", "Running"), "Running");
        assert_eq!(state("sse", "running"), "Connected");
        assert_eq!(state("stdio", "disconnected"), "Stopped");
        assert_eq!(state("streamable-http", "stopping"), "Disconnecting");
        assert_eq!(state("streamable-http", "Auth Required"), "Auth Required");
    }

    #[test]
    fn cut_between_letters() {
        assert_eq!(cut("ääää", 7), "ää...");
        assert_eq!(cut("abc", 3), "abc");
    }
}
