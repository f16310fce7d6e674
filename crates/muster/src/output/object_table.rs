//! A list of objects as a table: which columns it has follows from what the objects are.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    cell::{cell, plain},
    format::{OutputFormat, OutputStyle},
    grid::Grid,
};

/// What the columns of a table are chosen by.
struct Columns {
    /// Always, where the first object has them.
    first: &'static [&'static str],
    /// In a wide table, where the first object has them.
    wide: &'static [&'static str],
    /// How many there are at most, unless the table is wide.
    most: usize,
    /// Never to fill up with.
    unwanted: &'static [&'static str],
}

const WIDEST: usize = 10;

const SERVICE: Columns = Columns {
    first: &["health", "state", "service_type"],
    wide: &["endpoint", "tools"],
    most: 4,
    unwanted: &["metadata"],
};
const SERVICE_CLASS: Columns = Columns {
    first: &["available", "serviceType", "description", "requiredTools"],
    wide: &[],
    most: 5,
    unwanted: &[],
};
const SERVER: Columns = Columns {
    first: &["state", "type", "sessionAuth"],
    wide: &["toolsCount", "connectedAt", "url", "command"],
    most: 4,
    unwanted: &[
        "args",
        "command",
        "url",
        "env",
        "headers",
        "timeout",
        "toolPrefix",
        "error",
        "description",
        "auth",
        "health",
        "statusMessage",
        "consecutiveFailures",
        "lastAttempt",
        "nextRetryAfter",
    ],
};
const WORKFLOW: Columns =
    Columns { first: &["status", "description", "steps"], wide: &["args"], most: 6, unwanted: &[] };
const EXECUTION: Columns = Columns {
    first: &["workflow_name", "status", "started_at", "duration_ms"],
    wide: &["completed_at"],
    most: 6,
    unwanted: &[],
};
const EVENT: Columns = Columns {
    first: &["timestamp", "type", "resource_type", "resource_name", "reason", "message"],
    wide: &[],
    most: 6,
    unwanted: &[],
};
const TOOL: Columns =
    Columns { first: &["description"], wide: &["inputSchema"], most: 6, unwanted: &[] };
const RESOURCE: Columns = Columns {
    first: &["uri", "description", "mimeType"],
    wide: &["mimeType"],
    most: 6,
    unwanted: &[],
};
const PROMPT: Columns =
    Columns { first: &["description"], wide: &["arguments"], most: 6, unwanted: &[] };
const ANYTHING: Columns = Columns {
    first: &["status", "type", "description", "available"],
    wide: &["metadata"],
    most: 6,
    unwanted: &[],
};

/// A list as a table; what is no object is shown on a line of its own.
pub fn table(items: &[Value], style: OutputStyle) -> String {
    let Some(first) = items.first() else { return "No items found".to_owned() };
    let Some(first) = first.as_object() else {
        return items.iter().map(plain).collect::<Vec<_>>().join("\n");
    };
    let columns = chosen(first, items, style.format);
    let headings: Vec<&str> = columns.iter().map(|column| heading(column)).collect();
    let mut grid = Grid::new(&headings).headed(style.headings);
    let nothing = Map::new();
    for item in items {
        let row = item.as_object().unwrap_or(&nothing);
        grid.row(columns.iter().map(|column| cell(column, row.get(column), row)));
    }
    grid.sort();
    grid.text()
}

fn heading(column: &str) -> &str {
    if column == "sessionAuth" { "session" } else { column }
}

/// What kind of things they are, by what the first of them has.
fn kind(first: &Map<String, Value>) -> &'static Columns {
    let has = |key: &str| first.contains_key(key);
    let text = |key: &str| first.get(key).and_then(Value::as_str);
    let is_server = matches!(text("type"), Some("stdio" | "streamable-http" | "sse"));
    match () {
        () if has("timestamp") && has("reason") && has("resource_type") => &EVENT,
        () if has("health") && has("state") && !is_server => &SERVICE,
        () if has("workflow_name") && has("started_at") => &EXECUTION,
        () if has("inputSchema") && has("name") && !has("uri") => &TOOL,
        () if has("uri") && (has("mimeType") || has("name")) => &RESOURCE,
        () if has("arguments") && !has("inputSchema") && !has("steps") => &PROMPT,
        () if is_server || has("serverType") => &SERVER,
        () if has("available") && has("serviceType") => &SERVICE_CLASS,
        () if has("steps") || has("workflow") => &WORKFLOW,
        () if has("name") && has("available") && has("description") => &WORKFLOW,
        () => &ANYTHING,
    }
}

fn chosen(first: &Map<String, Value>, items: &[Value], format: OutputFormat) -> Vec<String> {
    let kind = kind(first);
    let is_wide = format == OutputFormat::Wide;
    let most = if is_wide { WIDEST } else { kind.most };
    let mut columns: Vec<String> = Vec::new();
    let take = |column: &str, columns: &mut Vec<String>| {
        if columns.len() < most && !columns.iter().any(|known| known == column) {
            columns.push(column.to_owned());
        }
    };
    let name = ["name", "label", "id", "workflow"].into_iter().find(|key| first.contains_key(*key));
    let wide = if is_wide { kind.wide } else { &[] };
    let listed = name.into_iter().chain(kind.first.iter().copied()).chain(wide.iter().copied());
    for column in listed.filter(|column| first.contains_key(*column)) {
        take(column, &mut columns);
    }
    let members = items.iter().filter_map(Value::as_object).flat_map(Map::keys);
    let rest: BTreeSet<&str> = members.map(String::as_str).collect();
    for column in rest.into_iter().filter(|column| is_wide || !kind.unwanted.contains(column)) {
        take(column, &mut columns);
    }
    columns
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::{OutputFormat, OutputStyle, table};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(format: OutputFormat, items: Value, expect: Expect) {
        let style = OutputStyle { format, headings: true };
        expect.assert_eq(&table(items.as_array().unwrap(), style));
    }

    #[test]
    fn services() {
        let items = json!([
            {"name": "mcp-aggregator", "service_type": "Aggregator", "state": "running",
             "health": "healthy", "metadata": {"port": 1}},
            {"name": "github", "service_type": "MCPServer", "state": "failed", "health": "",
             "error": "x", "metadata": {}},
        ]);
        check(
            OutputFormat::Table,
            items.clone(),
            expect![[r"
                NAME             HEALTH    STATE     SERVICE_TYPE
                github           -         Failed    MCPServer
                mcp-aggregator   healthy   Running   Aggregator"]],
        );
        check(
            OutputFormat::Wide,
            items,
            expect![[r#"
                NAME             HEALTH    STATE     SERVICE_TYPE   ERROR   METADATA
                github           -         Failed    MCPServer      x       [metadata]
                mcp-aggregator   healthy   Running   Aggregator     -       [metadata]"#]],
        );
    }

    #[test]
    fn servers() {
        let items = json!([
            {"name": "k8s", "type": "streamable-http", "autoStart": true, "url": "http://k/mcp",
             "state": "Connected", "timeout": 30, "health": "healthy"},
            {"name": "git", "type": "stdio", "autoStart": false, "command": "git-mcp",
             "state": "Stopped"},
        ]);
        check(
            OutputFormat::Table,
            items.clone(),
            expect![[r"
                NAME   STATE       TYPE              AUTOSTART
                git    Stopped     stdio             No
                k8s    Connected   streamable-http   Yes"]],
        );
        check(
            OutputFormat::Wide,
            items,
            expect![[r"
                NAME   STATE       TYPE              URL            AUTOSTART   COMMAND   HEALTH    TIMEOUT
                git    Stopped     stdio             -              No          git-mcp   -         -
                k8s    Connected   streamable-http   http://k/mcp   Yes         -         healthy   30s"]],
        );
    }

    #[test]
    fn workflows_and_their_runs() {
        check(
            OutputFormat::Table,
            json!([{"name": "deploy", "description": "Ship it", "available": true}]),
            expect![[r"
                NAME     DESCRIPTION   AVAILABLE
                deploy   Ship it       Available"]],
        );
        check(
            OutputFormat::Table,
            json!([{"execution_id": "1-2", "workflow_name": "deploy", "status": "completed",
                    "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:01Z",
                    "duration_ms": 1000}]),
            expect![[r"
                WORKFLOW_NAME   STATUS      STARTED_AT            DURATION_MS   COMPLETED_AT          EXECUTION_ID
                deploy          completed   2026-01-01 00:00:00   1.0s          2026-01-01 00:00:01   1-2"]],
        );
    }

    #[test]
    fn events_stand_in_the_order_of_time() {
        check(
            OutputFormat::Table,
            json!([
                {"message": "b", "namespace": "default", "reason": "R", "resource_name": "n",
                 "resource_type": "MCPServer", "timestamp": "2026-01-02 00:00:00", "type": "Normal"},
                {"message": "a", "namespace": "default", "reason": "R", "resource_name": "n",
                 "resource_type": "MCPServer", "timestamp": "2026-01-01 00:00:00", "type": "Warning"},
            ]),
            expect![[r"
                TIMESTAMP             TYPE      RESOURCE_TYPE   RESOURCE_NAME   REASON   MESSAGE
                2026-01-01 00:00:00   Warning   MCPServer       n               R        a
                2026-01-02 00:00:00   Normal    MCPServer       n               R        b"]],
        );
    }

    #[test]
    fn anything() {
        check(OutputFormat::Table, json!([]), expect!["No items found"]);
        check(OutputFormat::Table, json!(["a", 2]), expect!["a\n2"]);
        check(OutputFormat::Table, json!([{"id": 1, "x": null}]), expect!["ID   X\n1    -"]);
    }
}
