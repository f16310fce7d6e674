//! The fields of a service class.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldDefault::RequiredByCheck;
use FieldType::{Any, Boolean, Duration, Integer, List, Map, Object, Scalar, String};

use muster_workflow::fields::{ARGUMENT, JSON_PATH};

const COUNT: FieldType = Integer { min: 0, max: u32::MAX as i64 };

/// A service class.
pub static SPEC: FieldTable = FieldTable::new(
    "ServiceClassSpec",
    "service class",
    &[
        Field::nullable("description", String, EMPTY, "One line about the class"),
        Field::nullable(
            "args",
            Map(&Object(&ARGUMENT)),
            FieldDefault::Unset("any arguments"),
            "The arguments that a service is created with, by name",
        ),
        Field::required("serviceConfig", Object(&CONFIG), "How services of the class are run"),
    ],
);

/// How services are run.
pub static CONFIG: FieldTable = FieldTable::new(
    "ServiceConfig",
    "serviceConfig",
    &[
        Field::nullable("serviceType", String, NONE, "Accepted and ignored"),
        Field::nullable("defaultName", String, EMPTY, "A name to suggest for services"),
        Field::nullable(
            "dependencies",
            List(&String),
            NONE,
            "Services, MCP servers or service classes that must be running first",
        ),
        Field::nullable(
            "lifecycleTools",
            Object(&LIFECYCLE_TOOLS),
            RequiredByCheck,
            "The tools that start, stop and check services",
        ),
        Field::nullable(
            "healthCheck",
            Object(&HEALTH_CHECK),
            NONE,
            "How often the health check runs",
        ),
        Field::nullable("timeout", Object(&TIMEOUT), NONE, "Timeouts of the tools"),
        Field::nullable(
            "outputs",
            Map(&Any),
            NONE,
            "Values that a running service shows: name to template",
        ),
    ],
);

/// The tools of a class.
pub static LIFECYCLE_TOOLS: FieldTable = FieldTable::new(
    "LifecycleTools",
    "lifecycleTools",
    &[
        Field::nullable("start", Object(&TOOL), RequiredByCheck, "Starts a service"),
        Field::nullable("stop", Object(&TOOL), RequiredByCheck, "Stops it"),
        Field::nullable(
            "restart",
            Object(&TOOL),
            FieldDefault::Unset("`stop`, then `start`"),
            "Restarts it",
        ),
        Field::nullable(
            "status",
            Object(&TOOL),
            NONE,
            "Reports details when its status is requested",
        ),
        Field::nullable("healthCheck", Object(&HEALTH_TOOL), NONE, "Checks its health"),
    ],
);

/// A call of a tool.
pub static TOOL: FieldTable = FieldTable::new(
    "ToolCall",
    "tool call",
    &[
        Field::nullable("tool", String, RequiredByCheck, "Name of the tool"),
        Field::nullable(
            "args",
            Map(&Any),
            NONE,
            "Its arguments; texts may contain `{{ .name }}`, `{{ .args.x }}`, `{{ .start.x }}`",
        ),
        Field::nullable(
            "outputs",
            Map(&Scalar),
            NONE,
            "Values to store from its JSON result: name to dot path",
        ),
    ],
);

/// A call of a health check tool.
pub static HEALTH_TOOL: FieldTable = FieldTable::new(
    "HealthCheckToolCall",
    "health check call",
    &[
        Field::nullable("tool", String, RequiredByCheck, "Name of the tool"),
        Field::nullable("args", Map(&Any), NONE, "Its arguments, templates inside"),
        Field::nullable(
            "expect",
            Object(&EXPECTATION),
            NONE,
            "Conditions that a healthy result meets",
        ),
        Field::nullable(
            "expectNot",
            Object(&EXPECTATION),
            NONE,
            "Conditions that a healthy result does not meet",
        )
        .in_calls("expect_not"),
    ],
);

/// Conditions on a result.
pub static EXPECTATION: FieldTable = FieldTable::new(
    "HealthCheckExpectation",
    "expectation",
    &[Field::nullable("success", Boolean, NONE, "Whether the call succeeded"), JSON_PATH],
);

/// How often health is checked.
pub static HEALTH_CHECK: FieldTable = FieldTable::new(
    "HealthCheckConfig",
    "healthCheck",
    &[
        Field::nullable("enabled", Boolean, FALSE, "Whether health is checked"),
        Field::nullable(
            "interval",
            Duration,
            FieldDefault::Unset("`30s`"),
            "The pause between two checks",
        ),
        Field::nullable(
            "failureThreshold",
            COUNT,
            FieldDefault::Json("3"),
            "Failed checks in a row that make a service unhealthy",
        ),
        Field::nullable(
            "successThreshold",
            COUNT,
            FieldDefault::Json("1"),
            "Successful checks in a row that make it healthy again",
        ),
    ],
);

/// Timeouts of the tools.
pub static TIMEOUT: FieldTable = FieldTable::new(
    "TimeoutConfig",
    "timeout",
    &[
        Field::nullable("create", Duration, FieldDefault::Unset("`10s`"), "Timeout of `start`"),
        Field::nullable("delete", Duration, FieldDefault::Unset("`10s`"), "Timeout of `stop`"),
        Field::nullable(
            "healthCheck",
            Duration,
            FieldDefault::Unset("`10s`"),
            "Timeout of a health check",
        ),
    ],
);
