//! The values and decisions of muster: everything that needs no I/O.
//!
//! **Invariant:** nothing here uses a clock, a socket, a file or a runtime. Everything is a value
//! or a pure function, so everything can be tested with a table of inputs.

pub mod arguments;
pub mod backend;
pub mod backoff;
pub mod call;
pub mod caller_directory;
pub mod catalog;
pub mod cli;
pub mod client;
pub mod connect;
pub mod credentials;
pub mod effect;
pub mod fields;
pub mod glob;
pub mod hex;
pub mod join;
pub mod json;
pub mod lock;
pub mod logins;
pub mod markup;
pub mod name;
pub mod next_step;
pub mod observer;
pub mod opaque_debug;
pub mod policy;
pub mod protocol_request;
pub mod python;
pub mod repair;
pub mod request;
pub mod schema;
pub mod secret;
pub mod secret_source;
pub mod secret_text;
pub mod server_auth;
pub mod shared;
pub mod spooled;
pub mod suggest;
pub mod text;
pub mod token_estimate;
pub mod trace_context;
pub mod value;
