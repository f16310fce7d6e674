//! `muster test`: a black-box tester that runs scenarios against a real `muster serve`.
//!
//! A scenario is a YAML file: the setup ([`scenario::PreConfiguration`]), the tools to call one after the
//! other, and the expected result of each. Every scenario gets its own process, directory, port and mock
//! servers; nothing is shared and nothing is left behind.
//!
//! **Invariant:** this crate never uses the code under test. It has its own client, its own mock servers and
//! its own JSON-RPC reader, so a mistake in the gateway cannot be hidden by the same mistake here.

pub mod budget;
pub mod builtin;
pub mod client;
pub mod duration;
pub mod expect;
pub mod go_format;
pub mod instance;
pub mod load;
pub mod mcp_server;
pub mod mock;
pub mod oauth;
pub mod options;
pub mod report;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod template;
pub mod wire;

mod context;
mod http;
mod step;
