//! The engine of `muster serve`: it keeps the state that the gateway routes calls by.
//!
//! **Invariant:** no wire, no terminal. [`engine::Engine`] starts and ends everything here; one task, the
//! reconciler, writes the state that [`muster_gateway::dispatch::Dispatcher`] reads.

mod core_tools;
mod draft;
pub mod engine;
pub mod events;
mod handle;
mod limited;
pub mod offer;
mod policies;
pub mod principals;
mod reconcile;
pub mod redact;
mod services;
pub mod static_servers;
pub mod status;
mod status_files;
pub mod store;
pub mod supervisor;
pub mod vain;
pub mod view;
mod watch;
mod workflows;
