//! The status of every definition, for stores that hold statuses beside definitions.
//!
//! It is level-triggered, like `status_files`: a state that lasts only a moment is not reported, unless it is the first
//! state of a definition.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_config::{Severity, kinds::DefinitionKind};
use muster_gateway::{condition::ServerCondition, dispatch::GatewaySnapshot};
use muster_workflow::{Workflow, service::ServiceRecord};
use serde_json::{Map, Value as Json, json};
use tokio::{sync::watch, time::sleep};

use crate::{
    services::missing_tools,
    store::{ConfigStore, DefinitionStatus, StatusCondition},
    view::{ServerEntry, View},
};

/// The longest message of a condition, in characters.
const LONGEST_MESSAGE: usize = 4096;

/// The current status of a definition.
struct CurrentStatus {
    status: DefinitionStatus,
    /// Whether it is the status of a server between two stable states.
    is_transitional: bool,
}

impl CurrentStatus {
    /// Whether it should be reported after `reported`.
    fn follows(&self, reported: Option<&DefinitionStatus>) -> bool {
        match reported {
            // The state that follows is reported soon.
            Some(reported) if self.is_transitional => reported.generation != self.status.generation,
            reported => reported != Some(&self.status),
        }
    }
}

/// Reports statuses until shutdown.
pub(crate) async fn keep(
    store: Arc<ConfigStore>,
    mut views: watch::Receiver<Arc<View>>,
    states: watch::Receiver<Arc<GatewaySnapshot>>,
    pause: Duration,
) {
    let mut reported: BTreeMap<PathBuf, DefinitionStatus> = BTreeMap::new();
    while views.changed().await.is_ok() {
        sleep(pause).await;
        let view = Arc::clone(&views.borrow_and_update());
        let Some(sink) = store.definitions().status() else { return };
        let state = Arc::clone(&states.borrow());
        for (path, current) in statuses(&view, &state) {
            if current.follows(reported.get(&path)) {
                sink.report(&path, current.status.clone());
                reported.insert(path, current.status);
            }
        }
        reported.retain(|path, _| view.generations.contains_key(path));
    }
}

/// The statuses by path.
fn statuses(view: &View, state: &GatewaySnapshot) -> BTreeMap<PathBuf, CurrentStatus> {
    let servers: BTreeMap<&Path, &Arc<ServerEntry>> =
        view.servers.values().map(|entry| (entry.path.as_path(), entry)).collect();
    let mut errors: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    for found in view.problems.iter().filter(|found| found.severity == Severity::Error) {
        errors.entry(found.path.as_path()).or_default().push(match &found.fix {
            Some(fix) => format!("{} ({fix})", found.message),
            None => found.message.clone(),
        });
    }
    let status = |(path, generation): (&PathBuf, &i64)| {
        let errors = errors.get(path.as_path()).map_or(&[][..], Vec::as_slice);
        let mut status = DefinitionStatus {
            generation: Some(*generation),
            fields: Map::new(),
            conditions: vec![accepted(errors)],
        };
        let mut is_transitional = false;
        match kind(path) {
            Some(DefinitionKind::McpServer) => {
                if let Some(entry) = servers.get(path.as_path()) {
                    is_transitional = entry.status.condition.is_transitional();
                    let stored = entry.status.stored(entry.server.spec.kind);
                    if let Ok(Json::Object(fields)) = serde_json::to_value(stored) {
                        status.fields = fields;
                    }
                    status.conditions.push(ready(entry));
                } else if !errors.is_empty() {
                    // No gateway runs it, whatever its status said before.
                    status.fields.insert("state".to_owned(), json!("Failed"));
                    let error = shortened(&errors.join("; "));
                    status.fields.insert("lastError".to_owned(), json!(error));
                    status.conditions.push(invalid());
                }
            }
            Some(DefinitionKind::Workflow) => {
                let workflow = name(path).and_then(|name| view.workflows.get(name));
                status.fields = checked(errors);
                if let Some(workflow) = workflow {
                    status.fields.insert("referencedTools".to_owned(), json!(tools(workflow)));
                    let steps = workflow.spec.steps.len();
                    status.fields.insert("stepCount".to_owned(), json!(steps));
                    let is_known = |tool: &str| state.catalog.get(tool).is_some();
                    let find = |name: &str| view.workflows.get(name).map(|found| &**found);
                    status.conditions.push(usable(&workflow.missing_tools(find, is_known)));
                } else if !errors.is_empty() {
                    status.conditions.push(invalid());
                }
            }
            Some(DefinitionKind::ServiceClass) => {
                status.fields = checked(errors);
                if let Some(file) = view.classes.values().find(|file| file.path == *path) {
                    let tools = file.class.spec.required_tools();
                    status.fields.insert("referencedTools".to_owned(), json!(tools));
                    status.conditions.push(usable(&missing_tools(state, &file.class.spec)));
                } else if !errors.is_empty() {
                    status.conditions.push(invalid());
                }
            }
            // Services report their readiness when they are registered, and with each state.
            Some(
                DefinitionKind::Service
                | DefinitionKind::Cli
                | DefinitionKind::Policy
                | DefinitionKind::Toolset,
            )
            | None => (),
        }
        (path.clone(), CurrentStatus { status, is_transitional })
    };
    view.generations.iter().map(status).collect()
}

/// The condition that says whether a service is running.
pub(crate) fn service_ready(record: &ServiceRecord) -> StatusCondition {
    let (holds, reason) = match record.state.as_str() {
        "running" => (true, "Running"),
        "waiting" | "starting" => (false, "Starting"),
        "stopping" => (false, "Stopping"),
        "stopped" => (false, "Stopped"),
        "failed" | "retrying" => (false, "Failed"),
        _ => (false, "Unknown"),
    };
    let message = match (holds, record.last_error.is_empty()) {
        (true, _) => "the service is running".to_owned(),
        (false, true) => "the service is not running".to_owned(),
        (false, false) => shortened(&record.last_error),
    };
    StatusCondition { kind: "Ready", holds, reason, message }
}

/// The kind of the definition at a path, which begins with its plural.
fn kind(path: &Path) -> Option<DefinitionKind> {
    let plural = path.components().next()?.as_os_str();
    DefinitionKind::ALL.into_iter().find(|kind| plural == kind.plural())
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn accepted(errors: &[String]) -> StatusCondition {
    match errors.is_empty() {
        true => StatusCondition {
            kind: "Accepted",
            holds: true,
            reason: "Valid",
            message: "the definition is in use".to_owned(),
        },
        false => StatusCondition {
            kind: "Accepted",
            holds: false,
            reason: "Invalid",
            message: shortened(&errors.join("; ")),
        },
    }
}

fn ready(entry: &ServerEntry) -> StatusCondition {
    let status = &entry.status;
    let (holds, reason) = match status.condition {
        _ if status.needs_login => (false, "LoginRequired"),
        ServerCondition::Running | ServerCondition::Connected => (true, "Connected"),
        ServerCondition::AuthRequired => (false, "LoginRequired"),
        ServerCondition::AwaitingApproval => (false, "AwaitingApproval"),
        ServerCondition::Failed => (false, "Failed"),
        ServerCondition::Unreachable => (false, "Unreachable"),
        ServerCondition::Starting => (false, "Starting"),
        ServerCondition::Stopping => (false, "Stopping"),
        ServerCondition::Stopped | ServerCondition::Disconnected => (false, "Stopped"),
    };
    let error = entry.status.stored(entry.server.spec.kind).last_error;
    let message = match (holds, error.is_empty()) {
        (true, _) => "the server is connected".to_owned(),
        (false, true) => "the server is not connected".to_owned(),
        (false, false) => shortened(&error),
    };
    StatusCondition { kind: "Ready", holds, reason, message }
}

/// The condition of a definition that no gateway can use.
fn invalid() -> StatusCondition {
    StatusCondition {
        kind: "Ready",
        holds: false,
        reason: "Invalid",
        message: "the definition is invalid".to_owned(),
    }
}

/// The condition that says whether the tools of a workflow or a service class can be called now.
fn usable(missing: &[String]) -> StatusCondition {
    let (holds, reason, message) = match missing.is_empty() {
        true => (true, "Available", "all its tools can be called".to_owned()),
        false => (false, "ToolsMissing", shortened(&format!("not there: {}", missing.join(", ")))),
    };
    StatusCondition { kind: "Ready", holds, reason, message }
}

fn checked(errors: &[String]) -> Map<String, Json> {
    let mut fields = Map::new();
    fields.insert("valid".to_owned(), json!(errors.is_empty()));
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(|error| shortened(error)).collect();
        fields.insert("validationErrors".to_owned(), json!(errors));
    }
    fields
}

fn tools(workflow: &Workflow) -> Vec<String> {
    let mut tools: Vec<String> = workflow.reachable_tools().map(str::to_owned).collect();
    tools.sort();
    tools.dedup();
    tools
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

    use jiff::Timestamp;
    use muster_config::{Severity, mcpserver, serviceclass};
    use muster_gateway::{condition::ServerCondition, dispatch::GatewaySnapshot};
    use muster_workflow::service::ServiceRecord;
    use serde_json::json;

    use super::{CurrentStatus, service_ready, statuses};
    use crate::{
        circuit_breaker::CircuitBreaker,
        status::ServerStatus,
        store::{ClassFile, FileProblem, StatusCondition},
        view::{Counts, ServerEntry, View},
    };

    fn view(path: &str) -> View {
        View {
            generations: Arc::new(BTreeMap::from([(PathBuf::from(path), 3)])),
            ..View::default()
        }
    }

    /// The only status of a view.
    fn current(view: &View) -> CurrentStatus {
        statuses(view, &GatewaySnapshot::default()).into_values().next().unwrap()
    }

    /// Type, status and reason of conditions.
    fn shown(conditions: &[StatusCondition]) -> Vec<(&str, bool, &str)> {
        conditions.iter().map(|found| (found.kind, found.holds, found.reason)).collect()
    }

    fn refused(path: &str) -> View {
        let problem = FileProblem {
            path: PathBuf::from(path),
            line: None,
            message: "spec.type: no".to_owned(),
            fix: None,
            severity: Severity::Error,
        };
        View { problems: Arc::new([problem]), ..view(path) }
    }

    fn with_server(condition: ServerCondition) -> View {
        let server = mcpserver::parse("url: http://h/mcp\n", "a").unwrap().value;
        let status = ServerStatus { condition, ..ServerStatus::idle(server.spec.kind) };
        let path = PathBuf::from("mcpservers/a");
        let entry = ServerEntry {
            server: Arc::new(server),
            path,
            secret_changes: 0,
            status,
            since: Timestamp::UNIX_EPOCH,
            counts: Counts::default(),
            breaker: CircuitBreaker::new("a", 5),
        };
        View {
            servers: BTreeMap::from([("a".to_owned(), Arc::new(entry))]),
            ..view("mcpservers/a")
        }
    }

    #[test]
    fn a_definition_that_cannot_be_used_is_not_ready() {
        let found = current(&refused("mcpservers/a")).status;
        assert_eq!(found.fields["state"], "Failed");
        assert_eq!(found.fields["lastError"], "spec.type: no");
        let expected = [("Accepted", false, "Invalid"), ("Ready", false, "Invalid")];
        assert_eq!(shown(&found.conditions), expected);
        for path in ["workflows/a", "serviceclasses/a"] {
            assert_eq!(shown(&current(&refused(path)).status.conditions), expected, "{path}");
        }
    }

    #[test]
    fn a_server_that_starts_is_accepted() {
        let starting = current(&with_server(ServerCondition::Starting));
        assert_eq!(
            shown(&starting.status.conditions),
            [("Accepted", true, "Valid"), ("Ready", false, "Starting")]
        );
        assert_eq!(starting.status.fields["state"], "Connecting");
        assert!(starting.follows(None));
        let connected = current(&with_server(ServerCondition::Connected));
        assert!(connected.follows(Some(&starting.status)));
        assert!(!connected.follows(Some(&connected.status)));
        // A transitional state is not reported for a definition that has a status.
        assert!(!starting.follows(Some(&connected.status)));
        let mut before = connected.status;
        before.generation = Some(2);
        assert!(starting.follows(Some(&before)));
    }

    #[test]
    fn a_class_is_ready_when_its_tools_are_there() {
        let with_tools = |tools: &str| {
            let text = format!("serviceConfig: {{lifecycleTools: {tools}}}\n");
            let class = serviceclass::parse(&text, "db").unwrap().value;
            let path = PathBuf::from("serviceclasses/db");
            let file = ClassFile { path, class: Arc::new(class) };
            let classes = Arc::new(BTreeMap::from([("db".to_owned(), file)]));
            current(&View { classes, ..view("serviceclasses/db") }).status
        };
        let missing = with_tools("{start: {tool: x_a}, stop: {tool: x_b}}");
        assert_eq!(
            shown(&missing.conditions),
            [("Accepted", true, "Valid"), ("Ready", false, "ToolsMissing")]
        );
        assert_eq!(missing.fields["referencedTools"], json!(["x_a", "x_b"]));
        let there = with_tools("{start: {tool: core_a}, stop: {tool: core_b}}");
        assert_eq!(shown(&there.conditions)[1], ("Ready", true, "Available"));
    }

    #[test]
    fn a_service_is_ready_while_it_runs() {
        for (state, holds, reason) in [
            ("running", true, "Running"),
            ("waiting", false, "Starting"),
            ("retrying", false, "Failed"),
            ("stopped", false, "Stopped"),
            ("unknown", false, "Unknown"),
        ] {
            let last_error = "no".to_owned();
            let record =
                ServiceRecord { state: state.to_owned(), last_error, ..ServiceRecord::default() };
            let found = service_ready(&record);
            assert_eq!(shown(std::slice::from_ref(&found)), [("Ready", holds, reason)]);
            assert_eq!(found.message == "no", !holds, "{state}");
        }
    }
}
