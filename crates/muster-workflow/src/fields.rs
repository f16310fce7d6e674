//! The fields of a workflow.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldDefault::RequiredByCheck;
use FieldType::{Any, Boolean, Either, EnumByCheck, List, Map, Object, String};

/// A workflow.
pub static SPEC: FieldTable = FieldTable::new(
    "WorkflowSpec",
    "workflow",
    &[
        Field::optional("description", String, EMPTY, "What it is for; agents find it by this")
            .or_null(),
        Field::optional(
            "args",
            Map(&Either(&[Object(&ARGUMENT), String])),
            NONE,
            "Its arguments by name: a type such as `string`, or a mapping",
        )
        .or_null(),
        Field::optional("steps", List(&Object(&STEP)), RequiredByCheck, "Its steps, in order")
            .at_least(1)
            .or_null(),
        Field::optional(
            "onFailure",
            List(&Object(&INNER_STEP)),
            NONE,
            "Steps that run when a step fails that must not",
        )
        .in_calls("on_failure")
        .or_null(),
        Field::optional(
            "output",
            Any,
            FieldDefault::Unset("a report of the steps"),
            "Its result: a value with templates inside",
        )
        .or_null(),
    ],
);

/// An argument of a workflow or of a service class.
pub static ARGUMENT: FieldTable = FieldTable::new(
    "ArgDefinition",
    "argument",
    &[
        Field::optional(
            "type",
            EnumByCheck(&["string", "integer", "boolean", "number", "object", "array"]),
            RequiredByCheck,
            "The type of its value",
        )
        .or_null(),
        Field::optional("required", Boolean, FALSE, "Whether it must be given").or_null(),
        Field::optional("default", Any, NONE, "Its value when none is given").or_null(),
        Field::optional("description", String, EMPTY, "What it is for").or_null(),
    ],
);

const ID: &str = "Its name; later steps refer to its result as `{{ .results.<id> }}`";
const TOOL: &str = "The tool that it calls";

/// A step: a call of a tool, or a group of steps.
pub static STEP: FieldTable = FieldTable::new(
    "WorkflowStep",
    "step",
    &[
        Field::optional("id", String, RequiredByCheck, ID).or_null(),
        Field::optional("tool", String, NONE, TOOL).or_null(),
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
        Field::optional("id", String, RequiredByCheck, ID).or_null(),
        Field::optional("tool", String, RequiredByCheck, TOOL).or_null(),
    ],
)
.including(&[&STEP_OPTIONS]);

/// The fields that every step may have.
static STEP_OPTIONS: FieldTable = FieldTable::new("WorkflowStep", "step", &[
    Field::optional("args", Map(&Any), NONE, "Arguments of the tool, templates inside").or_null(),
    Field::optional(
        "condition",
        Object(&CONDITION),
        FieldDefault::Unset("the step always runs"),
        "When it runs: if a template is true, or if a tool or an earlier step gives the expected result",
    )
    .or_null(),
    Field::optional(
        "allowFailure",
        Boolean,
        FALSE,
        "Whether the workflow continues when the step fails",
    )
    .in_calls("allow_failure")
    .or_null(),
    Field::optional("outputs", Map(&Any), NONE, "Accepted for compatibility").or_null(),
    Field::optional("store", Boolean, FALSE, "Whether its result is part of the workflow's result").or_null(),
    Field::optional("output", Boolean, FALSE, "Another name of `store`").legacy().or_null(),
    Field::optional(
        "idempotent",
        Boolean,
        FALSE,
        "Whether it may safely run twice: a run that was interrupted in it resumes with it",
    )
    .or_null(),
    Field::optional("description", String, EMPTY, "What it is for").or_null(),
]);

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
        Field::optional(
            "as",
            String,
            FieldDefault::Json("\"item\""),
            "The name of the current item: `{{ .vars.<as> }}`",
        )
        .or_null(),
        Field::optional("steps", List(&Object(&INNER_STEP)), RequiredByCheck, "The steps")
            .or_null(),
    ],
);

/// When a step runs.
pub static CONDITION: FieldTable = FieldTable::new(
    "WorkflowCondition",
    "condition",
    &[
        Field::optional("template", String, NONE, "A template that is true or false").or_null(),
        Field::optional("tool", String, NONE, "A tool to call").or_null(),
        Field::optional("args", Map(&Any), NONE, "Arguments of that tool, templates inside")
            .or_null(),
        Field::optional("fromStep", String, NONE, "An earlier step")
            .in_calls("from_step")
            .or_null(),
        Field::optional("expect", Object(&EXPECTATION), NONE, "Conditions that the result meets")
            .or_null(),
        Field::optional(
            "expectNot",
            Object(&EXPECTATION),
            NONE,
            "Conditions that the result does not meet",
        )
        .in_calls("expect_not")
        .or_null(),
    ],
);

/// Conditions on a result.
pub static EXPECTATION: FieldTable = FieldTable::new(
    "WorkflowConditionExpectation",
    "expectation",
    &[
        Field::optional("success", Boolean, FALSE, "Whether the call succeeded").or_null(),
        Field::optional(
            "jsonPath",
            Map(&Any),
            NONE,
            "Values by dot path: `{\"pod.state\": \"ready\"}`",
        )
        .in_calls("json_path")
        .or_null(),
    ],
);
