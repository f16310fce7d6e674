//! The one call path, what clients are shown of it, and the state behind it.
//!
//! **Invariant:** no wire, no terminal, no process. Everything that runs a tool goes through
//! [`dispatch::Dispatcher`]; surfaces only decide what a client is shown and how answers read.

mod bridge;
pub mod dispatch;
pub mod front;
mod parking;
pub mod surface;
