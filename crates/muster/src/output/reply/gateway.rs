//! Events and the configuration of the gateway.

use muster_api::{
    config::{ConfigInfo, ConfigProblem},
    event::EventInfo,
};

use super::ReplyView;
use crate::output::{
    format::OutputStyle,
    properties,
    table::{self, Column},
};

const COLUMNS: &[Column<EventInfo>] = &[
    Column::new("timestamp", |event| event.timestamp.clone()),
    Column::new("type", |event| event.r#type.clone()),
    Column::new("resource_type", |event| event.resource_type.clone()),
    Column::new("resource_name", |event| event.resource_name.clone()),
    Column::new("reason", |event| event.reason.clone()),
    Column::wide("namespace", |event| event.namespace.clone()),
    Column::new("message", |event| event.message.clone()),
];

impl ReplyView for Vec<EventInfo> {
    /// Shows the oldest event first, while replies have the newest first.
    fn show(&self, style: OutputStyle) -> String {
        if self.is_empty() {
            return "No events found".to_owned();
        }
        let events: Self = self.iter().rev().cloned().collect();
        table::list(COLUMNS, &events, style)
    }
}

const PROBLEM_COLUMNS: &[Column<ConfigProblem>] = &[
    Column::new("file", |problem| match problem.line {
        Some(line) => format!("{}:{line}", problem.file),
        None => problem.file.clone(),
    }),
    Column::new("problem", |problem| problem.message.clone()),
    Column::new("fix", |problem| problem.fix.clone()),
];

impl ReplyView for Vec<ConfigProblem> {
    fn show(&self, style: OutputStyle) -> String {
        if self.is_empty() {
            return "No problems found".to_owned();
        }
        table::list(PROBLEM_COLUMNS, self, style)
    }
}

impl ReplyView for ConfigInfo {
    fn show(&self, style: OutputStyle) -> String {
        properties::table(self, &[], style)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::tests::shown;
    use crate::output::format::OutputFormat;

    #[test]
    fn events_of_one_second_stay_in_order() {
        let event = |message: &str, reason: &str| {
            json!({"message": message, "namespace": "default", "reason": reason, "resource_name": "n",
                   "resource_type": "MCPServer", "timestamp": "2026-01-01 00:00:00", "type": "Normal"})
        };
        let reply = json!([event("it is up", "Up"), event("it starts", "Starting")]);
        expect![[r"
            TIMESTAMP             TYPE     RESOURCE_TYPE   RESOURCE_NAME   REASON     MESSAGE
            2026-01-01 00:00:00   Normal   MCPServer       n               Starting   it starts
            2026-01-01 00:00:00   Normal   MCPServer       n               Up         it is up"]]
        .assert_eq(&shown("core_events", &reply, OutputFormat::Table));
        let empty = shown("core_events", &json!([]), OutputFormat::Table);
        assert_eq!(empty, "No events found");
    }

    #[test]
    fn settings() {
        let reply =
            json!({"Aggregator": {"Port": 8090, "OAuth": {"Server": {"Scopes": ["a", "b"]}}}});
        expect![[r"
            PROPERTY                         VALUE
            Aggregator.Port                  8090
            Aggregator.OAuth.Server.Scopes   a, b"]]
        .assert_eq(&shown("core_config_get", &reply, OutputFormat::Table));
    }
}
