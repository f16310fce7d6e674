//! The fields of a workflow.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldDefault::RequiredByCheck;
use FieldType::{Any, Boolean, Either, EnumByCheck, List, Map, Object, String};

/// A workflow.
pub static SPEC: FieldTable = FieldTable::new(
    "WorkflowSpec",
    "workflow",
    &[
        Field::nullable("description", String, EMPTY, "What it is for; agents find it by this"),
        Field::nullable(
            "args",
            Map(&Either(&[Object(&ARGUMENT), String])),
            NONE,
            "Its arguments by name: a type such as `string`, or a mapping",
        ),
        Field::nullable("steps", List(&Object(&STEP)), RequiredByCheck, "Its steps, in order")
            .at_least(1),
        Field::nullable(
            "onFailure",
            List(&Object(&INNER_STEP)),
            NONE,
            "Steps that run when a step fails that must not",
        )
        .in_calls("on_failure"),
        Field::nullable(
            "output",
            Any,
            FieldDefault::Unset("a report of the steps"),
            "Its result: a value with templates inside",
        ),
    ],
);

/// An argument of a workflow or of a service class.
pub static ARGUMENT: FieldTable = FieldTable::new(
    "ArgDefinition",
    "argument",
    &[
        Field::nullable(
            "type",
            EnumByCheck(&["string", "integer", "boolean", "number", "object", "array"]),
            RequiredByCheck,
            "The type of its value",
        ),
        Field::nullable("required", Boolean, FALSE, "Whether it must be given"),
        Field::nullable("default", Any, NONE, "Its value when none is given"),
        Field::nullable("description", String, EMPTY, "What it is for"),
    ],
);

const ID: &str = "Its name; later steps refer to its result as `{{ .results.<id> }}`";
const TOOL: &str = "The tool that it calls";

/// A step: a call of a tool, or a group of steps.
pub static STEP: FieldTable = FieldTable::new(
    "WorkflowStep",
    "step",
    &[
        Field::nullable("id", String, RequiredByCheck, ID),
        Field::nullable("tool", String, NONE, TOOL),
        Field::optional(
            "forEach",
            Object(&FOR_EACH),
            NONE,
            "In place of `tool`: runs steps for each item of a list",
        )
        .in_calls("for_each"),
        Field::optional(
            "parallel",
            List(&Object(&INNER_STEP)),
            NONE,
            "In place of `tool`: runs steps at the same time",
        ),
    ],
)
.including(&[&STEP_OPTIONS]);

/// A step inside a group, or after a failure.
pub static INNER_STEP: FieldTable = FieldTable::new(
    "WorkflowStep",
    "inner step",
    &[
        Field::nullable("id", String, RequiredByCheck, ID),
        Field::nullable("tool", String, RequiredByCheck, TOOL),
    ],
)
.including(&[&STEP_OPTIONS]);

/// The fields that every step may have.
static STEP_OPTIONS: FieldTable = FieldTable::new(
    "WorkflowStep",
    "step",
    &[
        Field::nullable("args", Map(&Any), NONE, "Arguments of the tool, templates inside"),
        Field::nullable(
            "condition",
            Object(&CONDITION),
            FieldDefault::Unset("the step always runs"),
            "When it runs: if a template is true, or if a tool or an earlier step gives the expected result",
        ),
        Field::nullable(
            "allowFailure",
            Boolean,
            FALSE,
            "Whether the workflow continues when the step fails",
        )
        .in_calls("allow_failure"),
        Field::nullable("outputs", Map(&Any), NONE, "Accepted for compatibility"),
        Field::nullable(
            "output",
            Boolean,
            FieldDefault::Unset("the value of `store`"),
            "Whether its result is part of the workflow's result",
        ),
        Field::nullable("store", Boolean, FALSE, "Older name of `output`"),
        Field::nullable(
            "idempotent",
            Boolean,
            FALSE,
            "Whether it may safely run twice: a run that was interrupted in it resumes with it",
        ),
        Field::nullable("description", String, EMPTY, "What it is for"),
    ],
);

/// Steps for each item of a list.
pub static FOR_EACH: FieldTable = FieldTable::new(
    "WorkflowForEach",
    "forEach",
    &[
        Field::required(
            "items",
            Any,
            "The list, or a template that gives one: `{{ .input.clusters }}`",
        ),
        Field::nullable(
            "as",
            String,
            FieldDefault::Json("\"item\""),
            "The name of the current item: `{{ .vars.<as> }}`",
        ),
        Field::nullable("steps", List(&Object(&INNER_STEP)), RequiredByCheck, "The steps"),
    ],
);

/// When a step runs.
pub static CONDITION: FieldTable = FieldTable::new(
    "WorkflowCondition",
    "condition",
    &[
        Field::nullable("template", String, NONE, "A template that is true or false"),
        Field::nullable("tool", String, NONE, "A tool to call"),
        Field::nullable("args", Map(&Any), NONE, "Arguments of that tool, templates inside"),
        Field::nullable("fromStep", String, NONE, "An earlier step").in_calls("from_step"),
        Field::nullable("expect", Object(&EXPECTATION), NONE, "Conditions that the result meets"),
        Field::nullable(
            "expectNot",
            Object(&EXPECTATION),
            NONE,
            "Conditions that the result does not meet",
        )
        .in_calls("expect_not"),
    ],
);

/// Values that a result must have, in the expectation of a step and of a health check.
pub const JSON_PATH: Field = Field::nullable(
    "jsonPath",
    Map(&Any),
    NONE,
    "Values by dot path: `{\"pod.state\": \"ready\"}`",
)
.in_calls("json_path");

/// Conditions on a result.
pub static EXPECTATION: FieldTable = FieldTable::new(
    "WorkflowConditionExpectation",
    "expectation",
    &[Field::nullable("success", Boolean, FALSE, "Whether the call succeeded"), JSON_PATH],
);
