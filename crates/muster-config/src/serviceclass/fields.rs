//! The fields of a service class.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldDefault::RequiredByCheck;
use FieldType::{Any, Boolean, Duration, Integer, List, Map, Object, Scalar, String};

use muster_workflow::fields::ARGUMENT;

const COUNT: FieldType = Integer { min: 0, max: u32::MAX as i64 };

/// A service class.
pub static SPEC: FieldTable = FieldTable::new(
    "ServiceClassSpec",
    "service class",
    &[
        Field::optional("description", String, EMPTY, "One line about the class").or_null(),
        Field::optional(
            "args",
            Map(&Object(&ARGUMENT)),
            FieldDefault::Unset("any arguments"),
            "The arguments that a service is created with, by name",
        )
        .or_null(),
        Field::required("serviceConfig", Object(&CONFIG), "How services of the class are run"),
    ],
);

/// How services are run.
pub static CONFIG: FieldTable = FieldTable::new(
    "ServiceConfig",
    "serviceConfig",
    &[
        Field::optional("serviceType", String, NONE, "Accepted and ignored").or_null(),
        Field::optional("defaultName", String, EMPTY, "A name to suggest for services").or_null(),
        Field::optional(
            "dependencies",
            List(&String),
            NONE,
            "Services, MCP servers or service classes that must be running first",
        )
        .or_null(),
        Field::optional(
            "lifecycleTools",
            Object(&LIFECYCLE_TOOLS),
            RequiredByCheck,
            "The tools that start, stop and check services",
        )
        .or_null(),
        Field::optional(
            "healthCheck",
            Object(&HEALTH_CHECK),
            NONE,
            "How often the health check runs",
        )
        .or_null(),
        Field::optional("timeout", Object(&TIMEOUT), NONE, "Timeouts of the tools").or_null(),
        Field::optional(
            "outputs",
            Map(&Any),
            NONE,
            "Values that a running service shows: name to template",
        )
        .or_null(),
    ],
);

/// The tools of a class.
pub static LIFECYCLE_TOOLS: FieldTable = FieldTable::new(
    "LifecycleTools",
    "lifecycleTools",
    &[
        Field::optional("start", Object(&TOOL), RequiredByCheck, "Starts a service").or_null(),
        Field::optional("stop", Object(&TOOL), RequiredByCheck, "Stops it").or_null(),
        Field::optional(
            "restart",
            Object(&TOOL),
            FieldDefault::Unset("`stop`, then `start`"),
            "Restarts it",
        )
        .or_null(),
        Field::optional(
            "status",
            Object(&TOOL),
            NONE,
            "Reports details when its status is requested",
        )
        .or_null(),
        Field::optional("healthCheck", Object(&HEALTH_TOOL), NONE, "Checks its health").or_null(),
    ],
);

/// A call of a tool.
pub static TOOL: FieldTable = FieldTable::new(
    "ToolCall",
    "tool call",
    &[
        Field::optional("tool", String, RequiredByCheck, "Name of the tool").or_null(),
        Field::optional(
            "args",
            Map(&Any),
            NONE,
            "Its arguments; texts may contain `{{ .name }}`, `{{ .args.x }}`, `{{ .start.x }}`",
        )
        .or_null(),
        Field::optional(
            "outputs",
            Map(&Scalar),
            NONE,
            "Values to store from its JSON result: name to dot path",
        )
        .or_null(),
    ],
);

/// A call of a health check tool.
pub static HEALTH_TOOL: FieldTable = FieldTable::new(
    "HealthCheckToolCall",
    "health check call",
    &[
        Field::optional("tool", String, RequiredByCheck, "Name of the tool").or_null(),
        Field::optional("args", Map(&Any), NONE, "Its arguments, templates inside").or_null(),
        Field::optional(
            "expect",
            Object(&EXPECTATION),
            NONE,
            "Conditions that a healthy result meets",
        )
        .or_null(),
        Field::optional(
            "expectNot",
            Object(&EXPECTATION),
            NONE,
            "Conditions that a healthy result does not meet",
        )
        .in_calls("expect_not")
        .or_null(),
    ],
);

/// Conditions on a result.
pub static EXPECTATION: FieldTable = FieldTable::new(
    "HealthCheckExpectation",
    "expectation",
    &[
        Field::optional("success", Boolean, NONE, "Whether the call succeeded").or_null(),
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

/// How often health is checked.
pub static HEALTH_CHECK: FieldTable = FieldTable::new(
    "HealthCheckConfig",
    "healthCheck",
    &[
        Field::optional("enabled", Boolean, FALSE, "Whether health is checked").or_null(),
        Field::optional(
            "interval",
            Duration,
            FieldDefault::Unset("`30s`"),
            "The pause between two checks",
        )
        .or_null(),
        Field::optional(
            "failureThreshold",
            COUNT,
            FieldDefault::Json("3"),
            "Failed checks in a row that make a service unhealthy",
        )
        .or_null(),
        Field::optional(
            "successThreshold",
            COUNT,
            FieldDefault::Json("1"),
            "Successful checks in a row that make it healthy again",
        )
        .or_null(),
    ],
);

/// Timeouts of the tools.
pub static TIMEOUT: FieldTable = FieldTable::new(
    "TimeoutConfig",
    "timeout",
    &[
        Field::optional("create", Duration, FieldDefault::Unset("`10s`"), "Timeout of `start`")
            .or_null(),
        Field::optional("delete", Duration, FieldDefault::Unset("`10s`"), "Timeout of `stop`")
            .or_null(),
        Field::optional(
            "healthCheck",
            Duration,
            FieldDefault::Unset("`10s`"),
            "Timeout of a health check",
        )
        .or_null(),
    ],
);
