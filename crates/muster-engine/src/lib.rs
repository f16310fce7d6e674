//! The engine of `muster serve`: it keeps the state that the gateway routes calls by.
//!
//! **Invariant:** no wire, no terminal. [`engine::Engine`] starts and ends everything here; one task, the
//! reconciler, writes the state that [`muster_gateway::dispatch::Dispatcher`] reads.

mod backend_limits;
pub mod circuit_breaker;
pub mod cli_offer;
mod core_tools;
pub mod engine;
pub mod events;
pub mod execution_store;
mod handle;
mod leased_servers;
mod policies;
mod reconcile;
pub mod redact;
mod resource_status;
mod server_draft;
mod server_logs;
pub mod server_offer;
mod services;
pub mod state_folder;
pub mod static_servers;
pub mod status;
mod status_files;
pub mod store;
pub mod supervisor;
pub mod timing;
pub mod token_info;
mod unavailable_tools;
pub mod unmatched_rules;
pub mod user_connections;
pub mod view;
mod watch;
pub mod wide_grants;
mod workflows;
