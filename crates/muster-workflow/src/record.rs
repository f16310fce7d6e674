//! The record of a run, and the journal that its record is restored from if the gateway ended during the run.

use muster_core::{caller_directory::LoginReference, effect::Effect, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    JsonObject, WorkflowSpec, definition,
    report::{StepReport, StepState, StepStatus},
    run::{CompletedSteps, json_size},
};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It is running.
    Inprogress,
    /// It completed.
    Completed,
    /// It failed.
    Failed,
    /// The gateway ended during the run.
    Interrupted,
}

impl RunState {
    /// Parses the name of a state.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Inprogress, Self::Completed, Self::Failed, Self::Interrupted]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Its name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inprogress => "inprogress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The id of the run.
    pub execution_id: String,
    /// The name of the workflow.
    pub workflow_name: String,
    /// The owner, who alone sees it; none without logins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its state.
    pub status: RunState,
    /// Its start, as RFC 3339.
    pub started_at: String,
    /// Its end, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// Its duration.
    #[serde(default)]
    pub duration_ms: u64,
    /// Its arguments.
    #[serde(default)]
    pub input: JsonObject,
    /// The definition of a workflow that is not saved, with the field names of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<JsonObject>,
    /// Its result, if it completed.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its steps.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
    /// Whether large values were left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The record of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The id of the step.
    pub step_id: String,
    /// The tool that it called.
    pub tool: String,
    /// Its status.
    pub status: StepState,
    /// Its start, as RFC 3339.
    pub started_at: String,
    /// Its end, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// Its duration.
    #[serde(default)]
    pub duration_ms: u64,
    /// The arguments of the call.
    #[serde(default)]
    pub input: JsonObject,
    /// Its result, if stored.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The name by which later steps refer to its result.
    #[serde(default)]
    pub stored_as: String,
}

/// The size of a record beyond which its large values are left out.
const MAX_RECORD: usize = 256 * 1024;
/// The size of a value that stays in a large record.
const MAX_VALUE: usize = 32 * 1024;
/// The size of all steps of a record together. Steps beyond it have no values, and then there are none.
const MAX_STEPS: usize = 4 << 20;
const TRUNCATED: &str = "[truncated: payload exceeded retention size limit]";

const UNKNOWN_EFFECT: &str = "it is not known whether it was carried out";

impl StepRecord {
    /// The record of a step that ran between two times.
    pub fn new(report: &StepReport, began: &JournalTime, ended: &JournalTime) -> Self {
        Self {
            step_id: report.id.clone(),
            tool: report.tool.clone(),
            status: report.status.into(),
            started_at: began.text.clone(),
            completed_at: Some(ended.text.clone()),
            duration_ms: ended.since(began),
            input: report.input.clone(),
            result: report.recorded(),
            error: report.error.clone(),
            stored_as: report.result_name(),
        }
    }
}

/// A time, as text and as milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalTime {
    /// RFC 3339.
    pub text: String,
    /// Milliseconds since the Unix epoch.
    pub ms: i64,
}

impl JournalTime {
    /// The milliseconds between two times; zero if the clock was set back.
    pub fn since(&self, before: &Self) -> u64 {
        u64::try_from(self.ms.saturating_sub(before.ms)).unwrap_or_default()
    }
}

/// A line of the journal of a running workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum JournalEntry {
    /// The run started.
    Opened {
        /// The time.
        at: JournalTime,
        /// The start of the run.
        #[serde(flatten)]
        opened: Box<RunStart>,
    },
    /// A step started. From now on its effect may exist.
    Begins {
        /// The time.
        at: JournalTime,
        /// The step.
        step: String,
        /// The tool that it calls.
        tool: String,
    },
    /// A step ended.
    Ended {
        /// The time.
        at: JournalTime,
        /// Its report.
        report: Box<StepReport>,
        /// Its value for later steps.
        #[serde(default)]
        value: Json,
    },
}

/// The start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Its record so far.
    pub record: RunRecord,
    /// Its owner.
    pub subject: String,
    /// The name of the static token that its caller presented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The login of its caller, if the gateway issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginReference>,
    /// The toolset that its caller is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// Whether its caller may change the gateway.
    #[serde(default)]
    pub operator: bool,
    /// The number of calls above it.
    pub depth: u8,
    /// The worst effect that its tools may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_effect: Option<Effect>,
    /// The fingerprint of the workflow, whose definition may change between runs.
    pub definition: String,
    /// Whether the journal is shared with other replicas, one of which continues the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A parsed journal.
#[derive(Debug, Clone, Default)]
pub struct RunJournal {
    /// The start of the run.
    pub opened: Option<RunStart>,
    /// The steps that ended, in order.
    pub ended: Vec<(StepReport, Json, JournalTime, JournalTime)>,
    /// The steps that started and did not end.
    pub open: Vec<(String, String, JournalTime)>,
    /// The time of the first line.
    pub first: JournalTime,
    /// The time of the last line.
    pub last: JournalTime,
}

impl RunJournal {
    /// Parses a journal. An incomplete last line is ignored: the gateway ended while writing it.
    pub fn read(journal: &str) -> Self {
        let mut story = Self::default();
        for line in
            journal.lines().map_while(|line| serde_json::from_str::<JournalEntry>(line).ok())
        {
            match line {
                JournalEntry::Opened { at, opened } => {
                    story.opened = Some(*opened);
                    story.first.clone_from(&at);
                    story.last = at;
                }
                JournalEntry::Begins { at, step, tool } => {
                    story.last = at.clone();
                    story.open.push((step, tool, at));
                }
                JournalEntry::Ended { at, report, value } => {
                    let key = report.key();
                    let place = story.open.iter().position(|(step, ..)| *step == key);
                    let began = place.map(|place| story.open.remove(place).2);
                    story.last = at.clone();
                    let began = began.unwrap_or_else(|| at.clone());
                    story.ended.push((*report, value, began, at));
                }
            }
        }
        story
    }

    /// The completed steps that a resumed run skips; `None` if resuming could repeat an effect.
    ///
    /// A run can be resumed only if the workflow is unchanged, no step failed, and every step that may not
    /// have ended is idempotent.
    pub fn resumable(&self, spec: &WorkflowSpec) -> Option<CompletedSteps> {
        let RunStart { depth, definition, .. } = self.opened.as_ref()?;
        let failed = self.ended.iter().any(|(report, ..)| match report.status {
            StepStatus::Failed => !report.allow_failure,
            // Its result was not kept.
            StepStatus::Completed => report.error.is_some(),
            StepStatus::Skipped => false,
        });
        if *depth > 0 || failed || *definition != fingerprint(spec) {
            return None;
        }
        let ended = |id: &str| {
            self.ended.iter().any(|(report, ..)| report.key() == id)
                && !self.open.iter().any(|(step, ..)| step == id)
        };
        let safe = spec.steps.iter().all(|step| match step.inner() {
            [] => step.idempotent || ended(&step.id),
            inner => inner.iter().all(|inner| step.idempotent || inner.idempotent),
        });
        let past = self
            .ended
            .iter()
            .map(|(report, value, ..)| (report.key(), (report.clone(), value.clone())));
        safe.then(|| past.collect())
    }

    /// The records of the steps.
    pub fn steps(&self) -> Vec<StepRecord> {
        let ended =
            self.ended.iter().map(|(report, _, began, at)| StepRecord::new(report, began, at));
        let open = self.open.iter().map(|(key, tool, at)| StepRecord {
            step_id: result_name(key).to_owned(),
            tool: tool.clone(),
            status: StepState::Interrupted,
            started_at: at.text.clone(),
            completed_at: None,
            duration_ms: 0,
            input: JsonObject::new(),
            result: Json::Null,
            error: Some(format!("the gateway ended while it ran; {UNKNOWN_EFFECT}")),
            stored_as: result_name(key).to_owned(),
        });
        ended.chain(open).collect()
    }
}

/// The name of a step's result, from the key of the step.
fn result_name(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// A digest of a definition, by which two runs can be compared.
pub fn fingerprint(spec: &WorkflowSpec) -> String {
    use sha2::Digest as _;

    let text = Json::Object(spec.to_file()).to_string();
    let digest = sha2::Sha256::digest(text.as_bytes());
    hex::encode(digest.get(..16).unwrap_or(&digest))
}

impl RunRecord {
    /// The record of a run that starts.
    pub fn begun(id: String, workflow: String, input: JsonObject, at: &JournalTime) -> Self {
        Self {
            execution_id: id,
            workflow_name: workflow,
            owner: None,
            status: RunState::Inprogress,
            started_at: at.text.clone(),
            completed_at: None,
            duration_ms: 0,
            input,
            definition: None,
            result: Json::Null,
            error: None,
            steps: Vec::new(),
            truncated: false,
        }
    }

    /// The definition of the workflow, if it is not saved and can still be read.
    pub fn unsaved(&self) -> Option<WorkflowSpec> {
        let definition = Json::Object(self.definition.clone()?);
        definition::read(&definition).ok().map(|parsed| parsed.spec)
    }

    /// The record of an interrupted run, completed from its journal.
    pub fn interrupted(self, story: &RunJournal) -> Self {
        let error = match story.open.first() {
            Some((key, ..)) => {
                let step = result_name(key);
                format!("interrupted: the gateway ended while step {step} ran; {UNKNOWN_EFFECT}")
            }
            None => "interrupted: the gateway ended between two steps".to_owned(),
        };
        let last = Some(&story.last.text).filter(|last| !last.is_empty());
        let completed_at = last.unwrap_or(&self.started_at).clone();
        Self {
            status: RunState::Interrupted,
            completed_at: Some(completed_at),
            duration_ms: story.last.since(&story.first),
            error: Some(error),
            steps: story.steps(),
            ..self
        }
    }

    /// The record as it is stored: in a large one, large values are replaced by a marker.
    pub fn bounded(mut self) -> Self {
        if json_size(&self) <= MAX_RECORD {
            return self;
        }
        let cut = |input: &mut JsonObject, result: &mut Json| {
            let mut cut = false;
            if json_size(input) > MAX_VALUE {
                *input = JsonObject::from_iter([("_truncated".to_owned(), TRUNCATED.into())]);
                cut = true;
            }
            if json_size(result) > MAX_VALUE {
                *result = TRUNCATED.into();
                cut = true;
            }
            cut
        };
        self.truncated |= cut(&mut self.input, &mut self.result);
        let (mut total, mut kept) = (0, 0);
        for step in &mut self.steps {
            self.truncated |= cut(&mut step.input, &mut step.result);
            let mut size = json_size(step);
            if total + size > MAX_STEPS / 2 {
                self.truncated = true;
                step.input.clear();
                step.result = Json::Null;
                size = json_size(step);
            }
            total += size;
            kept += usize::from(total <= MAX_STEPS);
        }
        // The last step says how the run ended.
        if kept < self.steps.len()
            && let Some(last) = self.steps.pop()
        {
            self.steps.truncate(kept.saturating_sub(1));
            self.steps.push(last);
        }
        self
    }

    /// Its entry in lists.
    pub fn summary(&self) -> RunSummary {
        RunSummary {
            execution_id: self.execution_id.clone(),
            workflow_name: self.workflow_name.clone(),
            owner: self.owner.clone(),
            status: self.status,
            started_at: self.started_at.clone(),
            completed_at: self.completed_at.clone(),
            duration_ms: self.duration_ms,
            step_count: self.steps.len(),
            error: self.error.clone(),
        }
    }

    /// The record without its steps.
    pub fn without_steps(&self) -> Json {
        let mut object = object(self);
        object.remove("steps");
        object.remove("truncated");
        if let Some(Json::Object(result)) = object.get_mut("result") {
            result.remove("steps");
            result.remove("template_vars");
        }
        Json::Object(object)
    }

    /// The record with one of its steps only; `None` if it has no such step.
    pub fn only_step(&self, id: &str) -> Option<Json> {
        let by_id = self.steps.iter().find(|step| step.step_id == id);
        let step = by_id.or_else(|| self.steps.iter().find(|step| step.stored_as == id))?;
        let mut object = object(self);
        object.remove("result");
        object.remove("error");
        object.insert("steps".to_owned(), json!([step]));
        match &step.error {
            Some(error) => drop(object.insert("error".to_owned(), error.as_str().into())),
            None => drop(object.insert("input".to_owned(), json!({}))),
        }
        Some(Json::Object(object))
    }
}

fn object(record: &RunRecord) -> JsonObject {
    match serde_json::to_value(record) {
        Ok(Json::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The id of the run.
    pub execution_id: String,
    /// The name of the workflow.
    pub workflow_name: String,
    /// The owner; none without logins.
    #[serde(skip)]
    pub owner: Option<String>,
    /// Its state.
    pub status: RunState,
    /// Its start, as RFC 3339.
    pub started_at: String,
    /// Its end, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// Its duration.
    pub duration_ms: u64,
    /// The number of recorded steps.
    pub step_count: usize,
    /// The error, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests;
