//! The one call path, and the surfaces that present it to clients.
//!
//! **Invariant:** no store of definitions, no wire, no terminal, no process. Everything that runs a tool goes through
//! [`dispatch::Dispatcher`]; surfaces only decide what a client sees and how replies read.

pub mod absent;
mod background_job;
pub mod call_turns;
pub mod condition;
pub mod dispatch;
pub mod embeddings;
pub mod front;
mod inner_client;
mod input_rounds;
pub mod outputs;
pub mod replica_work;
pub mod step_runner;
pub mod surface;
mod suspended_calls;
