//! Services, service classes, and whether they can be used.

use muster_api::{
    Availability, UnavailableServer,
    service::{ServiceHealth, ServiceInfo, ServiceList, ServiceStatus},
    service_class::{ClassArg, LifecycleToolInfo, ServiceClassInfo, ServiceClassList},
};
use muster_core::text::shell_quoted;
use serde_json::{Value, json};

use super::{ReplyView, section, state_word, with_notes};
use crate::output::{
    format::OutputStyle,
    properties,
    table::{self, Column, Table},
};

const COLUMNS: &[Column<ServiceStatus>] = &[
    Column::new("name", |service| service.name.clone()),
    Column::new("health", |service| health(service.health).to_owned()),
    Column::new("state", |service| state_word(service.state)),
    Column::new("service_type", |service| service.service_type.clone()),
    Column::wide("tools", |service| member(service, "tools")),
    Column::wide("endpoint", |service| {
        let found = ["endpoint", "url", "command"].iter().map(|key| member(service, key));
        found.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }),
    Column::wide("error", |service| service.error.clone().unwrap_or_default()),
];

const fn health(health: ServiceHealth) -> &'static str {
    match health {
        ServiceHealth::Unknown => "-",
        known => known.as_str(),
    }
}

fn member(service: &ServiceStatus, key: &str) -> String {
    service.metadata.get(key).map(properties::text).unwrap_or_default()
}

/// Sorts by name, ignoring case.
fn sorted<T: Clone>(items: &[T], name: fn(&T) -> &str) -> Vec<T> {
    let mut items = items.to_vec();
    items.sort_by_key(|item| name(item).to_lowercase());
    items
}

impl ReplyView for ServiceList {
    fn show(&self, style: OutputStyle) -> String {
        table::list(COLUMNS, &sorted(&self.services, |service| &service.name), style)
    }
}

impl ReplyView for ServiceStatus {
    fn show(&self, style: OutputStyle) -> String {
        let mut details = self.metadata.clone();
        // Leave out the metadata of servers that repeats the facts above.
        details.retain(|key, _| !["name", "state", "health", "error"].contains(&key.as_str()));
        let facts = json!({
            "name": self.name,
            "service_type": self.service_type,
            "state": state_word(self.state),
            "health": self.health,
            "error": self.error,
        });
        let mut rows = properties::rows(&facts);
        rows.extend(properties::rows(&details));
        rows.extend(properties::rows(&json!({"outputs": self.outputs})));
        properties::of_rows(["property", "value"], rows, style)
    }
}

impl ReplyView for ServiceInfo {
    fn show(&self, style: OutputStyle) -> String {
        let mut shown = json!(self);
        if let Some(members) = shown.as_object_mut() {
            members.insert("state".to_owned(), state_word(self.state).into());
        }
        properties::table(&shown, &["name", "serviceClassName", "state", "health"], style)
    }
}

/// The row with the servers whose tools are missing and their states.
pub(super) fn unavailable(servers: &[UnavailableServer]) -> Option<(String, String)> {
    let line = |server: &UnavailableServer| {
        let UnavailableServer { server, state, reason, .. } = server;
        let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{server} ({}){reason}", state_word(*state))
    };
    let lines: Vec<String> = servers.iter().map(line).collect();
    (!lines.is_empty()).then(|| ("servers".to_owned(), lines.join("\n")))
}

impl ReplyView for Availability {
    fn show(&self, style: OutputStyle) -> String {
        let available = if self.available { "Available" } else { "Unavailable" };
        let mut rows = vec![
            ("available".to_owned(), available.to_owned()),
            ("name".to_owned(), self.name.clone()),
        ];
        if !self.missing_tools.is_empty() {
            rows.push(("missing tools".to_owned(), self.missing_tools.join("\n")));
        }
        rows.extend(unavailable(&self.unavailable));
        properties::of_rows(["property", "value"], rows, style)
    }
}

const CLASS_COLUMNS: &[Column<ServiceClassInfo>] = &[
    Column::new("name", |class| class.name.clone()),
    Column::new("available", |class| {
        if class.available { "Available" } else { "Unavailable" }.to_owned()
    }),
    Column::cut("description", 50, |class| class.description.clone()),
    Column::cut("required_tools", 60, |class| class.required_tools.join(", ")),
    Column::wide("missing_tools", |class| class.missing_tools.join(", ")),
    Column::wide("args", |class| {
        class.args.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }),
];

impl ReplyView for ServiceClassList {
    fn show(&self, style: OutputStyle) -> String {
        match self.service_classes.as_deref().unwrap_or_default() {
            [] => "No service classes found".to_owned(),
            classes => {
                let classes = sorted(classes, |class| &class.name);
                let lacking = classes.iter().find(|class| !class.available);
                let why = lacking.map(|class| {
                    let name = shell_quoted(&class.name);
                    format!("Why one is unavailable: muster check serviceclass {name}")
                });
                with_notes(table::list(CLASS_COLUMNS, &classes, style), why, style)
            }
        }
    }
}

impl ReplyView for ServiceClassInfo {
    fn show(&self, style: OutputStyle) -> String {
        let config = &self.service_config;
        let (check, timeout) = (&config.health_check, &config.timeout);
        let facts = json!({
            "name": self.name,
            "description": self.description,
            "available": if self.available { "Available" } else { "Unavailable" },
            "missing tools": self.missing_tools,
            "default name": config.default_name,
            "dependencies": config.dependencies,
            "health check": if check.enabled { "enabled" } else { "disabled" },
            "health check interval": duration(check.interval),
            "failure threshold": positive(check.failure_threshold),
            "success threshold": positive(check.success_threshold),
            "start timeout": duration(timeout.create),
            "stop timeout": duration(timeout.delete),
            "health check timeout": duration(timeout.health_check),
            "outputs": config.outputs,
        });
        let mut page = vec![properties::table(&facts, &[], style)];
        let mut arguments = Table::new(["argument", "type", "description", "required"], style);
        for (name, ClassArg { kind, required, default, description }) in &self.args {
            let about = described(description, default.as_ref());
            let required = if *required { "Yes" } else { "No" };
            arguments.row([name.clone(), kind.clone(), about, required.to_owned()]);
        }
        section(&mut page, "Arguments", &arguments);
        let mut tools = Table::new(["stage", "tool", "details"], style);
        let lifecycle = &config.lifecycle_tools;
        let calls: [(&str, Option<&LifecycleToolInfo>); 4] = [
            ("start", Some(&lifecycle.start)),
            ("stop", Some(&lifecycle.stop)),
            ("restart", lifecycle.restart.as_ref()),
            ("status", lifecycle.status.as_ref()),
        ];
        for (stage, call) in calls {
            let Some(LifecycleToolInfo { tool, args, outputs }) = call else { continue };
            let details = details(&json!({"args": args, "outputs": outputs}));
            tools.row([stage.to_owned(), tool.clone(), details]);
        }
        if let Some(check) = &lifecycle.health_check {
            let details = details(
                &json!({"args": check.args, "expect": check.expect, "expect_not": check.expect_not}),
            );
            tools.row(["health check".to_owned(), check.tool.clone(), details]);
        }
        section(&mut page, "Lifecycle Tools", &tools);
        page.join("\n\n")
    }
}

/// The description of an argument with its default value.
pub(super) fn described(description: &str, default: Option<&Value>) -> String {
    let default = default.filter(|value| !value.is_null()).map(properties::text);
    let default = default.map(|value| format!(" (default: {value})")).unwrap_or_default();
    format!("{description}{default}").trim_start().to_owned()
}

/// The members of a value, one per line.
pub(super) fn details(value: &Value) -> String {
    let lines = properties::rows(value).into_iter().map(|(name, value)| format!("{name}: {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats nanoseconds as seconds; `None` for zero, which stands for the default.
fn duration(nanoseconds: u64) -> Option<String> {
    let seconds = std::time::Duration::from_nanos(nanoseconds).as_secs_f64();
    (nanoseconds > 0).then(|| format!("{seconds} s"))
}

fn positive(number: i64) -> Option<i64> {
    Some(number).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::tests::shown;
    use crate::output::format::OutputFormat;

    #[test]
    fn services() {
        let reply = json!({"total": 2, "services": [
            {"name": "mcp-aggregator", "service_type": "Aggregator", "state": "running",
             "health": "healthy", "metadata": {"tools": 3, "endpoint": "http://h/mcp"}},
            {"name": "GitHub", "service_type": "MCPServer", "state": "auth_required", "health": "unknown",
             "error": "x", "metadata": {"command": "gh", "url": ""}},
        ]});
        expect![[r"
            NAME             HEALTH    STATE           SERVICE_TYPE
            GitHub           -         Auth Required   MCPServer
            mcp-aggregator   healthy   Running         Aggregator"]]
        .assert_eq(&shown("core_service_list", &reply, OutputFormat::Table));
        expect![[r"
            NAME             HEALTH    STATE           SERVICE_TYPE   TOOLS   ENDPOINT       ERROR
            GitHub           -         Auth Required   MCPServer      -       gh             x
            mcp-aggregator   healthy   Running         Aggregator     3       http://h/mcp   -"]]
        .assert_eq(&shown("core_service_list", &reply, OutputFormat::Wide));
    }

    #[test]
    fn availability() {
        let reply = json!({"available": false, "name": "w", "missing_tools": ["x_a", "x_b"]});
        expect![[r"
            PROPERTY        VALUE
            available       Unavailable
            name            w
            missing tools   x_a
                            x_b"]]
        .assert_eq(&shown("core_workflow_available", &reply, OutputFormat::Table));
    }

    #[test]
    fn service_classes() {
        let class = json!({"name": "web", "description": "A web server", "available": true,
            "args": {"port": {"type": "integer", "default": 80}},
            "requiredTools": ["x_run", "x_end"],
            "serviceConfig": {"timeout": {"create": 1_500_000_000_u64}, "lifecycleTools": {
                "start": {"tool": "x_run", "args": {"port": "{{ .args.port }}"}, "outputs": {"id": "$.id"}},
                "stop": {"tool": "x_end", "args": null}}}});
        expect![[r"
            NAME   AVAILABLE   DESCRIPTION    REQUIRED_TOOLS
            web    Available   A web server   x_run, x_end"]]
        .assert_eq(&shown(
            "core_serviceclass_list",
            &json!({"serviceClasses": [class]}),
            OutputFormat::Table,
        ));
        expect![[r#"
            PROPERTY        VALUE
            name            web
            description     A web server
            available       Available
            health check    disabled
            start timeout   1.5 s

            Arguments:
            ARGUMENT   TYPE      DESCRIPTION     REQUIRED
            port       integer   (default: 80)   No

            Lifecycle Tools:
            STAGE   TOOL    DETAILS
            start   x_run   args.port: {{ .args.port }}
                            outputs.id: $.id
            stop    x_end"#]]
        .assert_eq(&shown("core_serviceclass_get", &class, OutputFormat::Table));
    }
}
