//! The one call path, what clients are shown of it, and the state behind it.
//!
//! **Invariant:** no wire, no terminal, no process. Everything that runs a tool goes through
//! [`dispatch::Dispatcher`]; surfaces only decide what a client is shown and how answers read.

mod bridge;
mod core_tools;
pub mod dispatch;
mod draft;
pub mod engine;
pub mod events;
pub mod fixed;
pub mod front;
mod handle;
mod limited;
pub mod meanings;
pub mod offer;
pub mod outputs;
mod parking;
mod policies;
pub mod principals;
mod reconcile;
pub mod redact;
mod services;
pub mod status;
mod status_files;
pub mod store;
pub mod supervisor;
pub mod surface;
pub mod vain;
pub mod view;
mod watch;
mod workflows;
