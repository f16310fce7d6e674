//! Converts records of executions to resources, and back.

use muster_config::kinds::{API_GROUP, API_VERSION};
use muster_workflow::{
    JsonObject,
    record::{RunRecord, RunState, StepRecord},
    report::StepState,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// The maximum size of a resource. Beyond it the values of the steps are left out, then the steps, then all other
/// values.
const MAX_SIZE: usize = 512 * 1024;
/// The maximum length of an error, in characters.
const MAX_ERROR: usize = 16 * 1024;
/// The prefix of the error of an interrupted execution. Resources have no state for it.
const INTERRUPTED: &str = "interrupted: ";
/// The error of an execution that is closed because its gateway no longer renews the record.
const GONE: &str = "interrupted: the gateway that ran it ended; it is not known which of its steps were carried out";
/// The annotation that the gateway of a running execution renews.
const RENEWED: &str = "muster.giantswarm.io/renewed-at";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    workflow_name: String,
    status: String,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Json::is_null")]
    input: Json,
    #[serde(skip_serializing_if = "Json::is_null")]
    result: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Json::is_null")]
    definition: Json,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Step {
    step_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    tool: String,
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Json::is_null")]
    input: Json,
    #[serde(skip_serializing_if = "Json::is_null")]
    result: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    stored_as: String,
}

/// Converts a record to a resource.
pub(super) fn manifest(namespace: &str, record: RunRecord) -> Json {
    let name = record.execution_id.clone();
    let spec = fitted(Spec::of(record));
    let mut labels = json!({"muster.giantswarm.io/status": spec.status});
    if is_label(&spec.workflow_name)
        && let Json::Object(labels) = &mut labels
    {
        let workflow = Json::String(spec.workflow_name.clone());
        labels.insert("muster.giantswarm.io/workflow".to_owned(), workflow);
    }
    json!({
        "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
        "kind": "WorkflowExecution",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    })
}

/// Converts a resource to a record; `None` if it is malformed.
pub(super) fn record(object: &Json) -> Option<RunRecord> {
    let name = object.pointer("/metadata/name")?.as_str()?.to_owned();
    let spec: Spec = serde_json::from_value(object.get("spec")?.clone()).ok()?;
    let status = match spec.status.as_str() {
        "failed" if is_interrupted(spec.error.as_deref()) => RunState::Interrupted,
        status => RunState::of(status)?,
    };
    Some(RunRecord {
        execution_id: name,
        workflow_name: spec.workflow_name,
        owner: spec.owner,
        status,
        started_at: spec.started_at,
        completed_at: spec.completed_at,
        duration_ms: spec.duration_ms,
        input: members(spec.input),
        definition: spec.definition.as_object().cloned(),
        result: spec.result,
        error: spec.error,
        steps: spec.steps.into_iter().map(Step::record).collect(),
        truncated: spec.truncated,
    })
}

/// Whether the execution of a resource has ended. An interrupted one has not, because it may be continued.
pub(super) fn has_ended(object: &Json) -> bool {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str);
    match text("/spec/status") {
        Some("completed") => true,
        Some("failed") => !is_interrupted(text("/spec/error")),
        Some(_) | None => false,
    }
}

/// The patch that renews the resource of an execution that is still running at `now`.
pub(super) fn renewal(now: &str) -> Json {
    json!({"metadata": {"annotations": {RENEWED: now}}})
}

/// The patch that closes a resource whose gateway is gone, if it still has this version.
pub(super) fn closure(version: &str, now: &str) -> Json {
    json!({
        "metadata": {
            "resourceVersion": version,
            "labels": {"muster.giantswarm.io/status": "failed"},
        },
        "spec": {"status": "failed", "error": GONE, "completedAt": now},
    })
}

fn is_interrupted(error: Option<&str>) -> bool {
    error.is_some_and(|error| error.starts_with(INTERRUPTED))
}

fn members(value: Json) -> JsonObject {
    match value {
        Json::Object(members) => members,
        _ => JsonObject::new(),
    }
}

/// Whether a text can be the value of a label.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && bytes.iter().copied().all(is_inner)
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

/// Cuts a spec to a size that the API server stores.
fn fitted(mut spec: Spec) -> Spec {
    for error in spec.steps.iter_mut().map(|step| &mut step.error).chain([&mut spec.error]) {
        if let Some(text) = error
            && let Some((end, _)) = text.char_indices().nth(MAX_ERROR)
        {
            text.truncate(end);
            spec.truncated = true;
        }
    }
    let cuts: [fn(&mut Spec); 3] = [
        |spec| {
            for step in &mut spec.steps {
                (step.input, step.result) = (Json::Null, Json::Null);
            }
        },
        |spec| spec.steps.clear(),
        |spec| (spec.input, spec.result, spec.definition) = (Json::Null, Json::Null, Json::Null),
    ];
    for cut in cuts {
        if serde_json::to_vec(&spec).map_or(0, |text| text.len()) <= MAX_SIZE {
            break;
        }
        spec.truncated = true;
        cut(&mut spec);
    }
    spec
}

impl Spec {
    fn of(record: RunRecord) -> Self {
        let status = match record.status {
            RunState::Interrupted => RunState::Failed,
            status => status,
        };
        Self {
            workflow_name: record.workflow_name,
            status: status.as_str().to_owned(),
            started_at: record.started_at,
            completed_at: record.completed_at,
            duration_ms: record.duration_ms,
            input: Json::Object(record.input),
            result: record.result,
            error: record.error,
            steps: record.steps.into_iter().map(Step::of).collect(),
            truncated: record.truncated,
            owner: record.owner,
            definition: record.definition.map(Json::Object).unwrap_or_default(),
        }
    }
}

impl Step {
    fn of(step: StepRecord) -> Self {
        let status = match step.status {
            // Its error says that it is not known whether it was carried out.
            StepState::Interrupted => StepState::Failed,
            status => status,
        };
        Self {
            step_id: step.step_id,
            tool: step.tool,
            status: status.as_str().to_owned(),
            started_at: step.started_at,
            completed_at: step.completed_at,
            duration_ms: step.duration_ms,
            input: Json::Object(step.input),
            result: step.result,
            error: step.error,
            stored_as: step.stored_as,
        }
    }

    fn record(self) -> StepRecord {
        StepRecord {
            step_id: self.step_id,
            tool: self.tool,
            status: StepState::of(&self.status),
            started_at: self.started_at,
            completed_at: self.completed_at,
            duration_ms: self.duration_ms,
            input: members(self.input),
            result: self.result,
            error: self.error,
            stored_as: self.stored_as,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_workflow::{
        JsonObject,
        record::{JournalTime, RunRecord, RunState, StepRecord},
        report::StepState,
    };
    use serde_json::{Value as Json, json};

    use super::{MAX_SIZE, has_ended, manifest, record};

    fn step(id: &str, result: Json) -> StepRecord {
        StepRecord {
            step_id: id.to_owned(),
            tool: "x_a".to_owned(),
            status: StepState::Completed,
            started_at: "2026-02-04T10:00:00Z".to_owned(),
            completed_at: Some("2026-02-04T10:00:01Z".to_owned()),
            duration_ms: 1000,
            input: JsonObject::from_iter([("n".to_owned(), json!(1))]),
            result,
            error: None,
            stored_as: id.to_owned(),
        }
    }

    fn run(workflow: &str) -> RunRecord {
        let at = JournalTime { text: "2026-02-04T10:00:00Z".to_owned(), ms: 0 };
        let input = JsonObject::from_iter([("app".to_owned(), json!("shop"))]);
        RunRecord {
            status: RunState::Completed,
            completed_at: Some("2026-02-04T10:00:05Z".to_owned()),
            duration_ms: 5000,
            owner: Some("https://idp|ann".to_owned()),
            result: json!({"ok": true}),
            steps: vec![step("one", json!({"v": 1}))],
            ..RunRecord::begun("0f3b-1".to_owned(), workflow.to_owned(), input, &at)
        }
    }

    #[test]
    fn a_record_is_the_same_after_it_was_a_resource() {
        let object = manifest("ns", run("deploy"));
        assert_eq!(
            object["metadata"],
            json!({
                "name": "0f3b-1",
                "namespace": "ns",
                "labels": {
                    "muster.giantswarm.io/workflow": "deploy",
                    "muster.giantswarm.io/status": "completed",
                },
            })
        );
        assert_eq!(object["spec"]["steps"][0]["stepId"], "one");
        assert_eq!(object["spec"]["durationMs"], 5000);
        assert_eq!(record(&object), Some(run("deploy")));
        assert!(has_ended(&object));
        // A blank is invalid in a label, so the label is left out.
        let object = manifest("ns", run("with blank"));
        assert_eq!(
            object["metadata"]["labels"],
            json!({"muster.giantswarm.io/status": "completed"})
        );
        assert_eq!(record(&json!({"metadata": {"name": "a"}, "spec": {"status": "odd"}})), None);
    }

    #[test]
    fn resources_know_three_states() {
        let error = Some("interrupted: the gateway ended between two steps".to_owned());
        let unknown = StepRecord { status: StepState::Interrupted, ..step("one", Json::Null) };
        let (status, steps) = (RunState::Interrupted, vec![unknown]);
        let object = manifest("ns", RunRecord { status, error, steps, ..run("w") });
        assert_eq!(
            (&object["spec"]["status"], &object["spec"]["steps"][0]["status"]),
            (&json!("failed"), &json!("failed"),)
        );
        assert_eq!(record(&object).unwrap().status, RunState::Interrupted);
        assert!(!has_ended(&object), "it may be continued");
        let (status, error) = (RunState::Failed, Some("step one failed".to_owned()));
        let object = manifest("ns", RunRecord { status, error, ..run("w") });
        assert_eq!(record(&object).unwrap().status, RunState::Failed);
        assert!(has_ended(&object));
        let running = RunRecord { status: RunState::Inprogress, ..run("w") };
        assert!(!has_ended(&manifest("ns", running)));
    }

    #[test]
    fn no_record_is_too_large_for_the_api_server() {
        let long = "x".repeat(30_000);
        let many = |error: Option<String>| -> Vec<StepRecord> {
            let step = |_| StepRecord { error: error.clone(), ..step("one", json!(long)) };
            (0..100).map(step).collect()
        };
        let size = |object: &Json| object.to_string().len();
        let object = manifest("ns", RunRecord { steps: many(None), ..run("w") });
        assert!(size(&object) < MAX_SIZE, "{}", size(&object));
        let steps = object["spec"]["steps"].as_array().unwrap();
        assert_eq!((steps.len(), &steps[0]["result"]), (100, &Json::Null));
        assert_eq!(object["spec"]["truncated"], true);
        assert_eq!(object["spec"]["result"], json!({"ok": true}));
        let object = manifest("ns", RunRecord { steps: many(Some(long.clone())), ..run("w") });
        assert!(size(&object) < MAX_SIZE, "{}", size(&object));
        assert_eq!(object["spec"]["steps"], json!([]));
        let (result, error) = (json!("x".repeat(MAX_SIZE)), Some(long.clone()));
        let object = manifest("ns", RunRecord { result, error, ..run("w") });
        assert!(size(&object) < MAX_SIZE, "{}", size(&object));
        assert_eq!(object["spec"]["result"], Json::Null);
    }
}
