//! The fields of a service.

use muster_core::fields::{FALSE, Field, FieldTable, FieldType, NONE};

use FieldType::{Any, Boolean, Map, String};

/// A service.
pub static SPEC: FieldTable = FieldTable::new(
    "ServiceSpec",
    "service",
    &[
        Field::required("serviceClassName", String, "Name of the service class"),
        Field::optional(
            "args",
            Map(&Any),
            NONE,
            "Arguments of the service, as its class defines them",
        )
        .or_null(),
        Field::optional("autoStart", Boolean, FALSE, "Whether it is started with the gateway")
            .or_null(),
    ],
);
