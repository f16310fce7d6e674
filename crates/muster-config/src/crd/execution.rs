//! The record of one execution of a workflow, as a resource.

use muster_core::fields::{Field, FieldTable, FieldType, NONE};

use super::{Column, CustomResource};

use FieldType::{Any, Boolean, Enum, Integer, List, Object, String};

const MILLISECONDS: FieldType = Integer { min: 0, max: i64::MAX };
const STATES: FieldType = Enum(&["inprogress", "completed", "failed"]);

pub(super) const RESOURCE: CustomResource = CustomResource {
    kind: "WorkflowExecution",
    plural: "workflowexecutions",
    short: &["wfe"],
    about: "The record of one execution of a workflow; its name is the id of the execution",
    spec: &SPEC,
    status: None,
    columns: &[
        Column("Workflow", "string", ".spec.workflowName"),
        Column("Status", "string", ".spec.status"),
        Column("Duration(ms)", "integer", ".spec.durationMs"),
        Column("Started", "date", ".spec.startedAt"),
    ],
};

static SPEC: FieldTable = FieldTable::new(
    "WorkflowExecutionSpec",
    "execution",
    &[
        Field::required("workflowName", String, "The workflow"),
        Field::required("status", STATES, "Its state"),
        Field::required("startedAt", String, "When it started"),
        Field::optional("completedAt", String, NONE, "When it ended"),
        Field::optional("durationMs", MILLISECONDS, NONE, "How long it took, in milliseconds"),
        Field::optional("input", Any, NONE, "The arguments of the workflow"),
        Field::optional("result", Any, NONE, "The result of the workflow"),
        Field::optional("error", String, NONE, "Why it failed"),
        Field::optional("steps", List(&Object(&STEP)), NONE, "Its steps"),
        Field::optional("truncated", Boolean, NONE, "Whether long values were left out"),
        Field::optional(
            "definition",
            Any,
            NONE,
            "The definition of a workflow that was run without being saved",
        ),
        Field::optional("owner", String, NONE, "The caller that may see it; everybody without one"),
    ],
);

static STEP: FieldTable = FieldTable::new(
    "WorkflowExecutionStepRecord",
    "step",
    &[
        Field::required("stepId", String, "The step"),
        Field::required(
            "status",
            Enum(&["inprogress", "completed", "failed", "skipped"]),
            "Its state",
        ),
        Field::optional("tool", String, NONE, "The tool that it called"),
        Field::optional("startedAt", String, NONE, "When it started"),
        Field::optional("completedAt", String, NONE, "When it ended"),
        Field::optional("durationMs", MILLISECONDS, NONE, "How long it took, in milliseconds"),
        Field::optional("input", Any, NONE, "The arguments of the tool"),
        Field::optional("result", Any, NONE, "The result of the tool"),
        Field::optional("error", String, NONE, "Why it failed"),
        Field::optional("storedAs", String, NONE, "The name of its result in templates"),
    ],
);
