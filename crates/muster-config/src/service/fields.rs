//! The fields of a service.

use muster_core::fields::{FALSE, Field, FieldTable, FieldType, NONE};

use FieldType::{Any, Boolean, Map, String};

/// A service.
pub static SPEC: FieldTable = FieldTable::new(
    "ServiceSpec",
    "service",
    &[
        Field::required("serviceClassName", String, "Name of the service class"),
        Field::nullable(
            "args",
            Map(&Any),
            NONE,
            "Arguments of the service, as its class defines them",
        ),
        Field::nullable("autoStart", Boolean, FALSE, "Whether it is started with the gateway"),
    ],
);
