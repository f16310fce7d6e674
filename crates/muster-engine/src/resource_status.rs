//! The status of every definition, for stores that hold statuses beside definitions.
//!
//! It is level-triggered, like `status_files`: a state that lasts only a moment is not reported.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_config::{Severity, kinds::DefinitionKind};
use muster_gateway::{condition::ServerCondition, dispatch::GatewaySnapshot};
use muster_workflow::Workflow;
use serde_json::{Map, Value as Json, json};
use tokio::{sync::watch, time::sleep};

use crate::{
    store::{ConfigStore, DefinitionStatus, StatusCondition},
    view::{ServerEntry, View},
};

/// The longest message of a condition, in characters.
const LONGEST_MESSAGE: usize = 4096;

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
        let now = statuses(&view, &state);
        for (path, status) in &now {
            if reported.get(path) != Some(status) {
                sink.report(path, status.clone());
            }
        }
        // What is in transition has no status now, but may have one that was reported.
        reported.retain(|path, _| view.generations.contains_key(path));
        reported.extend(now);
    }
}

/// The statuses by path. A server between two states has none.
fn statuses(view: &View, state: &GatewaySnapshot) -> BTreeMap<PathBuf, DefinitionStatus> {
    let servers: BTreeMap<&Path, &Arc<ServerEntry>> =
        view.servers.values().map(|known| (known.path.as_path(), known)).collect();
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
        match kind(path) {
            Some(DefinitionKind::McpServer) => {
                if let Some(known) = servers.get(path.as_path()) {
                    if known.status.condition.is_transitional() {
                        return None;
                    }
                    let stored = known.status.stored(known.server.spec.kind);
                    if let Ok(Json::Object(fields)) = serde_json::to_value(stored) {
                        status.fields = fields;
                    }
                    status.conditions.push(ready(known));
                }
            }
            Some(DefinitionKind::Workflow) => {
                let workflow = name(path).and_then(|name| view.workflows.get(name));
                status.fields = checked(errors);
                if let Some(workflow) = workflow {
                    status.fields.insert("referencedTools".to_owned(), json!(tools(workflow)));
                    let steps = workflow.spec.steps.len();
                    status.fields.insert("stepCount".to_owned(), json!(steps));
                    let known = |tool: &str| state.catalog.get(tool).is_some();
                    let find = |name: &str| view.workflows.get(name).map(|found| &**found);
                    status.conditions.push(usable(&workflow.missing_tools(find, known)));
                }
            }
            Some(DefinitionKind::ServiceClass) => {
                status.fields = checked(errors);
                if let Some(known) = view.classes.values().find(|known| known.path == *path) {
                    let tools = known.class.spec.required_tools();
                    status.fields.insert("referencedTools".to_owned(), json!(tools));
                }
            }
            Some(
                DefinitionKind::Service
                | DefinitionKind::Cli
                | DefinitionKind::Policy
                | DefinitionKind::Toolset,
            )
            | None => (),
        }
        Some((path.clone(), status))
    };
    view.generations.iter().filter_map(status).collect()
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

fn ready(known: &ServerEntry) -> StatusCondition {
    let status = &known.status;
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
    let error = known.status.stored(known.server.spec.kind).last_error;
    let message = match (holds, error.is_empty()) {
        (true, _) => "the server is connected".to_owned(),
        (false, true) => "the server is not connected".to_owned(),
        (false, false) => shortened(&error),
    };
    StatusCondition { kind: "Ready", holds, reason, message }
}

/// Whether a workflow can be executed now.
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
