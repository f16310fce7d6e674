//! The engine with real files, scripted servers and a clock that tests control.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    reason = "a test may panic, and scripts are shared by a lock"
)]

#[path = "suite/audit.rs"]
mod audit;
#[path = "suite/clis.rs"]
mod clis;
#[path = "suite/core_tools.rs"]
mod core_tools;
#[path = "suite/fake.rs"]
mod fake;
#[path = "suite/files.rs"]
mod files;
#[path = "suite/isolation.rs"]
mod isolation;
#[path = "suite/lists.rs"]
mod lists;
#[path = "suite/one_replica.rs"]
mod one_replica;
#[path = "suite/operators.rs"]
mod operators;
#[path = "suite/own_servers.rs"]
mod own_servers;
#[path = "suite/people.rs"]
mod people;
#[path = "suite/remote_store.rs"]
mod remote_store;
#[path = "suite/rig.rs"]
mod rig;
#[path = "suite/service_life.rs"]
mod service_life;
#[path = "suite/services.rs"]
mod services;
#[path = "suite/sso.rs"]
mod sso;
#[path = "suite/static_servers.rs"]
mod static_servers;
#[path = "suite/supervision.rs"]
mod supervision;
#[path = "suite/unsaved.rs"]
mod unsaved;
#[path = "suite/workflows.rs"]
mod workflows;
