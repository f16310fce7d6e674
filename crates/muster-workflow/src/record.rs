//! What is kept of a run: its record, and the journal from which a record is made when the gateway
//! ended in the middle.

use muster_core::hex;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    JsonObject, WorkflowSpec,
    report::{StepReport, StepStatus},
    run::CompletedSteps,
};

/// How a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It runs.
    Inprogress,
    /// It came to its end.
    Completed,
    /// It did not.
    Failed,
    /// The gateway ended before it did.
    Interrupted,
}

impl RunState {
    /// The state that a word stands for.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Inprogress, Self::Completed, Self::Failed, Self::Interrupted]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// The word for it.
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
    /// Which run.
    pub execution_id: String,
    /// Of which workflow.
    pub workflow_name: String,
    /// Whose it is, where people log in; nobody else sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How it is doing.
    pub status: RunState,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// Its arguments.
    #[serde(default)]
    pub input: JsonObject,
    /// What it answered, where it came to its end.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its steps.
    #[serde(default)]
    pub steps: Vec<StepRecord>,
}

/// The record of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Which step.
    pub step_id: String,
    /// What it called.
    pub tool: String,
    /// How it ended; `interrupted` where nobody knows.
    pub status: String,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// What it called its tool with.
    #[serde(default)]
    pub input: JsonObject,
    /// What it answered, where that is kept.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Under which name later steps see it.
    #[serde(default)]
    pub stored_as: String,
}

/// A step that began and, as far as is known, has not ended.
const INTERRUPTED: &str = "interrupted";

impl StepRecord {
    /// What came of a step, between two moments.
    pub fn new(report: &StepReport, began: &JournalTime, ended: &JournalTime) -> Self {
        let status = match report.status {
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
        };
        Self {
            step_id: report.id.clone(),
            tool: report.tool.clone(),
            status: status.to_owned(),
            started_at: began.text.clone(),
            completed_at: Some(ended.text.clone()),
            duration_ms: ended.since(began),
            input: report.input.clone(),
            result: report.recorded(),
            error: report.error.clone(),
            stored_as: report.id.clone(),
        }
    }
}

/// A moment, as text and as milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalTime {
    /// RFC 3339.
    pub text: String,
    /// To reckon with.
    pub ms: i64,
}

impl JournalTime {
    /// Milliseconds between two moments; none where the clock was set back.
    pub fn since(&self, before: &Self) -> u64 {
        u64::try_from(self.ms.saturating_sub(before.ms)).unwrap_or_default()
    }
}

/// A line of the journal of a run that is not at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum JournalEntry {
    /// The run began.
    Opened {
        /// When.
        at: JournalTime,
        /// How it began.
        #[serde(flatten)]
        opened: Box<RunStart>,
    },
    /// A step began. From now on it may have been done.
    Begins {
        /// When.
        at: JournalTime,
        /// Which.
        step: String,
        /// What it calls.
        tool: String,
    },
    /// A step ended.
    Ended {
        /// When.
        at: JournalTime,
        /// What came of it.
        report: Box<StepReport>,
        /// What later steps see of it.
        #[serde(default)]
        value: Json,
    },
}

/// How a run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Its record, as far as there is one.
    pub record: RunRecord,
    /// Whose it is.
    pub subject: String,
    /// How many calls above it.
    pub depth: u8,
    /// What it does: another run of the same name may do something else.
    pub definition: String,
}

/// What a journal says.
#[derive(Debug, Clone, Default)]
pub struct RunJournal {
    /// How the run began.
    pub opened: Option<RunStart>,
    /// The steps that ended, in order.
    pub ended: Vec<(StepReport, Json, JournalTime, JournalTime)>,
    /// The steps that began and did not end.
    pub open: Vec<(String, String, JournalTime)>,
    /// When the last line was written.
    pub last: JournalTime,
}

impl RunJournal {
    /// Reads a journal. What was being written when the gateway ended is cut off at the end.
    pub fn read(journal: &str) -> Self {
        let mut story = Self::default();
        for line in
            journal.lines().map_while(|line| serde_json::from_str::<JournalEntry>(line).ok())
        {
            match line {
                JournalEntry::Opened { at, opened } => {
                    story.opened = Some(*opened);
                    story.last = at;
                }
                JournalEntry::Begins { at, step, tool } => {
                    story.last = at.clone();
                    story.open.push((step, tool, at));
                }
                JournalEntry::Ended { at, report, value } => {
                    let place = story.open.iter().position(|(step, ..)| *step == report.id);
                    let began = place.map(|place| story.open.remove(place).2);
                    story.last = at.clone();
                    let began = began.unwrap_or_else(|| at.clone());
                    story.ended.push((*report, value, began, at));
                }
            }
        }
        story
    }

    /// What a run that goes on need not do again; none where going on could do something twice.
    ///
    /// It goes on only if it is a whole run of a workflow that is still the same, no step of it failed,
    /// and every step that is not known to have ended is one that may be done twice.
    pub fn resumable(&self, spec: &WorkflowSpec) -> Option<CompletedSteps> {
        let RunStart { depth, definition, .. } = self.opened.as_ref()?;
        let failed = self
            .ended
            .iter()
            .any(|(report, ..)| report.status == StepStatus::Failed && !report.allow_failure);
        if *depth > 0 || failed || *definition != fingerprint(spec) {
            return None;
        }
        let ended = |id: &str| {
            let of_loop = |known: &str| {
                let number = known.strip_prefix(id).and_then(|rest| rest.strip_prefix('_'));
                number.is_some_and(|number| number.parse::<usize>().is_ok())
            };
            self.ended.iter().any(|(report, ..)| report.id == id)
                && !self.open.iter().any(|(step, ..)| step == id || of_loop(step))
        };
        let safe = spec.steps.iter().all(|step| match step.inner() {
            [] => step.idempotent || ended(&step.id),
            inner => inner.iter().all(|inner| step.idempotent || inner.idempotent),
        });
        let past = self
            .ended
            .iter()
            .map(|(report, value, ..)| (report.id.clone(), (report.clone(), value.clone())));
        safe.then(|| past.collect())
    }

    /// The steps as records keep them.
    pub fn steps(&self) -> Vec<StepRecord> {
        let ended =
            self.ended.iter().map(|(report, _, began, at)| StepRecord::new(report, began, at));
        let open = self.open.iter().map(|(step, tool, at)| StepRecord {
            step_id: step.clone(),
            tool: tool.clone(),
            status: INTERRUPTED.to_owned(),
            started_at: at.text.clone(),
            completed_at: None,
            duration_ms: 0,
            input: JsonObject::new(),
            result: Json::Null,
            error: Some(
                "the gateway ended while it ran; nobody knows whether it was done".to_owned(),
            ),
            stored_as: step.clone(),
        });
        ended.chain(open).collect()
    }
}

/// A definition in a form that two runs can be compared by.
pub fn fingerprint(spec: &WorkflowSpec) -> String {
    use sha2::Digest as _;

    let text = Json::Object(spec.to_file()).to_string();
    let digest = sha2::Sha256::digest(text.as_bytes());
    hex::encode(digest.get(..16).unwrap_or(&digest))
}

impl RunRecord {
    /// A run that begins.
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
            result: Json::Null,
            error: None,
            steps: Vec::new(),
        }
    }

    /// The same run, of which only the journal tells how far it came.
    pub fn interrupted(self, story: &RunJournal) -> Self {
        let error = match story.open.first() {
            Some((step, ..)) => format!(
                "interrupted: the gateway ended while step {step} ran; nobody knows whether it was done"
            ),
            None => "interrupted: the gateway ended between two steps".to_owned(),
        };
        let completed_at = match story.last.text.as_str() {
            "" => self.started_at.clone(),
            last => last.to_owned(),
        };
        Self {
            status: RunState::Interrupted,
            completed_at: Some(completed_at),
            error: Some(error),
            steps: story.steps(),
            ..self
        }
    }

    /// What a list shows of it.
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

    /// Without its steps.
    pub fn without_steps(&self) -> Json {
        let mut object = object(self);
        object.remove("steps");
        if let Some(Json::Object(result)) = object.get_mut("result") {
            result.remove("steps");
            result.remove("template_vars");
        }
        Json::Object(object)
    }

    /// With nothing but one of its steps; none where it has no such step.
    pub fn only_step(&self, id: &str) -> Option<Json> {
        let step = self.steps.iter().find(|step| step.step_id == id)?;
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

/// What a list shows of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Which run.
    pub execution_id: String,
    /// Of which workflow.
    pub workflow_name: String,
    /// Whose it is, where people log in.
    #[serde(skip)]
    pub owner: Option<String>,
    /// How it is doing.
    pub status: RunState,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// How many steps there are records of.
    pub step_count: usize,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests;
